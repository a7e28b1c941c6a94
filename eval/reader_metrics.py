"""Figures of a reader's grid: accuracy where the gold tile is shown, by its position; abstention where it isn't."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.data_gen.answers import exact_match
from tilewright.data_gen.records import EvalRecord
from tilewright.eval.bootstrap import ClusterBootstrap, Values
from tilewright.eval.graders import Graded, gives_up
from tilewright.eval.grading import Grade
from tilewright.eval.metrics import COMPLETE, FAILED, INCOMPLETE, as_json, compared
from tilewright.eval.reader_cells import Row
from tilewright.eval.reading import Answers
from tilewright.eval.scoring import correct, scores_of, tokens_of
from tilewright.eval.statistics_cells import Flags, cell

ABSTAINS = "abstains"  # the grader of rows whose gold tile is absent
Metrics = Mapping[str, Any]


@dataclass(frozen=True)
class CellOf:
    """A cell of the grid: who read, at which compression and k; its rows and their records, in one order."""

    reader: str
    compression: float
    k: int
    rows: Sequence[Row]
    records: Sequence[EvalRecord]

    @property
    def name(self) -> str:
        """The cell's name."""
        return self.records[0].row

    @property
    def shows_gold(self) -> Flags:
        """[Q] whether the gold tile is shown."""
        return np.array([row.shows_gold for row in self.rows])

    def values(self, grader: str) -> Values:
        """[Q] scores of a grader, NaN where it gave none."""
        return scores_of(self.records, grader)

    @property
    def abstained(self) -> Values:
        """[Q] 1 where the answer says that there is none, 0 for another answer, NaN without a reader's answer."""
        said = [
            np.nan if record.prediction is None else float(abstains(record.prediction, row))
            for row, record in zip(self.rows, self.records, strict=True)
        ]
        return np.array(said, dtype=np.float64)


def abstains(prediction: str, row: Row) -> bool:
    """Whether an answer says that the tiles don't show one: in the words of the reader data, or in those of our
    prompt. A blank answer says nothing."""
    return gives_up(prediction) or (row.abstaining is not None and exact_match(prediction, (row.abstaining,)))


def grade_absent(answers: Answers, rows: Sequence[Row]) -> dict[str, Graded]:
    """{query_id: outcome} of rows whose gold tile is absent: right is who abstains. A failed reader stays an error."""
    graded = {}
    for row in rows:
        name = row.question.query_id
        if name not in answers.predictions:
            graded[name] = Graded(None, None, "reader", answers.errors[name])
            continue
        said = answers.predictions[name].text
        right = abstains(said, row)
        grade = Grade.CORRECT if right else Grade.INCORRECT if said.strip() else Grade.NOT_ATTEMPTED
        graded[name] = Graded(float(right), grade, ABSTAINS)
    return graded


def entry_of(
    of: CellOf, graders: Sequence[str], deciding: str, bootstrap: ClusterBootstrap, max_error_share: float
) -> dict[str, Any]:
    """A cell of metrics.json. Figures over rows with and without their gold tile never mix; tokens are over both."""
    errors, total = sum(record.error is not None for record in of.records), len(of.rows)
    answered = [record for record in of.records if record.prediction is not None]
    return {
        "name": of.name,
        "reader": of.reader,
        "compression": of.compression,
        "k": of.k,
        "status": FAILED if errors == total else INCOMPLETE if errors > max_error_share * total else COMPLETE,
        "n_questions": total,
        "n_errors": errors,
        "n_reader_failed": total - len(answered),
        "shown": _shown(of, graders, deciding, bootstrap),
        "absent": _absent(of, bootstrap),
        "tokens": tokens_of(answered),
    }


def _figure(bootstrap: ClusterBootstrap, values: Values, of: Flags) -> dict[str, Any]:
    """The figure over the rows that ``of`` marks, those without a value being its errors."""
    counted = np.where(of, values, np.nan)
    found = cell(bootstrap, counted, of & np.isnan(counted))
    return as_json(found.estimate) | {"n_errors": found.n_errors}


def _shown(of: CellOf, graders: Sequence[str], deciding: str, bootstrap: ClusterBootstrap) -> dict[str, Any]:
    shown, decided = of.shows_gold, of.values(deciding)
    positions = np.array([-1 if row.gold_position is None else row.gold_position for row in of.rows])
    return {
        "n_questions": int(shown.sum()),
        "accuracy": {name: _figure(bootstrap, of.values(name), shown) for name in graders},
        "abstained": _figure(bootstrap, of.abstained, shown),
        "by_gold_position": [_figure(bootstrap, decided, positions == position) for position in range(of.k)],
    }


def _absent(of: CellOf, bootstrap: ClusterBootstrap) -> dict[str, Any]:
    absent = ~of.shows_gold
    said = [record.prediction for record in of.records]
    blank = np.array([prediction is not None and not prediction.strip() for prediction in said])
    false = np.where(np.isnan(of.abstained), np.nan, np.where(blank, 0.0, 1 - of.abstained))
    gold = np.array([exact_match(text or "", row.question.answers) for text, row in zip(said, of.rows, strict=True)])
    return {
        "n_questions": int(absent.sum()),
        "abstained": _figure(bootstrap, of.abstained, absent),
        "false_answers": _figure(bootstrap, false, absent),
        "n_blank": int((absent & blank).sum()),
        "n_false_but_gold": int((absent & gold & (false == 1)).sum()),
    }


def differences(
    cells: Sequence[CellOf],
    compare: Sequence[tuple[str, str]],
    graders: Sequence[str],
    bootstraps: Mapping[int, ClusterBootstrap],
) -> list[dict[str, Any]]:
    """Paired differences of two readers in each cell (accuracy where gold is shown, abstention where it isn't).

    p-values are corrected by Holm's method within each figure, over the whole table.
    """
    by_place = {(of.reader, of.compression, of.k): of for of in cells}
    found: list[dict[str, Any]] = []
    for left, right in compare:
        for of in cells:
            other = by_place.get((right, of.compression, of.k))
            if of.reader != left or other is None:
                continue
            entry: dict[str, Any] = {"reader": left, "against": right, "compression": of.compression, "k": of.k}
            for name in (*graders, ABSTAINS):
                entry[name] = compared(bootstraps[of.k], of.values(name), other.values(name))
            found.append(entry)
    for name in (*graders, ABSTAINS):
        correct([entry[name] for entry in found])
    return found


def pareto(points: Mapping[str, tuple[float, float]]) -> list[str]:
    """Names of the (tokens, accuracy) points that no other beats: none costs no more and answers better, or costs less
    and answers as well. By rising tokens; of equal points the first by name."""
    front: list[str] = []
    best = -np.inf
    for name, (_, accuracy) in sorted(points.items(), key=lambda item: (item[1][0], -item[1][1], item[0])):
        if accuracy > best:
            front.append(name)
            best = accuracy
    return front


def points_of(grid: Sequence[Metrics], deciding: str) -> dict[str, tuple[float, float]]:
    """{cell: (mean input tokens a question, accuracy)} of the cells that have both."""
    return {
        entry["name"]: (entry["tokens"]["input"], entry["shown"]["accuracy"][deciding]["value"])
        for entry in grid
        if entry["tokens"]["input"] is not None and entry["shown"]["accuracy"][deciding]["value"] is not None
    }
