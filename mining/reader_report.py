"""What reader data holds: positions of the gold tile with a chi-square test, tiles shown, compressions, tokens."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch

from tilewright.data_gen.records import ReaderExample
from tilewright.train.pixels import PixelPolicy
from tilewright.train.reader_cost import image_cost, mean

Sizes = Callable[[str], tuple[int, int]]  # tile_id -> width and height in px


def report_of(examples: Sequence[ReaderExample], sizes: Sizes, policy: PixelPolicy) -> dict[str, Any]:
    """Histograms of one split's rows; visual tokens are counted from sizes, by the number of tiles shown."""
    tokens: dict[int, list[int]] = {}
    enlarged = 0
    for example in examples:
        images = [image_cost(*sizes(tile_id), example.compression, policy) for tile_id in example.tile_ids]
        tokens.setdefault(len(images), []).append(sum(image.visual_tokens for image in images))
        enlarged += sum(image.enlarged for image in images)
    every = [count for counts in tokens.values() for count in counts]
    return {
        "examples": len(examples),
        "tiles_shown": histogram(len(example.tile_ids) for example in examples),
        "compression": histogram(f"{example.compression:g}" for example in examples),
        "gold_position": gold_positions(examples),
        "visual_tokens": {
            "mean": mean(every),
            "max": max(every, default=0),
            "sum": sum(every),
            "mean_by_tiles_shown": {str(k): mean(counts) for k, counts in sorted(tokens.items())},
            "images_enlarged_to_min_pixels": enlarged,
        },
    }


def gold_positions(examples: Sequence[ReaderExample]) -> dict[str, Any]:
    """Where the gold tile stands, by tiles shown, each with a chi-square test against equal shares; and all together.

    Sums of independent chi-squares are chi-square of the summed degrees of freedom (Pearson 1900).
    """
    positions: dict[int, Counter[int]] = {}
    for example in examples:
        if example.gold_position is not None:
            positions.setdefault(len(example.tile_ids), Counter())[example.gold_position] += 1
    found: dict[str, Any] = {}
    total, freedom = 0.0, 0
    for k, counts in sorted(positions.items()):
        statistic = chi_square([counts[position] for position in range(k)])
        total, freedom = total + statistic, freedom + k - 1
        found[f"of {k}"] = {
            "counts": [counts[position] for position in range(k)],
            "chi_square": round(statistic, 3),
            "p_value": p_value(statistic, k - 1),
        }
    return {
        "by_tiles_shown": found,
        "chi_square": round(total, 3),
        "degrees_of_freedom": freedom,
        "p_value": p_value(total, freedom),
    }


def chi_square(counts: Sequence[int]) -> float:
    """Pearson's statistic of ``counts`` against equal shares."""
    expected = sum(counts) / len(counts)
    return math.fsum((count - expected) ** 2 / expected for count in counts)


def p_value(statistic: float, freedom: int) -> float | None:
    """How often chance alone gives at least ``statistic``, to six digits; None without a degree of freedom.

    Only asymptotically right: of use from about five expected counts a position.
    """
    if freedom == 0:
        return None
    half = torch.tensor([freedom / 2, statistic / 2], dtype=torch.float64)
    return round(float(torch.special.gammaincc(half[0], half[1])), 6)


def histogram(values: Any) -> dict[str, int]:
    """How often each value comes, in order."""
    counts: Mapping[Any, int] = Counter(values)
    return {str(value): counts[value] for value in sorted(counts)}
