"""Recall and reciprocal rank of one row, by gold page and by gold tile, with intervals and chance beside them."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair
from tilewright.eval.bootstrap import ClusterBootstrap, Estimate, Values
from tilewright.eval.questions import Pool, relevant_pages, relevant_tiles
from tilewright.train.chance import expected_reciprocal_rank, expected_success
from tilewright.train.retrieval_metrics import recalls, reciprocal_ranks

Hits = Sequence[tuple[str, float]]
COMPLETE, INCOMPLETE, NOT_RUN = "complete", "incomplete", "not run"
LEVELS = ("page", "tile")
Measured = Mapping[str, Mapping[str, Values]]  # {level: {measure: [Q]}}, NaN where a question doesn't count


@dataclass(frozen=True)
class RowResult:
    """What a row gives back: for each query_id either hits (tiles, best first; may be none) or an error.

    ``items_failed``: tiles that the row couldn't make searchable. ``facts``: what the report says about the row.
    ``texts``: {tile_id: text} if the row delivers text to a reader, None if pictures.
    """

    hits: Mapping[str, Hits]
    errors: Mapping[str, str]
    facts: Mapping[str, Any]
    items_failed: int = 0
    texts: Mapping[str, str] | None = None


class Scorer:
    """Scores rows on the same questions, pool and resamples. ``ks``: cut-offs of recall; ``depth``: of MRR.

    Recall@k by page: the gold page is among the pages of the first k *tiles* (= Success@k with every tile of the gold
    page relevant). Recall@k by tile: the gold tile is among them.
    """

    def __init__(
        self, pairs: Sequence[QAPair], pool: Pool, bootstrap: ClusterBootstrap, *, ks: Sequence[int], depth: int
    ) -> None:
        self.pairs, self.pool, self.bootstrap = pairs, pool, bootstrap
        self.ks, self.depth = ks, depth
        self.measures = (*(f"recall@{k}" for k in ks), "mrr")
        self._relevant = {"page": relevant_pages(pairs), "tile": relevant_tiles(pairs)}
        self.chance = {level: self._chance(level) for level in LEVELS}

    def measure(self, result: RowResult) -> Measured:
        """Values of each question. Raises InputError for a question without an outcome or an unknown tile."""
        for pair in self.pairs:
            if (pair.query_id in result.hits) == (pair.query_id in result.errors):
                raise InputError(f"question {pair.query_id!r}: wanted hits or an error, found both or neither")
        rankings = {query_id: self._tiles(hits) for query_id, hits in result.hits.items()}
        pages = {query_id: [self.pool.page_of[tile] for tile in tiles] for query_id, tiles in rankings.items()}
        return {"page": self._values(pages, "page", result), "tile": self._values(rankings, "tile", result)}

    def summary(self, result: RowResult, measured: Measured, max_error_share: float) -> dict[str, Any]:
        """A row of metrics.json: figures with interval and chance, counts, and whether the row is complete."""
        total, errors = len(self.pairs), len(result.errors)
        shares = errors / total, result.items_failed / len(self.pool)
        return {
            "status": INCOMPLETE if max(shares) > max_error_share else COMPLETE,
            "n_questions": total,
            "n_graded": total - errors,
            "n_errors": errors,
            "n_pages": len({pair.page_id for pair in self.pairs if pair.query_id not in result.errors}),
            "tiles_failed": result.items_failed,
            "facts": dict(result.facts),
        } | {
            level: {
                name: as_json(self.bootstrap.mean(values)) | {"chance": self.chance[level][name]}
                for name, values in measured[level].items()
            }
            for level in LEVELS
        }

    def difference(self, left: Measured, right: Measured) -> dict[str, Any]:
        """Paired ``left - right`` of every figure, over the questions graded on both sides."""
        return {
            level: {
                name: as_json(self.bootstrap.difference(values, right[level][name]))
                for name, values in left[level].items()
            }
            for level in LEVELS
        }

    def _tiles(self, hits: Hits) -> list[str]:
        tiles = [tile for tile, _ in hits[: self.depth]]
        unknown = next((tile for tile in tiles if tile not in self.pool.page_of), None)
        if unknown is not None:
            raise InputError(f"a row returned tile {unknown!r}, which isn't among the {len(self.pool)} tiles searched")
        return tiles

    def _values(self, rankings: Mapping[str, Sequence[str]], level: str, result: RowResult) -> dict[str, Values]:
        relevant = self._relevant[level]
        found = {f"recall@{k}": recalls(rankings, relevant, k) for k in self.ks}
        found["mrr"] = reciprocal_ranks(rankings, relevant)
        return {name: self._array(found[name], result) for name in self.measures}

    def _array(self, by_query: Mapping[str, float], result: RowResult) -> Values:
        counts = (
            by_query.get(pair.query_id, math.nan) if pair.query_id not in result.errors else math.nan
            for pair in self.pairs
        )
        return np.fromiter(counts, dtype=np.float64, count=len(self.pairs))

    def _chance(self, level: str) -> dict[str, float | None]:
        """Mean expectation of a random ranking of the pool, over the questions that have a gold ``level``."""
        sizes = [self._right_tiles(pair, level) for pair in self.pairs if self._relevant[level][pair.query_id]]
        ways: dict[str, Callable[[int], float]] = {
            f"recall@{k}": lambda size, k=k: expected_success(len(self.pool), size, k)  # type: ignore[misc]
            for k in self.ks
        }
        ways["mrr"] = lambda size: expected_reciprocal_rank(len(self.pool), size, self.depth)
        expected = {name: {size: way(size) for size in set(sizes)} for name, way in ways.items()}
        return {
            name: math.fsum(by_size[size] for size in sizes) / len(sizes) if sizes else None
            for name, by_size in expected.items()
        }

    def _right_tiles(self, pair: QAPair, level: str) -> int:
        """How many tiles of the pool count as right for a question."""
        if level == "page":
            return len(self.pool.tiles_of.get(pair.page_id, ()))
        return int(pair.tile_id in self.pool.page_of)


def as_json(estimate: Estimate) -> dict[str, Any]:
    """An estimate as metrics.json holds it."""
    return dataclasses.asdict(estimate)
