"""Recall and reciprocal rank of one retriever: by gold page, gold tile, string, judge, with intervals and chance."""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.eval.bootstrap import ClusterBootstrap, Estimate, Values
from tilewright.eval.first_ranks import NOT_FOUND, Ranks, first_ranks, reciprocal_at, success_at
from tilewright.eval.judged_hits import JudgedHits
from tilewright.eval.parts import Hits as Hits
from tilewright.eval.parts import Question
from tilewright.eval.questions import Pool
from tilewright.eval.statistics_cells import Comparison, compare
from tilewright.train.chance import expected_reciprocal_rank, expected_success

COMPLETE, INCOMPLETE, FAILED, NOT_RUN = "complete", "incomplete", "failed", "not run"
PAGE, TILE, STRING, JUDGED = "page", "tile", "evidence_recall_string", "evidence_recall_judged"
LEVELS = (PAGE, TILE)
Measured = Mapping[str, Mapping[str, Values]]  # {level: {measure: [Q]}}, NaN where a question doesn't count


@dataclass(frozen=True)
class RowResult:
    """What a retriever gives back: for each query_id either hits (items, best first; may be none) or an error.

    ``items_failed``: items that it couldn't make searchable. ``facts``: what the report says about it. ``page_of``:
    {item_id: page_id} of all it searches; None: the pool's tiles. ``evidence``: {query_id: which of its hits hold an
    answer as a string}, ``judged``: what a judge says of them; None: not looked at.
    """

    hits: Mapping[str, Hits]
    errors: Mapping[str, str]
    facts: Mapping[str, Any]
    items_failed: int = 0
    page_of: Mapping[str, str] | None = None
    evidence: Mapping[str, Sequence[bool]] | None = None
    judged: JudgedHits | None = None


