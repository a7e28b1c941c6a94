"""The chi-square test of the report, against closed forms and scipy's figures, and what it says of skewed positions."""

import hashlib
import math
import random

import pytest

from tilewright.data_gen.records import ReaderExample
from tilewright.mining.make_reader_data import fraction
from tilewright.mining.reader_report import chi_square, gold_positions, histogram, p_value, report_of
from tilewright.train.pixels import PixelPolicy

scipy_stats = pytest.importorskip("scipy.stats")


def row(number: int, k: int, position: int | None) -> ReaderExample:
    return ReaderExample(f"q{number}", "?", "a", tuple(f"t{i}" for i in range(k)), position, 2.0)


def test_chi_square_is_pearsons() -> None:
    assert chi_square([5, 5, 5]) == 0
    assert chi_square([10, 0]) == 10
    counts = [random.Random(k).randint(1, 30) for k in range(6)]
    wanted = scipy_stats.chisquare(counts)
    assert chi_square(counts) == pytest.approx(wanted.statistic)
    assert p_value(chi_square(counts), 5) == pytest.approx(wanted.pvalue, abs=1e-6)
    assert p_value(3.0, 2) == pytest.approx(math.exp(-1.5), abs=1e-6)  # closed form of two degrees
    assert p_value(0.0, 0) is None


def test_a_constant_position_is_seen_and_a_uniform_one_passes() -> None:
    state = random.Random(5)
    uniform = [row(i, k, state.randrange(k)) for i, k in enumerate(state.choices(range(1, 7), k=900))]
    stuck = [row(i, k, 0) for i, k in enumerate(state.choices(range(1, 7), k=900))]
    found = gold_positions([*uniform, row(0, 3, None)])
    assert found["p_value"] > 0.01 and found["degrees_of_freedom"] == 0 + 1 + 2 + 3 + 4 + 5
    assert sum(sum(part["counts"]) for part in found["by_tiles_shown"].values()) == 900
    assert found["by_tiles_shown"]["of 1"]["p_value"] is None
    assert gold_positions(stuck)["p_value"] == 0.0
    assert gold_positions([])["p_value"] is None


def test_tokens_by_tiles_shown() -> None:
    """875 × 1024 px at 2× takes 437 tokens."""
    report = report_of([row(1, 1, 0), row(2, 3, None)], lambda _: (875, 1024), PixelPolicy(4096, 1 << 24))
    assert report["visual_tokens"] == {
        "mean": 874.0,
        "max": 3 * 437,
        "sum": 4 * 437,
        "mean_by_tiles_shown": {"1": 437.0, "3": 1311.0},
        "images_enlarged_to_min_pixels": 0,
    }
    assert report["tiles_shown"] == {"1": 1, "3": 1} and report["compression"] == {"2": 2}
    assert report_of([], lambda _: (1, 1), PixelPolicy(4096, 1 << 24))["visual_tokens"]["mean"] == 0


def test_fractions_are_of_their_parts() -> None:
    assert fraction(7, "a", "b") != fraction(7, "ab", "") and 0 <= fraction(0) < 1
    assert fraction(7, "a") == int.from_bytes(hashlib.sha256(b"7\x1fa").digest()[:8], "big") / 2**64


def test_histogram_is_in_order() -> None:
    assert list(histogram([10, 2, 2]).items()) == [("2", 2), ("10", 1)]
