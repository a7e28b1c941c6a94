"""Intervals for means over questions: a cluster bootstrap that resamples gold pages, because questions of one page
aren't independent (Davison & Hinkley, Bootstrap Methods, 1997, section 3.8; percentile interval, section 5.3)."""

import hashlib
import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
BOOTSTRAP = "cluster bootstrap over pages"
WILSON = "Wilson, one trial a page"  # all questions alike: a bootstrap would print a width of zero
WILSON_QUESTIONS = "Wilson, one question a page"
NOT_ESTIMABLE = "not estimable"


@dataclass(frozen=True)
class Estimate:
    """A mean with its interval; all three are None where there is nothing to average or to resample."""

    value: float | None
    low: float | None
    high: float | None
    method: str
    n_questions: int
    n_pages: int


class ClusterBootstrap:
    """Resamples of the pages of Q questions, drawn once: all measures and both sides of a pair see the same ones.

    ``pages`` [Q] names the gold page of each question. The draws depend on ``seed`` and the set of pages, not on
    their order. ``independent``: whether every question has a page of its own. Memory: resamples x pages x 4 bytes.
    """

    def __init__(self, pages: Sequence[str], *, resamples: int, seed: int, confidence: float = 0.95) -> None:
        if resamples < 1 or not 0 < confidence < 1:
            raise ValueError(f"wanted resamples >= 1 and 0 < confidence < 1, found {resamples} and {confidence}")
        names = sorted(set(pages))
        position = {name: index for index, name in enumerate(names)}
        self.pages, self.resamples, self.seed, self.confidence = tuple(pages), resamples, seed, confidence
        self.independent = len(names) == len(self.pages)
        self._page = np.array([position[page] for page in pages], dtype=np.int64)  # [Q]
        self._n_pages = len(names)
        digest = hashlib.sha256(f"cluster bootstrap/{seed}".encode()).digest()
        generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
        shares = np.full(max(self._n_pages, 1), 1 / max(self._n_pages, 1))
        self._times = generator.multinomial(self._n_pages, shares, size=resamples).astype(np.float32)  # [B, pages]

    def mean(self, values: Values) -> Estimate:
        """Mean of ``values`` [Q] with its interval; NaN marks a question that doesn't count (not graded)."""
        estimate = self._resampled(values)
        if estimate.method == BOOTSTRAP and estimate.low == estimate.high and estimate.value in (0.0, 1.0):
            low, high = wilson(estimate.value * estimate.n_pages, estimate.n_pages, self.confidence)
            return Estimate(estimate.value, low, high, WILSON, estimate.n_questions, estimate.n_pages)
        return estimate

    def difference(self, left: Values, right: Values) -> Estimate:
        """Mean of ``left - right`` over the questions that count on both sides, paired, same resamples.

        No interval is given when no question differs: nothing can be said about the size of rarer differences.
        """
        estimate = self._resampled(left - right)
        if estimate.low == estimate.high:
            return Estimate(estimate.value, None, None, NOT_ESTIMABLE, estimate.n_questions, estimate.n_pages)
        return estimate

    def _resampled(self, values: Values) -> Estimate:
        """Ratio of page sums to page counts in every resample; percentiles of that."""
        if values.shape != self._page.shape:
            raise ValueError(f"wanted {self._page.shape[0]} values, one a question, found shape {values.shape}")
        counts = np.isfinite(values)
        n_questions, pages = int(counts.sum()), np.unique(self._page[counts])
        if n_questions == 0:
            return Estimate(None, None, None, NOT_ESTIMABLE, 0, 0)
        value = float(values[counts].mean())
        if len(pages) < 2:
            return Estimate(value, None, None, NOT_ESTIMABLE, n_questions, len(pages))
        sums = np.bincount(self._page[counts], weights=values[counts], minlength=self._n_pages)
        sizes = np.bincount(self._page[counts], minlength=self._n_pages).astype(np.float64)
        drawn = self._times @ sizes.astype(np.float32)  # [B] questions in each resample
        means = (self._times @ sums.astype(np.float32))[drawn > 0] / drawn[drawn > 0]
        tail = (1 - self.confidence) / 2
        low, high = (float(bound) for bound in np.quantile(means.astype(np.float64), (tail, 1 - tail)))
        return Estimate(value, low, high, BOOTSTRAP, n_questions, len(pages))


def wilson(successes: float, trials: int, confidence: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a share (Wilson, 1927). Raises ValueError for no trials."""
    if trials < 1:
        raise ValueError(f"wanted at least 1 trial, found {trials}")
    z = NormalDist().inv_cdf((1 + confidence) / 2)
    share, spread = successes / trials, z * z / trials
    centre = (share + spread / 2) / (1 + spread)
    half = z / (1 + spread) * math.sqrt(share * (1 - share) / trials + spread / (4 * trials))
    return max(0.0, centre - half), min(1.0, centre + half)
