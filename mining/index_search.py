"""Search over the segments of an index: candidates by FAISS or torch, then scores and order that depend on neither.

The candidates' scores are float32 sums whose last bits depend on the block of queries, the threads and the backend. So
candidates are fetched until none that is left out can tie with the k-th, scored once more in float64, and ties go to
the smaller tile id. What a query finds is a function of the query and of the tiles in the index alone.
"""

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.mining.index_arrays import Array, decode_ids
from tilewright.mining.index_quantiser import Quantiser, noise_of
from tilewright.mining.index_segment import Allowed, Segment
from tilewright.mining.index_topk import Found, TopK, merge_found

Hits = list[tuple[tuple[str, float], ...]]
_QUERY_BLOCK = 1024
_MARGIN = 8  # candidates fetched beyond k
_CANDIDATES = 1 << 22  # held at once, of all queries
_PRODUCTS = 1 << 16  # summed at once: they stay in a core's cache
_FEW = 50_000  # tiles of a page filter up to which all of them are compared, whatever list they are in


class Searcher:
    """Searches ``segments``; rows are numbered through all of them."""

    def __init__(
        self, segments: Sequence[Segment], top_k: TopK, quantiser: Quantiser | None, pages: Collection[str] | None
    ) -> None:
        self._segments, self._top_k = segments, top_k
        self._allowed: list[Allowed] = [
            segment.live if pages is None else segment.of_pages(pages) for segment in segments
        ]
        self._total = sum(map(len, self._allowed))
        self._quantiser = None if pages is not None and self._total <= _FEW else quantiser
        self._starts = np.concatenate([[0], np.cumsum([len(segment) for segment in segments])])

    def search(self, queries: Array, k: int, nprobe: int) -> Hits:
        """min(k, allowed tiles) hits of each of ``queries`` [Q, D], in ``nprobe`` lists or more if these hold fewer."""
        k = min(k, self._total)
        if k == 0:
            return [() for _ in queries]
        hits: Hits = []
        for start in range(0, len(queries), _QUERY_BLOCK):
            block = queries[start : start + _QUERY_BLOCK]
            found: Hits = [()] * len(block)
            self._fill(found, np.arange(len(block)), block, k, min(k + _MARGIN, self._total), nprobe)
            hits += found
        return hits

    def _fill(self, hits: Hits, places: Array, queries: Array, k: int, wanted: int, nprobe: int) -> None:
        """Put the hits of ``queries`` at ``places``: those that are settled now, the others with more candidates."""
        step = max(1, _CANDIDATES // wanted)
        if len(queries) > step:  # thousands of equal tiles, such as blank ones, or a whole ranking
            for start in range(0, len(queries), step):
                part = slice(start, start + step)
                self._fill(hits, places[part], queries[part], k, wanted, nprobe)
            return
        scores, rows = self._candidates(queries, wanted, nprobe)
        count = (rows >= 0).sum(axis=1)
        short = count < k
        if short.any() and (self._quantiser is None or nprobe >= self._quantiser.nlist):
            raise InputError(f"the index gave {count.min()} hits where {k} are: it is damaged, build it again")
        settled = ~short & (
            (count < wanted) | (wanted == self._total) | (scores[:, -1] < scores[:, k - 1] - noise_of(queries))
        )
        tied = ~short & ~settled
        ranked = self._ranked(queries[settled], scores[settled], rows[settled], k)
        for place, found in zip(places[settled], ranked, strict=True):
            hits[place] = found
        if tied.any():
            self._fill(hits, places[tied], queries[tied], k, min(2 * wanted, self._total), nprobe)
        if short.any() and self._quantiser is not None:
            self._fill(hits, places[short], queries[short], k, wanted, min(2 * nprobe, self._quantiser.nlist))

    def _candidates(self, queries: Array, wanted: int, nprobe: int) -> Found:
        probes = None if self._quantiser is None else self._quantiser.nearest_lists(queries, nprobe)
        parts = []
        for segment, allowed, start in zip(self._segments, self._allowed, self._starts[:-1], strict=True):
            if len(allowed):
                scores, rows = segment.candidates(self._top_k, queries, wanted, allowed, probes)
                parts.append((scores, np.where(rows >= 0, rows + start, -1) if start else rows))
        return parts[0] if len(parts) == 1 else merge_found(parts, wanted)

    def _ranked(self, queries: Array, scores: Array, rows: Array, k: int) -> Hits:
        """Score those that can be among the first k, sort, cut."""
        if not len(queries):
            return []
        near = (rows >= 0) & (scores >= (scores[:, k - 1] - noise_of(queries))[:, None])
        width = int(near.sum(axis=1).max())  # scores descend: those that are near stand first
        near, rows = near[:, :width], rows[:, :width]
        exact = np.full(rows.shape, -np.inf, np.float32)
        exact[near] = self._exact(queries, np.nonzero(near)[0], rows[near])
        best = np.argsort(-exact, axis=1, kind="stable")
        exact, rows = np.take_along_axis(exact, best, 1), np.take_along_axis(rows, best, 1)
        ties = (exact[:, :-1][:, :k] == exact[:, 1:][:, :k]).any(axis=1)
        ids = self._ids(rows[:, :k].ravel())
        names = [ids[start : start + k] for start in range(0, len(ids), k)]
        hits = [tuple(zip(*pair, strict=True)) for pair in zip(names, exact[:, :k].tolist(), strict=True)]
        for query in np.flatnonzero(ties):
            finite = np.isfinite(exact[query])
            pairs = zip(self._ids(rows[query][finite]), exact[query][finite].tolist(), strict=True)
            hits[query] = tuple(sorted(pairs, key=lambda hit: (-hit[1], hit[0]))[:k])
        return hits

    def _exact(self, queries: Array, of_query: Array, rows: Array) -> Array:
        """The scores of ``rows`` [n] for ``queries[of_query]`` [n]; a pair's sum doesn't depend on its place."""
        scores = np.empty(len(rows), np.float32)
        step = max(1, _PRODUCTS // queries.shape[1])
        for start in range(0, len(rows), step):
            block = slice(start, start + step)
            products = self._vectors(rows[block]).astype(np.float64)
            products *= queries[of_query[block]]
            scores[block] = products.sum(axis=1)
        return scores

    def _vectors(self, rows: Array) -> Array:
        return self._gathered(rows, lambda segment, own: segment.vectors(own))

    def _ids(self, rows: Array) -> list[str]:
        return decode_ids(self._gathered(rows, lambda segment, own: segment.ids[own]))

    def _gathered(self, rows: Array, fetch: Any) -> Array:
        """``fetch(segment, its rows)`` of rows of all segments, in the order of ``rows``."""
        if len(self._segments) == 1:
            return np.asarray(fetch(self._segments[0], rows))
        owners = np.searchsorted(self._starts, rows, side="right") - 1
        order = np.argsort(owners, kind="stable")
        parts = [fetch(self._segments[n], rows[owners == n] - self._starts[n]) for n in np.unique(owners)]
        joined = np.concatenate(parts)
        gathered = np.empty_like(joined)
        gathered[order] = joined
        return gathered