class Scorer:
    """Scores retrievers on the same questions and resamples. ``ks``: cut-offs of recall; ``depth``: of MRR.

    Recall@k by page: a gold page is among the pages of the first k *items* (distinct items, not pages: k tiles of one
    page are k). By tile: a gold tile is among them; None for a retriever that finds no tiles.
    """

    def __init__(
        self, questions: Sequence[Question], pool: Pool, bootstrap: ClusterBootstrap, *, ks: Sequence[int], depth: int
    ) -> None:
        self.questions, self.pool, self.bootstrap = questions, pool, bootstrap
        self.ks, self.depth = ks, depth
        self.measures = (*(f"recall@{k}" for k in ks), "mrr")
        self._ids = [question.query_id for question in questions]
        self.chance = self.chance_among(pool.page_of)

    def measure(self, result: RowResult) -> Measured:
        """Values of each question; {} of a retriever without items (closed book).

        Raises InputError for a question without an outcome, or a hit that can't be.
        """
        for name in self._ids:
            if (name in result.hits) == (name in result.errors):
                raise InputError(f"question {name!r}: wanted hits or an error, found both or neither")
        pages = self.pool.page_of if result.page_of is None else result.page_of
        failed = np.array([name in result.errors for name in self._ids])
        hits = {name: _checked(result.hits[name][: self.depth], pages) for name in self._ids if name in result.hits}
        if not pages:
            return {}  # nothing is searched: no recall, which isn't a recall of 0
        measured = {PAGE: self._figures(self.ranks_by_page(hits, pages), failed)}
        if any(item in self.pool.page_of for item in pages):
            tiles = {question.query_id: question.gold_tiles for question in self.questions}
            measured[TILE] = self._figures(first_ranks(self._ids, hits, tiles), failed)
        if result.evidence is not None:
            measured[STRING] = self._figures(self.ranks_by_string(result.evidence), failed)
        if result.judged is not None:
            ks = [k for k in self.ks if k <= result.judged.depth]
            measured[JUDGED] = {f"recall@{k}": result.judged.recall_at(self._ids, k) for k in ks}
        return measured

    def ranks_by_page(self, hits: Mapping[str, Hits], page_of: Mapping[str, str]) -> Ranks:
        """[Q]: rank of the first item of a gold page."""
        pages = {name: [(page_of[item], score) for item, score in found] for name, found in hits.items()}
        return first_ranks(self._ids, pages, {question.query_id: question.gold_pages for question in self.questions})

    def ranks_by_string(self, evidence: Mapping[str, Sequence[bool]]) -> Ranks:
        """[Q]: rank of the first item that holds an answer as a string."""
        ranks = (
            next((rank for rank, held in enumerate(evidence.get(name, ()), start=1) if held), NOT_FOUND)
            for name in self._ids
        )
        return np.fromiter(ranks, np.int64, len(self._ids))

    def summary(self, result: RowResult, measured: Measured, max_error_share: float) -> dict[str, Any]:
        """A row of metrics.json: figures with interval and chance, counts, and whether the row is complete."""
        total, errors = len(self.questions), len(result.errors)
        pages = self.pool.page_of if result.page_of is None else result.page_of
        chance = self.chance if pages is self.pool.page_of else self.chance_among(pages)
        shares = [errors / total, result.items_failed / max(1, len(pages))]
        judged = {}
        if result.judged is not None:
            judged = {"evidence_judge": result.judged.counts()}
            shares.append(result.judged.undecided / max(1, len(result.judged.held)))
        return {
            "status": FAILED if errors == total else INCOMPLETE if max(shares) > max_error_share else COMPLETE,
            "n_questions": total,
            "n_graded": total - errors,
            "n_errors": errors,
            "n_pages": len({question.cluster for question in self.questions if question.query_id not in result.errors}),
            "n_items": len(pages),
            "tiles_failed": result.items_failed,
            "facts": dict(result.facts),
            **judged,
        } | {
            level: {
                name: as_json(self.bootstrap.mean(values)) | {"chance": chance.get(level, {}).get(name)}
                for name, values in figures.items()
            }
            for level, figures in measured.items()
        }

    def difference(self, left: Measured, right: Measured) -> dict[str, Any]:
        """Paired ``left - right`` of every figure that both have, over the questions graded on both sides."""
        return {
            level: {name: compared(self.bootstrap, values, right[level][name]) for name, values in figures.items()}
            for level, figures in left.items()
            if level in right
        }

    def _figures(self, ranks: Ranks, failed: Any) -> dict[str, Values]:
        found = {f"recall@{k}": success_at(ranks, k) for k in self.ks}
        found["mrr"] = reciprocal_at(ranks, self.depth)
        return {name: np.where(failed, np.nan, values) for name, values in found.items()}

    def chance_among(self, page_of: Mapping[str, str]) -> dict[str, dict[str, float | None]]:
        """{level: {measure: expectation of a random ranking of these items}}, over the questions that have a gold."""
        sizes: dict[str, int] = {}
        for page in page_of.values():
            sizes[page] = sizes.get(page, 0) + 1
        by_page = [
            sum(sizes.get(page, 0) for page in question.gold_pages)
            for question in self.questions
            if question.gold_pages
        ]
        by_tile = [len(question.gold_tiles & page_of.keys()) for question in self.questions if question.gold_tiles]
        return {PAGE: self._chance(by_page, len(page_of)), TILE: self._chance(by_tile, len(page_of))}

    def _chance(self, right: Sequence[int], items: int) -> dict[str, float | None]:
        ways: dict[str, Callable[[int], float]] = {
            f"recall@{k}": lambda size, k=k: expected_success(items, size, k)  # type: ignore[misc]
            for k in self.ks
        }
        ways["mrr"] = lambda size: expected_reciprocal_rank(items, size, self.depth)
        expected = {name: {size: way(size) for size in set(right)} for name, way in ways.items()} if items else {}
        return {
            name: math.fsum(expected[name][size] for size in right) / len(right) if right and items else None
            for name in ways
        }


def _checked(hits: Hits, page_of: Mapping[str, str]) -> Hits:
    unknown = next((item for item, _ in hits if item not in page_of), None)
    if unknown is not None:
        raise InputError(f"a row returned {unknown!r}, which isn't among the {len(page_of)} items searched")
    if len({item for item, _ in hits}) < len(hits):
        raise InputError(f"a row returned an item twice: {[item for item, _ in hits][:5]}")
    return hits


def as_json(estimate: Estimate) -> dict[str, Any]:
    """An estimate as metrics.json holds it."""
    return dataclasses.asdict(estimate)


def compared(bootstrap: ClusterBootstrap, left: Values, right: Values) -> dict[str, Any]:
    """``left - right`` with its interval, questions gained and lost, and p-values."""
    return comparison_as_json(compare(bootstrap, left, right, np.isnan(left), np.isnan(right)))


def comparison_as_json(found: Comparison) -> dict[str, Any]:
    """A paired difference as metrics.json holds it."""
    mcnemar = None if found.mcnemar is None else found.mcnemar.exact
    counts = {name: getattr(found, name) for name in ("gained", "lost", "same", "only_left", "only_right")}
    return as_json(found.difference) | counts | {"p": found.test.p, "p_method": found.test.method, "p_mcnemar": mcnemar}
