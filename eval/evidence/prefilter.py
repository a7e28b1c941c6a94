"""BM25 over the completed units of a few pages: idf over this question's pool, ties by page rank and place."""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.eval.bm25 import K1, B, tokens
from tilewright.eval.evidence.units import Unit


@dataclass(frozen=True)
class UnitIndex:
    """A page's units with their words: ``postings`` {word: [(unit, times)]}, ``lengths`` in words. Made once a page."""

    units: Sequence[Unit]
    lengths: Sequence[int]
    postings: dict[str, list[tuple[int, int]]]

    @classmethod
    def of(cls, units: Sequence[Unit]) -> "UnitIndex":
        """The index of ``units``."""
        postings: dict[str, list[tuple[int, int]]] = {}
        lengths = []
        for number, unit in enumerate(units):
            counts = Counter(tokens(unit.completed_text))
            lengths.append(counts.total())
            for word, times in counts.items():
                postings.setdefault(word, []).append((number, times))
        return cls(units, lengths, postings)


def bm25_scores(query: str, pages: Sequence[UnitIndex]) -> list[list[float]]:
    """[pages][units] scores (Lucene's variant: idf · tf / (tf + k1 (1 - b + b length / mean length)))."""
    scores = [[0.0] * len(page.units) for page in pages]
    total = sum(map(len, scores))
    mean = sum(sum(page.lengths) for page in pages) / max(total, 1)
    for word, asked in Counter(tokens(query)).items():
        found = [page.postings.get(word, ()) for page in pages]
        documents = sum(map(len, found))
        idf = asked * math.log(1 + (total - documents + 0.5) / (documents + 0.5))
        for page, own, postings in zip(pages, scores, found, strict=True):
            for unit, times in postings:
                own[unit] += idf * times / (times + K1 * (1 - B + B * page.lengths[unit] / mean))
    return scores


def prefilter(query: str, pages: Sequence[UnitIndex], limit: int) -> list[Unit]:
    """The ``limit`` best units of ``pages`` (in rank order), best first; units that share no word come last."""
    scored = [
        (-score, rank, position)
        for rank, scores in enumerate(bm25_scores(query, pages))
        for position, score in enumerate(scores)
    ]
    scored.sort()
    return [pages[rank].units[position] for _, rank, position in scored[:limit]]
