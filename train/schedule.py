"""The learning rate of a step, as a pure function: nothing to save, nothing to replay."""

import math


def learning_rate(step: int, steps: int, peak: float, warmup_steps: int, final_share: float = 0.0) -> float:
    """Linear warm-up to ``peak`` over ``warmup_steps`` updates, then a cosine down to ``final_share * peak``.

    ``step`` counts updates from 0; every update of the run has a rate above zero (the first ``peak / warmup_steps``).
    Raises ValueError if the warm-up is longer than the run or ``step`` lies outside it.
    """
    if not 0 <= step < steps or not 0 <= warmup_steps <= steps:
        raise ValueError(
            f"wanted 0 <= step < steps and 0 <= warmup_steps <= steps, found {step}, {warmup_steps}, {steps}"
        )
    if step < warmup_steps:
        return peak * (step + 1) / warmup_steps
    progress = (step - warmup_steps) / (steps - warmup_steps)
    return peak * (final_share + (1 - final_share) * 0.5 * (1 + math.cos(math.pi * progress)))
