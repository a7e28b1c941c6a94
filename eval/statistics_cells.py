"""What a table says of a row, and of two rows side by side: figures with n, interval, chance, and paired tests.

All functions take per-question values [Q], aligned with the questions of one ``ClusterBootstrap``. NaN marks a question
that doesn't count. ``errors`` [Q] says which of those failed (no answer, no verdict); the others have nothing to be
scored against (no gold page) and are left out of the figure by its definition.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tilewright.eval.bootstrap import (
    WILSON_QUESTIONS,
    ClusterBootstrap,
    Estimate,
    Values,
    wilson,
)
from tilewright.eval.statistics_paired import McNemar, PairedTest, mcnemar, sign_flips

Flags = NDArray[np.bool_]


@dataclass(frozen=True)
class Cell:
    """A row's figure. ``estimate.n_questions`` counted; with ``n_errors`` and ``n_excluded`` they are all questions.

    ``chance``: what guessing scores on the questions that counted, None if unknown.
    """

    estimate: Estimate
    n_errors: int
    n_excluded: int
    chance: float | None

    @property
    def above_chance(self) -> bool | None:
        """Whether the whole interval lies above chance; None where one of the two is unknown."""
        if self.chance is None or self.estimate.low is None:
            return None
        return self.estimate.low > self.chance


@dataclass(frozen=True)
class Comparison:
    """Two rows on the questions that count in both. ``difference``: left - right, its interval paired.

    ``gained``: how many questions left has higher, ``lost``: right; ``same``: neither. ``only_left`` and ``only_right``
    count in one row alone (the other failed), ``neither`` in none. ``test``: by pages. ``mcnemar``: only for right or
    wrong, one question a page; else None.
    """

    left: Cell
    right: Cell
    difference: Estimate
    gained: int
    lost: int
    same: int
    only_left: int
    only_right: int
    neither: int
    test: PairedTest
    mcnemar: McNemar | None


@dataclass(frozen=True)
class Seeds:
    """Runs that differ by their seed alone: ``mean`` and sample standard deviation ``sd`` (None for one run)."""

    n: int
    mean: float
    sd: float | None


def cell(bootstrap: ClusterBootstrap, values: Values, errors: Flags, chance: Values | None = None) -> Cell:
    """The figure of a row. ``chance`` [Q]: what guessing scores on each question.

    Interval: Wilson's if every question has a page of its own and is right or wrong, else the cluster bootstrap's.
    Raises ValueError for other shapes, an infinite value, or a value on a question that failed.
    """
    _check(bootstrap, values, errors)
    counts = np.isfinite(values)
    estimate = bootstrap.mean(values)
    if estimate.value is not None and bootstrap.independent and _is_binary(values[counts]):
        low, high = wilson(float(values[counts].sum()), estimate.n_questions, bootstrap.confidence)
        low, high = min(low, estimate.value), max(high, estimate.value)  # rounding at shares of 0 and 1
        estimate = Estimate(estimate.value, low, high, WILSON_QUESTIONS, estimate.n_questions, estimate.n_pages)
    expected = None
    if chance is not None and counts.any() and np.isfinite(chance[counts]).all():
        expected = math.fsum(chance[counts]) / int(counts.sum())
    failed = int(errors.sum())
    return Cell(estimate, failed, len(values) - estimate.n_questions - failed, expected)


def compare(
    bootstrap: ClusterBootstrap,
    left: Values,
    right: Values,
    left_errors: Flags,
    right_errors: Flags,
    *,
    chance: Values | None = None,
) -> Comparison:
    """Everything that a table cell needs to set ``left`` beside ``right``; swapping them negates it.

    The difference is over the questions that count in both rows, so it isn't the difference of the two figures where a
    row has errors. Errors as in ``cell``.
    """
    both = np.isfinite(left) & np.isfinite(right)
    sides = cell(bootstrap, left, left_errors, chance), cell(bootstrap, right, right_errors, chance)
    differences = np.where(both, left - right, np.nan)
    gained, lost = int((differences > 0).sum()), int((differences < 0).sum())
    independent = bootstrap.independent and _is_binary(left[both]) and _is_binary(right[both]) and bool(both.any())
    return Comparison(
        left=sides[0],
        right=sides[1],
        difference=bootstrap.difference(left, right),
        gained=gained,
        lost=lost,
        same=int(both.sum()) - gained - lost,
        only_left=int((np.isfinite(left) & ~both).sum()),
        only_right=int((np.isfinite(right) & ~both).sum()),
        neither=int((~np.isfinite(left) & ~np.isfinite(right)).sum()),
        test=sign_flips(differences, bootstrap.pages, draws=bootstrap.resamples, seed=bootstrap.seed),
        mcnemar=mcnemar(gained, lost) if independent else None,
    )


def over_seeds(figures: Sequence[float]) -> Seeds:
    """Mean and sample standard deviation (n - 1) of one figure over runs of several seeds.

    The spread is of training and sampling; it says nothing about other questions: those have their own interval.
    Raises ValueError for none, or for a figure that isn't finite.
    """
    if not figures or not all(map(math.isfinite, figures)):
        raise ValueError(f"wanted finite figures, one a seed, found {list(figures)}")
    mean = math.fsum(figures) / len(figures)
    if len(figures) == 1:
        return Seeds(1, mean, None)
    return Seeds(len(figures), mean, math.sqrt(math.fsum((x - mean) ** 2 for x in figures) / (len(figures) - 1)))


def choice_chance(options: Sequence[int]) -> Values:
    """[Q]: what guessing scores on questions with so many options; NaN for a question without options."""
    return np.array([1 / number if number else math.nan for number in options], dtype=np.float64)


def _is_binary(values: Values) -> bool:
    return bool(np.isin(values, (0.0, 1.0)).all())


def _check(bootstrap: ClusterBootstrap, values: Values, errors: Flags) -> None:
    wanted = (len(bootstrap.pages),)
    if values.shape != wanted or errors.shape != wanted:
        raise ValueError(f"wanted values and errors of shape {wanted}, found {values.shape} and {errors.shape}")
    if np.isinf(values).any():
        raise ValueError(f"wanted finite values or NaN, found infinity at question {int(np.isinf(values).argmax())}")
    both = np.isfinite(values) & errors
    if both.any():
        raise ValueError(f"wanted NaN where a question failed, found {values[both.argmax()]} at {int(both.argmax())}")
