"""Paired tests between two rows over the same questions: gained and lost, McNemar, sign flips by page, Holm."""

import hashlib
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

Values = NDArray[np.float64]
EXACT = "sign flips of pages, exact"
DRAWN = "sign flips of pages, drawn"
_BLOCK = 4_000_000  # signs drawn at a time: bounds the memory


@dataclass(frozen=True)
class McNemar:
    """Two-sided p-values of McNemar's test; ``mid`` is the mid-p version, less conservative."""

    exact: float
    mid: float


@dataclass(frozen=True)
class PairedTest:
    """A two-sided p-value with its method; None where there is nothing to test."""

    p: float | None
    method: str


def mcnemar(gained: int, lost: int) -> McNemar:
    """McNemar's test on ``gained`` and ``lost``, the questions that one row alone has right, and the other alone.

    Exact: both tails of Binomial(gained + lost, 1/2). Mid-p: that less the chance of the outcome itself (Fagerland,
    Lydersen and Laake 2013, BMC Med Res Methodol 13:91). Valid only where questions are independent. Raises ValueError
    for negative counts.
    """
    if gained < 0 or lost < 0:
        raise ValueError(f"wanted counts of at least 0, found gained {gained} and lost {lost}")
    total, low = gained + lost, min(gained, lost)
    ways, cumulated = 1, 1
    for i in range(1, low + 1):
        ways = ways * (total - i + 1) // i
        cumulated += ways
    both_tails, outcome = Fraction(2 * cumulated, 2**total), Fraction(ways, 2**total)
    return McNemar(float(min(both_tails, Fraction(1))), float(min(both_tails - outcome, Fraction(1))))


def sign_flips(differences: Values, pages: Sequence[str], *, draws: int, seed: int) -> PairedTest:
    """Test of "the rows are alike": the sign of all of a page's differences together is turned at random.

    Questions of one page aren't independent, so pages are turned as wholes (Fisher's randomisation test; in retrieval:
    Smucker, Allan and Carterette 2007). Exact where the sums of the pages are whole numbers (recall, right or wrong;
    with one question a page it is McNemar's exact test); else of ``draws`` random turns, p = (1 + as large) / (1 +
    draws), which can't go below 1 / (1 + draws). ``differences`` [Q] may hold NaN: those questions don't count.
    """
    counts = np.isfinite(differences)
    if not counts.any():
        return PairedTest(None, EXACT)
    names, position = np.unique(np.array(pages, dtype=object)[counts].astype(str), return_inverse=True)
    sums = np.bincount(position, weights=differences[counts], minlength=len(names)).astype(np.float64)
    if np.array_equal(differences[counts], np.rint(differences[counts])):
        return PairedTest(_exact(np.abs(np.rint(sums)).astype(np.int64), abs(round(float(sums.sum())))), EXACT)
    return PairedTest(_drawn(sums, draws, seed), DRAWN)


def _exact(sizes: NDArray[np.int64], observed: int) -> float:
    """P(|sum of +-sizes| >= observed), every sign a fair coin: convolution, one size after another."""
    chances = np.ones(1)  # of the sum shifted by its greatest value, in steps of 1
    for size, count in zip(*np.unique(sizes[sizes > 0], return_counts=True), strict=True):
        spread = np.zeros(2 * int(size) * int(count) + 1)
        spread[:: 2 * int(size)] = _fair_coins(int(count))
        chances = np.convolve(chances, spread)
    sums = np.abs(np.arange(len(chances)) - len(chances) // 2)
    return min(1.0, float(math.fsum(chances[sums >= observed])))


def _fair_coins(count: int) -> Values:
    """[count + 1]: chances of 0 to ``count`` heads."""
    logs = [
        math.lgamma(count + 1) - math.lgamma(heads + 1) - math.lgamma(count - heads + 1) for heads in range(count + 1)
    ]
    return np.exp(np.array(logs) - count * math.log(2))


def _drawn(sums: Values, draws: int, seed: int) -> float:
    if draws < 1:
        raise ValueError(f"wanted draws >= 1, found {draws}")
    digest = hashlib.sha256(f"sign flips/{seed}".encode()).digest()
    generator = np.random.Generator(np.random.PCG64(int.from_bytes(digest, "big")))
    observed = abs(math.fsum(sums))
    sizes = np.sort(np.abs(sums[sums != 0]))  # the order of pages, and which row is called left, don't matter
    slack = 1e-9 * math.fsum(sizes)  # sums that are equal but for rounding count as equal
    as_large, block = 0, max(1, _BLOCK // max(len(sizes), 1))
    for start in range(0, draws, block):
        signs = generator.integers(0, 2, size=(min(block, draws - start), len(sizes)), dtype=np.int8) * 2 - 1
        as_large += int((np.abs(signs @ sizes) >= observed - slack).sum())
    return (1 + as_large) / (1 + draws)


def holm(p_values: Mapping[str, float | None]) -> dict[str, float | None]:
    """Holm's adjusted p-values of all tests of a table, by name (Holm 1979, Scand J Stat 6:65).

    Rejecting those at most alpha keeps the chance of any false rejection at most alpha. A test without a p-value stays
    None and isn't counted. Raises ValueError for anything outside 0 to 1.
    """
    tested = [(p, name) for name, p in p_values.items() if p is not None]
    bad = next((name for p, name in tested if not 0 <= p <= 1), None)
    if bad is not None:
        raise ValueError(f"{bad}: wanted a p-value from 0 to 1, found {p_values[bad]}")
    adjusted: dict[str, float | None] = dict.fromkeys(p_values)
    largest = 0.0
    for rank, (p, name) in enumerate(sorted(tested)):
        largest = max(largest, min(1.0, (len(tested) - rank) * p))
        adjusted[name] = largest
    return adjusted
