"""Readers' answers: outcomes stay apart, finished answers are kept, cells share them, closed book is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from tilewright.configs.items import ItemError
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.cache import Cache
from tilewright.eval.deliveries import Delivery
from tilewright.eval.grading_cells import grade_cells
from tilewright.eval.metrics import FAILED, INCOMPLETE, RowResult
from tilewright.eval.parts import Asked, Found, Item, Prediction, Question
from tilewright.eval.reading import Answers, answer_cell, records_of
from tilewright.eval.rows import Cell
from tilewright.eval.scoring import cell_metrics, scores_of

QUESTIONS = [
    Question(f"q{n}", f"question {n}", (f"answer {n}", f"alias {n}"), frozenset({f"p{n}"}), cluster=f"p{n}")
    for n in range(5)
]
CELL = Cell("texts", "as_is", "scripted", 2)
GRADERS = ("exact", "alias", "token_f1")


class Texts:
    """A retriever of texts whose content is their id."""

    title, identity, facts = "texts", "texts", {}
    items_failed, sees_gold = 0, False

    def __init__(self, closed_book: bool = False) -> None:
        self.closed_book = closed_book
        self.page_of: Mapping[str, str] = {}

    def item(self, item_id: str) -> Item:
        return Item(item_id, "p", "text_chunk", f"text {item_id}")

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        raise AssertionError("these tests give the hits")


class Scripted:
    """A reader that answers from a script; an exception in it is that question's error."""

    title, stand_in, identity, sees_answers = "scripted", "", "scripted", False

    def __init__(self, script: dict[str, Any]) -> None:
        self.script, self.asked = script, list[tuple[str, list[str]]]()

    def cost(self, item: Item) -> int:
        return 30

    def answer(self, asked: Sequence[Asked], out: Path) -> Iterator[tuple[Asked, Prediction | ItemError]]:
        for one in asked:
            self.asked.append((one.question.query_id, [item.item_id for item in one.items]))
            said = self.script[one.question.query_id]
            yield one, said if isinstance(said, ItemError) else Prediction(said, 100, 0, 60, 3, 0.5)


def unreadable(item: Item) -> tuple[Item, str | None]:
    if item.item_id == "broken":
        raise ItemError("OCR of broken failed")
    return item, "changed" if item.item_id == "t9" else None


RESULT = RowResult(
    {"q0": (("t0", 1.0), ("t9", 0.5), ("t8", 0.1)), "q1": (("t7", 1.0),), "q2": (), "q4": (("broken", 1.0),)},
    {"q3": "server down"},
    {},
    evidence={"q0": (False, True, False), "q1": (False,), "q2": (), "q4": (True,)},
)


def run(
    tmp_path: Path, script: dict[str, Any], *, closed_book: bool = False, result: RowResult = RESULT
) -> tuple[Answers, Scripted]:
    reader = Scripted(script)
    registry: Any = SimpleNamespace(
        retriever=lambda name: Texts(closed_book),
        reader=lambda name: reader,
        delivery=lambda name: Delivery("test", unreadable),
    )
    return answer_cell(CELL, registry, result, QUESTIONS, Cache(tmp_path)), reader


def records(tmp_path: Path, answers: Answers, result: RowResult = RESULT) -> Any:
    graded = grade_cells([answers], QUESTIONS, GRADERS, None, Cache(tmp_path), 0.1)[CELL.name]
    return records_of(answers, result, QUESTIONS, graded, "alias", lambda item: 30, {"p0": "https://example.org/0"})


def test_outcomes_stay_apart(tmp_path: Path) -> None:
    answers, reader = run(tmp_path, {"q0": "Alias 0.", "q1": ItemError("RuntimeError: out of memory")})
    found = records(tmp_path, answers)
    assert [record.verdict for record in found] == ["CORRECT", None, "CANNOT_ANSWER", None, None]
    assert [record.error for record in found] == [
        None,
        "reader failed: RuntimeError: out of memory",
        None,
        "retrieval failed: server down",
        "delivery failed: OCR of broken failed",
    ]
    assert reader.asked == [("q0", ["t0", "t9"]), ("q1", ["t7"])], "never closed-book, never beyond k"
    assert (found[0].flags, found[2].flags) == (("changed",), ("nothing_retrieved",))
    assert [item.item_id for item in found[0].given] == ["t0", "t9"] and found[0].evidence == (2,)
    assert found[0].gold_urls == ("https://example.org/0",) and found[0].hits == RESULT.hits["q0"]
    assert found[0].scores == {"exact": 0.0, "alias": 1.0, "token_f1": 1.0}
    row = cell_metrics(CELL, found, GRADERS, ClusterBootstrap([f"p{n}" for n in range(5)], resamples=50, seed=0), 0.1)
    assert (row["n_questions"], row["n_graded"], row["n_errors"], row["n_cannot_answer"]) == (5, 2, 3, 1)
    assert row["errors"] == {"retrieval failed": 1, "delivery failed": 1, "reader failed": 1, "not graded": 0}
    assert (row["status"], row["accuracy"]["alias"]["value"], row["accuracy"]["exact"]["value"]) == (INCOMPLETE, 0.5, 0)
    assert (row["tokens"]["input"], row["tokens"]["retrieved_text"], row["tokens"]["max"]["input"]) == (50.0, 30.0, 100)
    assert np.isnan(scores_of(found, "alias")[[1, 3, 4]]).all()


def test_finished_answers_are_kept_and_failed_ones_tried_again(tmp_path: Path) -> None:
    run(tmp_path, {"q0": "answer 0", "q1": ItemError("busy")})
    answers, reader = run(tmp_path, {"q0": "never asked", "q1": "answer 1"})
    assert [query for query, _ in reader.asked] == ["q1"]
    assert {name: found.text for name, found in answers.predictions.items()} == {
        "q0": "answer 0", "q1": "answer 1", "q2": "",
    }  # fmt: skip


def test_a_row_that_fails_everywhere_has_failed(tmp_path: Path) -> None:
    down = RowResult({}, {question.query_id: "down" for question in QUESTIONS}, {})
    answers, reader = run(tmp_path, {}, result=down)
    found = records(tmp_path, answers, down)
    row = cell_metrics(CELL, found, GRADERS, ClusterBootstrap([f"p{n}" for n in range(5)], resamples=50, seed=0), 0.5)
    assert (row["status"], row["n_graded"], row["accuracy"]["alias"]["value"], reader.asked) == (FAILED, 0, None, [])


def test_closed_book_is_asked_without_items(tmp_path: Path) -> None:
    nothing = RowResult({question.query_id: () for question in QUESTIONS}, {}, {})
    script = {question.query_id: "by memory" for question in QUESTIONS}
    answers, reader = run(tmp_path, script, closed_book=True, result=nothing)
    assert reader.asked == [(question.query_id, []) for question in QUESTIONS]
    assert all(not delivered.flags for delivered in answers.delivered.values())


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("answer 0", "CORRECT"),
        ("The Answer 0!", "CORRECT"),
        ("alias 0", "CORRECT"),
        ("answer 1", "WRONG"),
        ("answer 0 or 1", "WRONG"),
        ("Cannot answer.", "CANNOT_ANSWER"),
        ("", "CANNOT_ANSWER"),
        ("   ", "CANNOT_ANSWER"),
        ("<script>alert(1)</script>", "WRONG"),
    ],
)
def test_verdicts(tmp_path: Path, said: str, verdict: str) -> None:
    answers, _ = run(tmp_path, {"q0": said, "q1": "x"})
    assert records(tmp_path, answers)[0].verdict == verdict
