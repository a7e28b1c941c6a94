"""Cells and comparisons: counts add up, closed forms, swapping negates, intervals cover."""

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.bootstrap import BOOTSTRAP, NOT_ESTIMABLE, WILSON_QUESTIONS, ClusterBootstrap, wilson
from tilewright.eval.statistics_cells import cell, choice_chance, compare, over_seeds
from tilewright.eval.statistics_paired import mcnemar

OUTCOME = st.sampled_from(["right", "wrong", "half", "error", "no gold"])
ROWS = st.lists(st.tuples(OUTCOME, OUTCOME, st.integers(0, 6)), min_size=1, max_size=40)
VALUES = {"right": 1.0, "wrong": 0.0, "half": 0.5, "error": math.nan, "no gold": math.nan}


def side(outcomes: list[str]) -> tuple[np.ndarray, np.ndarray]:
    return np.array([VALUES[one] for one in outcomes]), np.array([one == "error" for one in outcomes])


@given(ROWS, st.randoms(use_true_random=False))
def test_counts_add_up_order_does_not_matter_and_swapping_negates(
    rows: list[tuple[str, str, int]], random: "object"
) -> None:
    shuffled = list(rows)
    random.shuffle(shuffled)  # type: ignore[attr-defined]
    found = []
    for entries, swap in ((rows, False), (shuffled, False), (rows, True)):
        bootstrap = ClusterBootstrap([f"p{page}" for *_, page in entries], resamples=60, seed=1)
        (left, left_errors), (right, right_errors) = (side([entry[at] for entry in entries]) for at in (0, 1))
        if swap:
            left, left_errors, right, right_errors = right, right_errors, left, left_errors
        found.append(compare(bootstrap, left, right, left_errors, right_errors))
    one, again, swapped = found
    total = one.gained + one.lost + one.same + one.only_left + one.only_right + one.neither
    assert total == len(rows) and one.difference.n_questions == one.gained + one.lost + one.same
    for at, part in enumerate((one.left, one.right)):
        assert part.estimate.n_questions + part.n_errors + part.n_excluded == len(rows)
        assert part.n_errors == sum(row[at] == "error" for row in rows)
    assert (again.gained, again.lost, again.test, again.mcnemar) == (one.gained, one.lost, one.test, one.mcnemar)
    assert (swapped.gained, swapped.lost, swapped.only_left) == (one.lost, one.gained, one.only_right)
    assert (swapped.left, swapped.right, swapped.test) == (one.right, one.left, one.test)
    for name in ("value", "low", "high"):
        mirrored = {"value": "value", "low": "high", "high": "low"}[name]
        this, other, mirror = (getattr(x.difference, y) for x, y in ((one, name), (again, name), (swapped, mirrored)))
        if this is None:
            assert other is None and mirror is None
        else:
            assert math.isfinite(this) and other == pytest.approx(this, abs=1e-6)
            assert mirror == pytest.approx(-this, abs=1e-6)


def test_independent_questions_get_wilson_and_mcnemar() -> None:
    left = np.array([1.0] * 14 + [0.0] * 6)
    right = np.array([1.0] * 8 + [0.0] * 6 + [1.0] * 2 + [0.0] * 4)
    nothing = np.zeros(20, dtype=bool)
    bootstrap = ClusterBootstrap([f"p{n}" for n in range(20)], resamples=500, seed=0)
    found = compare(bootstrap, left, right, nothing, nothing)
    assert (found.gained, found.lost, found.same) == (6, 2, 12)
    assert found.mcnemar == mcnemar(6, 2) and found.test.p == pytest.approx(mcnemar(6, 2).exact)
    assert (found.left.estimate.low, found.left.estimate.high) == wilson(14, 20)
    assert found.left.estimate.method == WILSON_QUESTIONS and found.difference.method == BOOTSTRAP
    assert found.difference.value == pytest.approx(0.2)


def test_two_questions_of_a_page_leave_no_mcnemar() -> None:
    values, nothing = np.array([1.0, 0.0, 1.0, 1.0]), np.zeros(4, dtype=bool)
    bootstrap = ClusterBootstrap(["a", "a", "b", "c"], resamples=200, seed=0)
    found = compare(bootstrap, values, 1 - values, nothing, nothing)
    assert found.mcnemar is None and found.left.estimate.method == BOOTSTRAP
    scores = ClusterBootstrap(["a", "b"], resamples=200, seed=0)
    assert compare(scores, np.array([0.5, 1.0]), np.ones(2), nothing[:2], nothing[:2]).mcnemar is None


