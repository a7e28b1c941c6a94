"""The learning rate of a step, as a pure function: nothing to save, nothing to replay."""

import math
from collections.abc import Mapping
from typing import Literal

Schedule = Literal["cosine", "linear", "constant"]


def learning_rate(
    step: int, steps: int, peak: float, warmup_steps: int, final_share: float = 0.0, schedule: Schedule = "cosine"
) -> float:
    """Linear warm-up to ``peak`` over ``warmup_steps`` updates, then down to ``final_share * peak``, or constant.

    ``step`` counts updates from 0; every update of the run has a rate above zero (the first ``peak / warmup_steps``),
    the update after the last would have the final one. ``constant`` stays at the peak whatever ``final_share`` is.
    Raises ValueError if the warm-up is longer than the run, ``step`` lies outside it or the share isn't one.
    """
    return peak * rate_share(step, steps, warmup_steps, final_share, schedule)


def rate_share(
    step: int, steps: int, warmup_steps: int, final_share: float = 0.0, schedule: Schedule = "cosine"
) -> float:
    """The learning rate of a step as a share of its peak; see ``learning_rate``."""
    if not 0 <= step < steps or not 0 <= warmup_steps <= steps:
        raise ValueError(
            f"wanted 0 <= step < steps and 0 <= warmup_steps <= steps, found {step}, {warmup_steps}, {steps}"
        )
    if not 0 <= final_share <= 1:
        raise ValueError(f"final_share: wanted 0 to 1, found {final_share}")
    if step < warmup_steps:
        return (step + 1) / warmup_steps
    progress = (step - warmup_steps) / (steps - warmup_steps)
    match schedule:
        case "cosine":
            falling = 0.5 * (1 + math.cos(math.pi * progress))
        case "linear":
            falling = 1 - progress
        case "constant":
            return 1.0
        case _:
            raise ValueError(f"schedule: wanted cosine, linear or constant, found {schedule!r}")
    return final_share + (1 - final_share) * falling


def learning_rates(
    step: int,
    steps: int,
    peaks: Mapping[str, float],
    warmup_steps: int,
    final_share: float = 0.0,
    schedule: Schedule = "cosine",
) -> dict[str, float]:
    """{optimiser group: its learning rate} of a step; all follow one shape, each to its own peak."""
    share = rate_share(step, steps, warmup_steps, final_share, schedule)
    return {name: peak * share for name, peak in peaks.items()}
