"""Success@k and reciprocal rank for all cut-offs at once: the rank of each question's first right item is found once.

Same figures as ``train.retrieval_metrics`` (tested); made for millions of hits.
"""

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

Ranks = NDArray[np.int64]
Hits = Sequence[tuple[str, float]]
NOT_FOUND, NO_GOLD = 0, -1


def first_ranks(queries: Sequence[str], hits: Mapping[str, Hits], relevant: Mapping[str, Collection[str]]) -> Ranks:
    """[Q]: rank, from 1, of the first of a query's hits that is relevant; NOT_FOUND, or NO_GOLD if nothing is relevant.

    A query without hits has found nothing. To score by page, ``relevant`` holds all items of the gold pages.
    """
    return np.fromiter((_first(hits.get(query, ()), relevant[query]) for query in queries), np.int64, len(queries))


def _first(hits: Hits, gold: Collection[str]) -> int:
    if not gold:
        return NO_GOLD
    wanted = gold if isinstance(gold, (set, frozenset)) else frozenset(gold)
    return next((rank for rank, (item, _) in enumerate(hits, start=1) if item in wanted), NOT_FOUND)


def success_at(ranks: Ranks, k: int) -> NDArray[np.float64]:
    """[Q]: 1 if a relevant item is among the first ``k``, else 0; NaN for a query without gold. ValueError if k < 1."""
    if k < 1:
        raise ValueError(f"wanted k >= 1, found {k}")
    return np.where(ranks == NO_GOLD, np.nan, ((ranks != NOT_FOUND) & (ranks <= k)).astype(np.float64))


def reciprocal_at(ranks: Ranks, depth: int) -> NDArray[np.float64]:
    """[Q]: 1 / rank, 0 beyond ``depth``; NaN for a query without gold. Raises ValueError if depth < 1."""
    return success_at(ranks, depth) / np.maximum(ranks, 1)
