"""Recall@10 of an index against exact search, measured with some of the vectors that it holds as queries."""

from collections import defaultdict
from collections.abc import Sequence

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.mining.index_arrays import Array, encode_ids
from tilewright.mining.index_search import Hits
from tilewright.mining.index_settings import Plan, RecallSettings
from tilewright.mining.index_source import Source, blocks_of
from tilewright.mining.index_topk import Found, TopK, merge_found

DEPTH = 10
_TIE = 1e-6  # a hit counts if its exact score is that of the last of the exact ones


def recall_vs_exact(found: Hits, query_ids: Sequence[str], queries: Array, source: Source, top_k: TopK) -> float | None:
    """Share of the exact 10 nearest other tiles of ``queries`` [Q, D] that ``found`` has among its first 11.

    A query is itself in the index and counts on neither side. None if there is but one tile.
    """
    depth = min(DEPTH, len(source) - 1)
    if depth < 1:
        return None
    others = [
        [tile_id for tile_id, _ in hits if tile_id != own][:depth] for own, hits in zip(query_ids, found, strict=True)
    ]
    exact, scores_of_hits = _exact_scores(others, query_ids, queries, source, top_k, depth)
    return float(np.mean(scores_of_hits >= exact[:, depth - 1 : depth] - _TIE))


def _exact_scores(
    others: list[list[str]], query_ids: Sequence[str], queries: Array, source: Source, top_k: TopK, depth: int
) -> tuple[Array, Array]:
    """Exact scores [Q, depth] of the nearest others, and of the hits: one pass over the source."""
    hits = np.full((len(others), depth), -np.inf, np.float32)
    places: defaultdict[str, list[tuple[int, int]]] = defaultdict(list)
    for query, tile_ids in enumerate(others):
        for place, tile_id in enumerate(tile_ids):
            places[tile_id].append((query, place))
    own = encode_ids(list(query_ids))
    best: Found = (np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64))
    for block in blocks_of(source):
        for row in (row for row, tile_id in enumerate(block.ids) if tile_id in places):
            for query, place in places[block.ids[row]]:
                hits[query, place] = queries[query] @ block.vectors[row]
        scores, rows = top_k(queries, top_k.hold(block.vectors), min(depth + 1, len(block.vectors)))
        scores[
            encode_ids([block.ids[row] for row in rows.ravel().tolist()]).reshape(rows.shape) == own[:, None]
        ] = -np.inf
        best = merge_found([best, (scores, rows)], depth)
    return best[0], hits


def check_recall(recall: float | None, settings: RecallSettings, plan: Plan) -> None:
    """Raise InputError if it is below the floor."""
    if recall is not None and recall < settings.floor:
        raise InputError(
            f"recall_at_10_vs_exact: wanted at least {settings.floor} (recall.floor), found {recall:.3f} with"
            f" {plan}: raise nprobe or m, take a finer kind, or lower recall.floor"
        )
