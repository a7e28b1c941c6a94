"""Sets that are alike: an exact search by Jaccard similarity over a threshold, for 100,000 sets in seconds."""

from collections import Counter, defaultdict
from collections.abc import Hashable, Sequence
from collections.abc import Set as AbstractSet
from fractions import Fraction
from typing import Any, Generic, TypeVar

E = TypeVar("E", bound=Hashable)


class SimilarSets(Generic[E]):
    """Finds, for a set, the most similar one of ``sets``, if any reaches ``threshold`` (above 0, at most 1).

    Exact, by prefix filtering (Chaudhuri et al. 2006): two sets of that Jaccard similarity share one of the rarest
    elements of each, so only those are looked up; by their lengths and by where that element stands in each (Xiao et
    al. 2008, PPJoin) most of what shares one is left out unseen. Empty sets are like nothing.
    """

    def __init__(self, sets: Sequence[AbstractSet[E]], threshold: float) -> None:
        if not 0 < threshold <= 1:
            raise ValueError(f"threshold: wanted above 0 and at most 1, found {threshold}")
        exact = Fraction(str(threshold))
        self._times, self._over = exact.numerator, exact.denominator
        self._sets: list[AbstractSet[E]] = []
        self._positions: list[int] = []
        frequency = Counter(element for found in sets for element in found)
        by_rarity = sorted(frequency, key=lambda element: (frequency[element], _order(element)))
        self._rank = {element: rank for rank, element in enumerate(by_rarity)}
        self._holders: dict[E, dict[tuple[int, int], list[int]]] = defaultdict(lambda: defaultdict(list))
        seen: set[frozenset[E]] = set()
        for position, found in enumerate(sets):
            if frozenset(found) not in seen:  # of equal sets the first stands for all
                seen.add(frozenset(found))
                self._add(found, position)

    def best(self, found: AbstractSet[E]) -> tuple[int, float] | None:
        """(position, similarity) of the most similar set, the first of equally similar ones; None without one."""
        size, rank = len(found), self._rank
        known = sorted((rank[element], element) for element in found if element in rank)
        start = size - len(known)  # elements that no set holds are the rarest
        candidates: set[int] = set()
        for here, (_, element) in enumerate(known[: max(0, self._prefix(size) - start)], start=start):
            for (length, there), holders in self._holders.get(element, {}).items():
                if 1 + min(size - here - 1, length - there - 1) >= self._overlap(size, length):
                    candidates.update(holders)
        best, best_common, best_union = -1, self._times, self._over
        for index in candidates:
            other = self._sets[index]
            common = len(found & other)
            union = size + len(other) - common
            lead = common * best_union - best_common * union
            if lead > 0 or (lead == 0 and (best < 0 or index < best)):
                best, best_common, best_union = index, common, union
        return None if best < 0 else (self._positions[best], round(best_common / best_union, 6))

    def _add(self, found: AbstractSet[E], position: int) -> None:
        index = len(self._sets)
        self._sets.append(found)
        self._positions.append(position)
        ordered = sorted(found, key=self._rank.__getitem__)
        for there, element in enumerate(ordered[: self._prefix(len(found))]):
            self._holders[element][len(found), there].append(index)

    def _prefix(self, size: int) -> int:
        """How many of its rarest elements a set of ``size`` is found by."""
        return size + 1 + (-self._times * size // self._over) if size else 0

    def _overlap(self, size: int, other: int) -> int:
        """How many elements two sets of these sizes must share at least."""
        return -(-self._times * (size + other) // (self._times + self._over))


def _order(element: Any) -> Any:
    """Any order that doesn't change from run to run; results don't depend on it."""
    return element if isinstance(element, (str, tuple)) else repr(element)
