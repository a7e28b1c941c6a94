"""Reader records: verdicts, errors apart from wrong answers, token sums, what is asked of the reader."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.data_gen.records import QAPair
from tilewright.data_gen.verdicts import Verdict
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.metrics import INCOMPLETE, RowResult
from tilewright.eval.readers import GOLD, Cell, answer_tasks, records_of, summary, tasks_of, verdict_of
from tilewright.train.reader import Answer

PAIRS = [
    QAPair(f"q{n}", f"question {n}", f"answer {n}", (f"alias {n}",), f"t{n}", f"p{n}", "", "sentence", "", "test/1")
    for n in range(4)
]
CELL = Cell("base", "bm25", 2.0)


class Store:
    """Hands out the tile's id as its picture."""

    def image(self, tile_id: str) -> str:
        return tile_id


class Scripted:
    """A reader that answers from a script; an exception in the script is raised."""

    def __init__(self, script: dict[str, Any]) -> None:
        self.script, self.asked = script, []

    def answer(self, query: str, images: list[Any], *, compression: float, max_new_tokens: int) -> Answer:
        self.asked.append((query, images, compression, max_new_tokens))
        said = self.script[query]
        if isinstance(said, Exception):
            raise said
        return Answer(said, 100, 3, 60)


def run(tmp_path: Path, script: dict[str, Any], results: dict[str, RowResult]) -> tuple[Any, Any, Scripted]:
    reader = Scripted(script)
    tasks = tasks_of(CELL, PAIRS, results, tiles=2)
    answers, errors = answer_tasks({"base": reader}, tasks, Store(), tmp_path, max_new_tokens=7)  # type: ignore
    records = records_of(CELL, PAIRS, tasks, answers, errors, {"p0": "https://example.org/0"})
    bootstrap = ClusterBootstrap([pair.page_id for pair in PAIRS], resamples=50, seed=0)
    return records, summary(CELL, PAIRS, records, bootstrap, 0.1), reader


RESULTS = {
    "bm25": RowResult(
        {"q0": [("t0", 1.0), ("t9", 0.5), ("t8", 0.1)], "q1": [("t7", 1.0)], "q2": []}, {"q3": "down"}, {}
    )
}


def test_outcomes_stay_apart(tmp_path: Path) -> None:
    script = {"question 0": "Alias 0.", "question 1": RuntimeError("out of memory")}
    records, row, reader = run(tmp_path, script, RESULTS)
    assert [record.verdict for record in records] == [Verdict.CORRECT, None, Verdict.CANNOT_ANSWER, None]
    assert [record.error for record in records] == [None, "RuntimeError", None, "retrieval failed"]
    assert reader.asked == [("question 0", ["t0", "t9"], 2.0, 7), ("question 1", ["t7"], 2.0, 7)]
    assert (row["n_questions"], row["n_graded"], row["n_errors"], row["n_cannot_answer"]) == (4, 2, 2, 1)
    assert row["status"] == INCOMPLETE
    assert (row["exact"]["value"], row["alias"]["value"], row["alias"]["n_questions"]) == (0.0, 0.5, 2)
    assert row["tokens"] == {"visual": 30.0, "text_in": 20.0, "out": 1.5}
    assert records[0].gold_urls == ("https://example.org/0",) and records[0].reader_tile_ids == ("t0", "t9")
    assert records[0].hits == (("t0", 1.0), ("t9", 0.5), ("t8", 0.1))


def test_finished_answers_are_kept_and_failed_ones_tried_again(tmp_path: Path) -> None:
    run(tmp_path, {"question 0": "answer 0", "question 1": ValueError("busy")}, RESULTS)
    records, row, reader = run(tmp_path, {"question 0": "never asked", "question 1": "answer 1"}, RESULTS)
    assert [query for query, *_ in reader.asked] == ["question 1"]
    assert [record.prediction for record in records] == ["answer 0", "answer 1", "", None]
    assert row["exact"]["value"] == pytest.approx(2 / 3)


def test_gold_tile_in_place_of_a_retriever() -> None:
    tasks = tasks_of(Cell("base", GOLD, 1.0), PAIRS, {}, tiles=3)
    assert [task.tile_ids for task in tasks] == [("t0",), ("t1",), ("t2",), ("t3",)]


@pytest.mark.parametrize(
    ("said", "verdict"),
    [
        ("answer 0", Verdict.CORRECT),
        ("The Answer 0!", Verdict.CORRECT),
        ("alias 0", Verdict.CORRECT),
        ("answer 1", Verdict.WRONG),
        ("answer 0 or 1", Verdict.WRONG),
        ("Cannot answer.", Verdict.CANNOT_ANSWER),
        ("", Verdict.CANNOT_ANSWER),
    ],
)
def test_verdicts(said: str, verdict: Verdict) -> None:
    assert verdict_of(said, PAIRS[0]) is verdict


def test_keys_of_cells_differ() -> None:
    cells = [
        Cell(reader, given, c) for reader in ("base", "trained") for given in ("bm25", GOLD) for c in (1.0, 1.5, 4.0)
    ]
    assert len({cell.name for cell in cells}) == 12
    assert np.all(["/" not in cell.name and " " not in cell.name for cell in cells])
