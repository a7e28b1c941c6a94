"""From what rows found and readers answered to metrics.json: figures with intervals, differences, statuses."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.data_gen.records import EvalRecord
from tilewright.eval.bootstrap import ClusterBootstrap, Values
from tilewright.eval.metrics import (
    COMPLETE,
    FAILED,
    INCOMPLETE,
    NOT_RUN,
    Measured,
    RowResult,
    Scorer,
    as_json,
    compared,
)
from tilewright.eval.parts import Question
from tilewright.eval.questions import Pool, clusters
from tilewright.eval.rows import Cell
from tilewright.eval.statistics_paired import holm


@dataclass(frozen=True)
class Measure:
    """How figures are made: cut-offs and depth of recall, the bootstrap's settings, the tolerated share of errors."""

    ks: tuple[int, ...]
    depth: int
    resamples: int
    seed: int
    confidence: float
    max_error_share: float

    def bootstrap(self, questions: Sequence[Question]) -> ClusterBootstrap:
        """Resamples of the pages of these questions."""
        return ClusterBootstrap(
            clusters(questions), resamples=self.resamples, seed=self.seed, confidence=self.confidence
        )


@dataclass(frozen=True)
class Measurements:
    """What all retrievers found, measured once: {retriever: its values of each question}, and what measured them."""

    scorer: Scorer
    values: Mapping[str, Measured]


def measurements(
    measure: Measure, questions: Sequence[Question], pool: Pool, results: Mapping[str, RowResult]
) -> Measurements:
    """The values of every retriever's figures. Raises InputError as ``Scorer.measure``."""
    scorer = Scorer(questions, pool, measure.bootstrap(questions), ks=measure.ks, depth=measure.depth)
    return Measurements(scorer, {name: scorer.measure(result) for name, result in results.items()})


def retrieval_metrics(
    measure: Measure,
    found: Measurements,
    results: Mapping[str, RowResult],
    titles: Mapping[str, str],
    missing: Mapping[str, str],
    compare: Sequence[tuple[str, str]],
) -> dict[str, Any]:
    """``chance``, ``rows`` and ``differences`` of metrics.json. ``titles``: of every row, in the order shown.

    ``missing``: {row: why it wasn't run}. A difference needs both of its rows; p-values are corrected by Holm's method
    within each figure.
    """
    scorer, measured = found.scorer, found.values
    rows: dict[str, Any] = {}
    for name, title in titles.items():
        if name in missing:
            rows[name] = {"title": title, "status": NOT_RUN, "reason": missing[name]}
        else:
            rows[name] = {"title": title} | scorer.summary(results[name], measured[name], measure.max_error_share)
    differences = [
        {"row": row, "against": against} | scorer.difference(measured[row], measured[against])
        for row, against in compare
        if row in measured and against in measured
    ]
    correct_by_figure(differences)
    return {"chance": scorer.chance, "rows": rows, "differences": differences}


def correct_by_figure(differences: Sequence[Mapping[str, Any]]) -> None:
    """``correct`` each figure of each level by itself. ``differences``: {row, against, level: figure: comparison}."""
    for level in sorted({level for entry in differences for level in entry} - {"row", "against"}):
        having = [entry[level] for entry in differences if level in entry]
        for name in dict.fromkeys(name for figures in having for name in figures):
            correct([figures[name] for figures in having if name in figures])


def correct(comparisons: Sequence[dict[str, Any]]) -> None:
    """Add ``p_holm`` to the comparisons of one table."""
    corrected = holm({str(number): found["p"] for number, found in enumerate(comparisons)})
    for number, found in enumerate(comparisons):
        found["p_holm"] = corrected[str(number)]


def scores_of(records: Sequence[EvalRecord], grader: str) -> Values:
    """[Q] of one grader; NaN where it gave none."""
    scores = (record.scores.get(grader) for record in records)
    return np.array([np.nan if score is None else score for score in scores], dtype=np.float64)


def cell_metrics(
    cell: Cell,
    records: Sequence[EvalRecord],
    graders: Sequence[str],
    bootstrap: ClusterBootstrap,
    max_error_share: float,
) -> dict[str, Any]:
    """A reader's entry of metrics.json. ``records``: one a question of the bootstrap, in its order."""
    graded = [record for record in records if record.error is None]
    errors, total = len(records) - len(graded), len(records)
    status = FAILED if not graded else INCOMPLETE if errors > max_error_share * total else COMPLETE
    kinds = ("retrieval failed", "delivery failed", "reader failed")
    counted = {kind: sum((record.error or "").startswith(kind) for record in records) for kind in kinds}
    flags = [flag for record in records for flag in record.flags]
    return {
        "name": cell.name,
        "retriever": cell.retriever,
        "delivery": cell.delivery,
        "reader": cell.reader,
        "k": cell.k,
        "status": status,
        "n_questions": total,
        "n_graded": len(graded),
        "n_errors": errors,
        "errors": counted | {"not graded": errors - sum(counted.values())},
        "n_pages": len({page for page, record in zip(bootstrap.pages, records, strict=True) if record.error is None}),
        "n_cannot_answer": sum(record.verdict == "CANNOT_ANSWER" for record in graded),
        "flags": {flag: flags.count(flag) for flag in sorted(set(flags))},
        "accuracy": {name: as_json(bootstrap.mean(scores_of(records, name))) for name in graders},
        "tokens": tokens_of(graded),
    }


def tokens_of(records: Sequence[EvalRecord]) -> dict[str, Any]:
    """Mean and greatest tokens a question, by what they are of; ``estimated``: of how many they aren't counted."""
    parts = {
        "visual": [record.visual_tokens for record in records],
        "retrieved_text": [record.retrieved_text_tokens for record in records],
        "text_in": [record.input_tokens - record.visual_tokens for record in records],
        "input": [record.input_tokens for record in records],
        "out": [record.output_tokens for record in records],
    }
    means = {name: sum(values) / len(values) if values else None for name, values in parts.items()}
    greatest = {name: max(values, default=None) for name, values in parts.items()}
    return means | {"max": greatest, "estimated": sum(not record.tokens_told for record in records)}


def answer_differences(
    records: Mapping[str, Sequence[EvalRecord]],
    graders: Sequence[str],
    compare: Sequence[tuple[str, str]],
    bootstrap: ClusterBootstrap,
) -> list[dict[str, Any]]:
    """Paired differences of accuracies, {row, against, grader: difference}; Holm's correction within each grader."""
    found: list[dict[str, Any]] = [
        {"row": left, "against": right}
        | {
            name: compared(bootstrap, scores_of(records[left], name), scores_of(records[right], name))
            for name in graders
        }
        for left, right in compare
        if left in records and right in records
    ]
    for name in graders:
        correct([entry[name] for entry in found])
    return found
