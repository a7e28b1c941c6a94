"""Figures of a ranking against what is relevant: the one definition of each, for training and evaluation.

``rankings`` maps query ids to item ids, best first; ``relevant`` maps query ids to the ids of the right items. Queries
without a relevant item don't count; a query with relevant items but without a ranking counts as a miss.
"""

from collections.abc import Collection, Mapping, Sequence

Rankings = Mapping[str, Sequence[str]]
Relevant = Mapping[str, Collection[str]]


def recall_at_k(rankings: Rankings, relevant: Relevant, k: int) -> float:
    """Mean share of a query's relevant items among the first ``k`` entries of its ranking (R@k of trec_eval).

    An item that stands there twice is one hit. With one relevant item a query this is the share of queries that find
    it. 0.0 if no query has a relevant item. Raises ValueError if ``k`` < 1.
    """
    return _mean(recalls(rankings, relevant, k))


def success_at_k(rankings: Rankings, relevant: Relevant, k: int) -> float:
    """Share of queries with at least one relevant item among the first ``k`` entries (Success@k, hit rate)."""
    return _mean({query: float(recall > 0) for query, recall in recalls(rankings, relevant, k).items()})


def mean_reciprocal_rank(rankings: Rankings, relevant: Relevant) -> float:
    """Mean of ``reciprocal_ranks``; 0.0 if no query has a relevant item."""
    return _mean(reciprocal_ranks(rankings, relevant))


def recalls(rankings: Rankings, relevant: Relevant, k: int) -> dict[str, float]:
    """{query id: recall at ``k``} of the queries that count."""
    if k < 1:
        raise ValueError(f"wanted k >= 1, found {k}")
    return {
        query: len(set(rankings.get(query, ())[:k]) & set(items)) / len(set(items))
        for query, items in relevant.items()
        if items
    }


def reciprocal_ranks(rankings: Rankings, relevant: Relevant) -> dict[str, float]:
    """{query id: 1 / position of the first relevant entry, 0.0 if there's none} of the queries that count."""
    return {query: _reciprocal_rank(rankings.get(query, ()), set(items)) for query, items in relevant.items() if items}


def _reciprocal_rank(ranking: Sequence[str], items: set[str]) -> float:
    return next((1.0 / position for position, item in enumerate(ranking, start=1) if item in items), 0.0)


def _mean(values: Mapping[str, float]) -> float:
    return sum(values.values()) / len(values) if values else 0.0
