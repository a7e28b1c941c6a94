"""Cluster bootstrap: against analytic standard errors, by determinism, by coverage."""

import math

import numpy as np
import pytest

from tilewright.eval.bootstrap import BOOTSTRAP, NOT_ESTIMABLE, WILSON, ClusterBootstrap, wilson

Z = 1.959964


def pages(count: int, each: int = 1) -> list[str]:
    return [f"page-{index:04d}" for index in range(count) for _ in range(each)]


def half_width(low: float | None, high: float | None) -> float:
    assert low is not None and high is not None
    return (high - low) / 2


def test_one_question_a_page_gives_the_standard_error_of_a_mean() -> None:
    values = (np.arange(400) % 4 == 0).astype(float)
    found = ClusterBootstrap(pages(400), resamples=4000, seed=1).mean(values)
    analytic = Z * math.sqrt(0.25 * 0.75 / 400)
    assert found.value == 0.25
    assert half_width(found.low, found.high) == pytest.approx(analytic, rel=0.06)
    assert (found.n_questions, found.n_pages, found.method) == (400, 400, BOOTSTRAP)


def test_alike_questions_of_a_page_count_as_one() -> None:
    """Ten copies of each question carry no more information than one: width by pages, not by questions."""
    single = (np.arange(100) % 2 == 0).astype(float)
    once = ClusterBootstrap(pages(100), resamples=2000, seed=0).mean(single)
    tenfold = ClusterBootstrap(pages(100, 10), resamples=2000, seed=0).mean(np.repeat(single, 10))
    assert (tenfold.low, tenfold.high) == pytest.approx((once.low, once.high), abs=1e-6)
    assert tenfold.n_questions == 1000


def test_unequal_pages_give_the_linearised_ratio_error() -> None:
    """Second formula: delta method for a ratio of page sums (Cochran, Sampling Techniques, 6.4)."""
    generator = np.random.default_rng(3)
    sizes = generator.integers(1, 9, size=300)
    names = [f"p{index:03d}" for index, size in enumerate(sizes) for _ in range(size)]
    rates = generator.random(300)
    values = np.concatenate([generator.random(size) < rate for size, rate in zip(sizes, rates, strict=True)]).astype(
        float
    )
    found = ClusterBootstrap(names, resamples=4000, seed=2).mean(values)
    sums = np.array([part.sum() for part in np.split(values, np.cumsum(sizes)[:-1])])
    residuals = sums - values.mean() * sizes
    analytic = Z * math.sqrt(300 * residuals.var(ddof=1)) / sizes.sum()
    assert half_width(found.low, found.high) == pytest.approx(analytic, rel=0.06)


def test_order_of_questions_and_repetition_change_nothing() -> None:
    generator = np.random.default_rng(0)
    names, values = pages(30, 3), generator.random(90)
    shuffled = generator.permutation(90)
    first = ClusterBootstrap(names, resamples=500, seed=7).mean(values)
    again = ClusterBootstrap([names[i] for i in shuffled], resamples=500, seed=7).mean(values[shuffled])
    other_seed = ClusterBootstrap(names, resamples=500, seed=8).mean(values)
    assert (first.low, first.high) == pytest.approx((again.low, again.high), abs=1e-6)
    assert (first.low, first.high) != (other_seed.low, other_seed.high)


def test_coverage_is_near_the_nominal_level() -> None:
    generator = np.random.default_rng(5)
    hits = 0
    for trial in range(200):
        rates = generator.beta(2, 3, size=40)
        values = (generator.random((40, 5)) < rates[:, None]).astype(float).ravel()
        found = ClusterBootstrap(pages(40, 5), resamples=400, seed=trial).mean(values)
        assert found.low is not None and found.high is not None
        hits += found.low <= 0.4 <= found.high
    assert 0.89 <= hits / 200 <= 0.985


def test_all_questions_alike_give_a_wilson_interval_over_pages() -> None:
    nothing = ClusterBootstrap(pages(20, 5), resamples=200, seed=0).mean(np.zeros(100))
    assert nothing.method == WILSON
    assert (nothing.value, nothing.low) == (0.0, pytest.approx(0.0))
    assert nothing.high == pytest.approx(Z**2 / (20 + Z**2), rel=1e-4)
    everything = ClusterBootstrap(pages(20), resamples=200, seed=0).mean(np.ones(20))
    assert everything.high == pytest.approx(1.0) and everything.low == pytest.approx(20 / (20 + Z**2), rel=1e-4)


def test_wilson_textbook_value() -> None:
    assert wilson(5, 10) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    with pytest.raises(ValueError, match="at least 1 trial"):
        wilson(0, 0)


def test_questions_that_do_not_count_are_left_out() -> None:
    values = np.array([1.0, math.nan, 0.0, math.nan, 1.0, 0.0])
    found = ClusterBootstrap(pages(3, 2), resamples=300, seed=0).mean(values)
    assert (found.value, found.n_questions, found.n_pages) == (0.5, 4, 3)
    assert ClusterBootstrap(pages(2), resamples=10, seed=0).mean(np.full(2, math.nan)).value is None


def test_one_page_has_a_mean_and_no_interval() -> None:
    found = ClusterBootstrap(pages(1, 4), resamples=50, seed=0).mean(np.array([1.0, 0.0, 1.0, 1.0]))
    assert (found.value, found.low, found.high, found.method) == (0.75, None, None, NOT_ESTIMABLE)


def test_paired_difference_is_narrower_than_the_parts_and_antisymmetric() -> None:
    generator = np.random.default_rng(1)
    base = generator.random(200)
    better = base + 0.1 + 0.02 * generator.standard_normal(200)
    bootstrap = ClusterBootstrap(pages(100, 2), resamples=1000, seed=0)
    gain, loss = bootstrap.difference(better, base), bootstrap.difference(base, better)
    assert gain.low is not None and gain.high is not None and gain.low > 0.09
    assert half_width(gain.low, gain.high) < half_width(bootstrap.mean(base).low, bootstrap.mean(base).high) / 5
    assert (loss.low, loss.high) == pytest.approx((-gain.high, -gain.low), abs=1e-6)


def test_equal_sides_have_no_interval() -> None:
    values = np.array([0.0, 1.0, 0.0, 1.0])
    found = ClusterBootstrap(pages(4), resamples=100, seed=0).difference(values, values)
    assert (found.value, found.low, found.high) == (0.0, None, None)


def test_wrong_shapes_and_settings_are_refused() -> None:
    with pytest.raises(ValueError, match="wanted 2 values"):
        ClusterBootstrap(pages(2), resamples=10, seed=0).mean(np.zeros(3))
    with pytest.raises(ValueError, match="resamples >= 1"):
        ClusterBootstrap(pages(2), resamples=0, seed=0)