def test_nothing_that_counts_is_no_figure() -> None:
    bootstrap = ClusterBootstrap(["a", "b"], resamples=10, seed=0)
    failed = np.array([True, True])
    found = cell(bootstrap, np.full(2, math.nan), failed, np.full(2, 0.2))
    assert (found.estimate.value, found.estimate.method, found.estimate.n_questions) == (None, NOT_ESTIMABLE, 0)
    assert (found.n_errors, found.n_excluded, found.chance, found.above_chance) == (2, 0, None, None)
    both = compare(bootstrap, np.array([1.0, math.nan]), np.array([math.nan, 0.0]), ~failed, ~failed)
    assert (both.difference.value, both.test.p, both.mcnemar) == (None, None, None)


def test_chance_is_of_the_questions_that_count() -> None:
    chance = choice_chance([5, 4, 2, 0])
    assert list(chance[:3]) == [0.2, 0.25, 0.5] and math.isnan(chance[3])
    bootstrap = ClusterBootstrap(list("abcd"), resamples=50, seed=0)
    nothing = np.zeros(4, dtype=bool)
    values = np.array([1.0, 1.0, math.nan, math.nan])
    found = cell(bootstrap, values, nothing, chance)
    assert found.chance == pytest.approx(0.225) and found.above_chance and found.n_excluded == 2
    assert cell(bootstrap, np.array([1.0, 0.0, math.nan, math.nan]), nothing, chance).above_chance is False
    assert cell(bootstrap, np.ones(4), nothing, chance).chance is None  # unknown for one of them


def test_values_on_failed_questions_and_infinities_are_refused() -> None:
    bootstrap = ClusterBootstrap(["a", "b"], resamples=10, seed=0)
    failed = np.array([False, True])
    with pytest.raises(ValueError, match=r"NaN where a question failed, found 0.0 at 1"):
        cell(bootstrap, np.zeros(2), failed)
    with pytest.raises(ValueError, match="infinity at question 0"):
        cell(bootstrap, np.array([math.inf, math.nan]), failed)
    with pytest.raises(ValueError, match=r"shape \(2,\), found \(3,\)"):
        cell(bootstrap, np.zeros(3), failed)


@given(st.lists(st.floats(-1e6, 1e6), min_size=2, max_size=9), st.floats(-100, 100))
def test_seeds(figures: list[float], shift: float) -> None:
    found = over_seeds(figures)
    assert found.n == len(figures) and found.mean == pytest.approx(np.mean(figures), abs=1e-6)
    assert found.sd == pytest.approx(np.std(figures, ddof=1), abs=1e-6)
    assert over_seeds([x + shift for x in figures]).sd == pytest.approx(found.sd, abs=1e-3)
    assert over_seeds(list(reversed(figures))) == found


def test_one_seed_has_no_spread() -> None:
    assert over_seeds([0.5]).sd is None
    for wrong in ([], [0.1, math.nan]):
        with pytest.raises(ValueError, match="finite figures"):
            over_seeds(wrong)


@pytest.mark.slow
def test_intervals_of_differences_cover_the_true_difference() -> None:
    """Pages of several alike questions, two rows that share the page's difficulty: 95 % intervals, 600 worlds."""
    generator = np.random.default_rng(2)
    covered, narrow, nothing = 0, 0, np.zeros(240, dtype=bool)
    for trial in range(600):
        easy = generator.beta(2, 2, size=60)
        right = (generator.random((60, 4)) < easy[:, None] * 0.8).astype(float).ravel()
        left = (generator.random((60, 4)) < easy[:, None]).astype(float).ravel()
        bootstrap = ClusterBootstrap([f"p{n}" for n in range(60) for _ in range(4)], resamples=500, seed=trial)
        found = compare(bootstrap, left, right, nothing, nothing).difference
        assert found.low is not None and found.high is not None
        covered += found.low <= 0.1 <= found.high  # E[easy] * 0.2
        narrow += found.high - found.low < 0.25
    assert 0.92 <= covered / 600 <= 0.975 and narrow == 600
