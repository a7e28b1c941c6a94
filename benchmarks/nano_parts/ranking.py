"""Recall of rankings with intervals, and the ratio of what was read to what a perfect reader would reach."""

from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch import Tensor

from nano_parts.vectors import Vectors, query_vectors
from tilewright.data_gen.records import QAPair
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.metrics import Hits, RowResult, Scorer
from tilewright.eval.parts import Question
from tilewright.eval.questions import Pool, clusters
from tilewright.train.nano_binding import Binding

KS = (1, 3, 10)
RESAMPLES = 10_000
QUERIES_AT_ONCE = 256


class Judge:
    """Scores rankings of one set of queries over all tiles of a pool; intervals resample the queries' pages."""

    def __init__(self, queries: Sequence[QAPair], pool: Pool) -> None:
        self.queries = queries
        asked = [Question.of(query) for query in queries]
        bootstrap = ClusterBootstrap(clusters(asked), resamples=RESAMPLES, seed=0)
        self._scorer = Scorer(asked, pool, bootstrap, ks=KS, depth=KS[-1])
        self._measured: dict[str, Any] = {}
        self.rows: dict[str, Any] = {}

    @property
    def chance(self) -> dict[str, float | None]:
        """Recall of a random order."""
        return {f"recall@{k}": self._scorer.chance["tile"][f"recall@{k}"] for k in KS}

    def add(self, name: str, hits: Mapping[str, Hits]) -> None:
        """Score the row ``name``."""
        result = RowResult(hits, {}, {})
        self._measured[name] = self._scorer.measure(result)
        figures = self._scorer.summary(result, self._measured[name], max_error_share=0.0)["tile"]
        self.rows[name] = {
            f"recall@{k}": {part: _short(figures[f"recall@{k}"][part]) for part in ("value", "low", "high")} for k in KS
        }

    def against(self, name: str, other: str) -> dict[str, Any]:
        """Ratio of the recalls of two rows, and their paired difference with its interval."""
        difference = self._scorer.difference(self._measured[name], self._measured[other])["tile"]
        found = {}
        for k in KS:
            over, under = (self.rows[row][f"recall@{k}"]["value"] for row in (name, other))
            paired = difference[f"recall@{k}"]
            found[f"recall@{k}"] = {
                "ratio": _short(over / under) if under else None,
                "difference": {part: _short(paired[part]) for part in ("value", "low", "high")},
            }
        return {"against": other} | found


def _short(value: float | None) -> float | None:
    return None if value is None else round(value, 4)


def vector_hits(
    queries: Sequence[QAPair], binding: Binding, vectors: Vectors, name: str, tile_ids: Sequence[str]
) -> dict[str, Hits]:
    """{query id: the best tiles}; of a tile's crops the most similar one speaks for it."""
    found = query_vectors(binding, [pair.query for pair in queries])
    tiles = vectors.of(name)
    owners = torch.cat(vectors.owners) if name.startswith("crops") else torch.arange(len(tiles))
    hits: dict[str, Hits] = {}
    for start in range(0, len(queries), QUERIES_AT_ONCE):
        scores = best_of(found[start : start + QUERIES_AT_ONCE] @ tiles.T, owners, len(tile_ids))
        order = torch.argsort(scores, dim=1, descending=True, stable=True)[:, : KS[-1]].tolist()
        for pair, row, places in zip(queries[start:], scores.tolist(), order, strict=False):
            hits[pair.query_id] = tuple((tile_ids[place], row[place]) for place in places)
    return hits


def best_of(scores: Tensor, owners: Tensor, count: int) -> Tensor:
    """scores [Q, C], owners [C] -> [Q, count]: the greatest score of each owner."""
    lowest = scores.new_full((len(scores), count), -torch.inf)
    return lowest.scatter_reduce(1, owners.expand(len(scores), -1), scores, "amax")
