"""Failure modes that are exclusive and sum up, displacement by hand, bins that hold every rank."""

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.llm import Prices
from tilewright.data_gen.records import EvalRecord, QAPair
from tilewright.eval.analyses import (
    Latencies,
    Mode,
    by_kind,
    by_source,
    costs,
    displacement,
    evidence_by,
    failure_modes,
    mode_of,
    rank_distribution,
    token_sweep,
)
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.metrics import RowResult
from tilewright.eval.parts import Item, Question

RECORD = EvalRecord("row", "q", "?", ("a",), (), (), (), k=3, verdict="WRONG", prediction="x")

PAIR = QAPair("q", "Who?", "Ora", (), "0" * 16 + "-0000-00", "0" * 16, "Ora", "table", "S", "x")
ONE = ClusterBootstrap(["a"], resamples=20, seed=0)


def record(**changes: object) -> EvalRecord:
    return dataclasses.replace(RECORD, **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "mode"),
    [
        ({"verdict": "CORRECT", "evidence": (3,)}, Mode.OK),
        ({"verdict": "CORRECT", "evidence": (4,)}, Mode.OK_WITHOUT_EVIDENCE),
        ({"verdict": "CORRECT"}, Mode.OK_WITHOUT_EVIDENCE),
        ({}, Mode.PARSER),
        ({"evidence": (101,)}, Mode.PARSER),
        ({"evidence": (100,)}, Mode.RANK),
        ({"evidence": (4, 9)}, Mode.RANK),
        ({"evidence": (1,)}, Mode.READER),
        ({"evidence": (1,), "verdict": "CANNOT_ANSWER"}, Mode.READER),
        ({"evidence": (1,), "verdict": None, "error": "down"}, Mode.ERROR),
    ],
)
def test_modes(changes: dict[str, object], mode: Mode) -> None:
    assert mode_of(record(**changes)) is mode


verdicts = st.sampled_from(["CORRECT", "WRONG", "CANNOT_ANSWER"])


@given(st.lists(st.tuples(verdicts, st.lists(st.integers(1, 120), max_size=3), st.booleans())))
def test_modes_are_exclusive_and_sum_up(outcomes: list[tuple[str, list[int], bool]]) -> None:
    found = [
        record(verdict=None if failed else verdict, evidence=tuple(sorted(ranks)), error="down" if failed else None)
        for verdict, ranks, failed in outcomes
    ]
    modes = failure_modes(found, items=50)
    assert sum(modes[mode.value] for mode in Mode) == modes["n"] == len(outcomes)
    wrong = sum(not failed and verdict != "CORRECT" for verdict, _, failed in outcomes)
    assert modes["failures"] == wrong and modes["scope"] == 50


def item(name: str) -> Item:
    page, number = name.split("-")
    return Item(name, page, "text_chunk", "", None, int(number))


def test_displacement_by_hand() -> None:
    questions = [Question(f"q{n}", "?", ("a",), frozenset({"gold"})) for n in range(4)]
    hits = {
        "q0": (("gold-0", 3.0), ("gold-2", 2.0)),  # the gold page's head stands above the answer
        "q1": (("gold-0", 3.0), ("gold-2", 2.0)),  # the head holds the answer itself
        "q2": (("x-0", 3.0), ("gold-1", 2.0)),  # another page's head
        "q3": (("x-5", 3.0),),  # nothing holds it
    }
    evidence = {"q0": (False, True), "q1": (True, False), "q2": (False, True), "q3": (False,)}
    found = displacement(questions, RowResult(hits, {}, {}, evidence=evidence), item)
    assert found == {
        "n": 4, "first_item_at_rank_1": 0.75, "n_with_evidence": 3, "displaces": 2 / 3, "of_gold_page": 1 / 3,
    }  # fmt: skip
    assert displacement([], RowResult({}, {}, {}), item)["displaces"] is None


@given(st.lists(st.integers(0, 150)), st.integers(1, 150))
def test_bins_hold_every_rank_once(ranks: list[int], depth: int) -> None:
    ranks = [rank if rank <= depth else 0 for rank in ranks]
    assert sum(rank_distribution(ranks, depth).values()) == len(ranks)


def test_bins() -> None:
    assert rank_distribution([1, 2, 3, 10, 0, 0], 10) == {"1": 1, "2 to 3": 2, "4 to 10": 1, "not found": 2}


def test_kinds_overlap_and_need_not_sum() -> None:
    questions = [
        Question("q0", "?", ("a",), kinds=("infobox", "table")), Question("q1", "?", ("a",), kinds=("table",)),
        Question("q2", "?", ("a",)),
    ]  # fmt: skip
    found = by_kind(questions, np.array([1.0, 0.0, 1.0]), ClusterBootstrap(["a", "b", "c"], resamples=20, seed=0))
    assert {kind: (of["value"], of["n_questions"]) for kind, of in found.items()} == {
        "infobox": (1.0, 1), "table": (0.5, 2),
    }  # fmt: skip


def test_evidence_by_the_tile_and_by_the_element_asked_about() -> None:
    questions = [
        Question("q0", "?", ("a",), kinds=("paragraph",), source="table"),
        Question("q1", "?", ("a",), kinds=("paragraph",), source="list"),
        Question("q2", "?", ("a",)),
    ]
    figures = {"recall@1": np.array([1.0, 0.0, 1.0]), "recall@3": np.array([1.0, np.nan, 1.0])}
    found = evidence_by(questions, figures, ClusterBootstrap(["a", "b", "c"], resamples=20, seed=0))
    shares = {
        name: {by: {kind: of["value"] for kind, of in kinds.items()} for by, kinds in grouped.items()}
        for name, grouped in found.items()
    }
    assert shares["recall@1"] == {"kinds": {"paragraph": 0.5}, "sources": {"list": 0.0, "table": 1.0}}
    assert shares["recall@3"]["kinds"] == {"paragraph": 1.0} and shares["recall@3"]["sources"]["table"] == 1.0
    assert Question.of(PAIR).source == "table" and by_source([Question.of(PAIR)], np.array([1.0]), ONE)["table"]


def test_costs_and_sweep() -> None:
    records = {"row": [record(input_tokens=100, output_tokens=10), record(input_tokens=300, output_tokens=30)]}
    (priced,) = costs(records, {"row": Prices(input=1.0, output=10.0)})
    assert priced == {"row": "row", "input_tokens": 400, "output_tokens": 40, "cost": pytest.approx(0.0008)}
    assert costs(records, {})[0]["cost"] is None
    cell = {"retriever": "r", "delivery": "d", "reader": "v", "k": 3, "accuracy": {"alias": {"value": 0.5}}}
    cells = [cell | {"tokens": {"input": 10.0, "out": 1.0}}, cell | {"tokens": {"input": None, "out": None}}]
    (point,) = token_sweep(cells, "alias")
    assert (point["line"], point["k"], point["tokens"], point["accuracy"]) == ("r, d, v", 3, 10.0, 0.5)


def test_latency_says_where_nothing_was_measured() -> None:
    search, nothing, read = Latencies({"bm25": None}, {"cell": []}, {"cell": [1.0, 3.0, 2.0]}).table()
    assert (search["mean_s"], nothing["n"], nothing["mean_s"]) == (None, 0, None)
    assert (read["n"], read["mean_s"], read["median_s"]) == (3, 2.0, 2.0)
