"""The mining judge: verdicts pass, failed calls are an outcome of their own, other errors aren't swallowed."""

from collections.abc import Sequence
from typing import Any

import pytest

from tilewright.data_gen.records import Tile
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.verdicts import Verdict
from tilewright.mining.judge import ERROR, JUDGES, Judge, JudgeError, outcome_of


class Scripted:
    """A judge that says or raises what it is told."""

    def __init__(self, reply: Verdict | Exception) -> None:
        self.reply = reply

    def judge(self, query: str, answers: Sequence[str], tile: Tile) -> Verdict:
        if isinstance(self.reply, Exception):
            raise self.reply
        return self.reply


@pytest.fixture(scope="module")
def store(corpus: Any) -> TileStore:
    return TileStore.open(corpus.root / "tiles")


@pytest.mark.parametrize("verdict", list(Verdict))
def test_a_verdict_passes_as_it_is(store: TileStore, verdict: Verdict) -> None:
    assert outcome_of(Scripted(verdict), "Who?", ["Ada"], next(iter(store))) == verdict.value


def test_a_failed_call_is_no_verdict(store: TileStore) -> None:
    outcome = outcome_of(Scripted(JudgeError("server down")), "Who?", ["Ada"], next(iter(store)))
    assert outcome == ERROR and outcome not in [verdict.value for verdict in Verdict]


def test_a_fault_of_ours_is_not_counted_as_a_failed_call(store: TileStore) -> None:
    with pytest.raises(KeyError):
        outcome_of(Scripted(KeyError("x")), "Who?", ["Ada"], next(iter(store)))


@pytest.mark.parametrize(
    ("page", "row", "outcome"),
    [(0, 0, "CORRECT"), (0, 1, "CORRECT"), (1, 0, "CANNOT_ANSWER"), (1, 1, "CANNOT_ANSWER")],
)
def test_the_grounded_judge_on_planted_tiles(corpus: Any, store: TileStore, page: int, row: int, outcome: str) -> None:
    judge: Judge = JUDGES["grounded"]()
    query, answers = "What is the capital of Aland?", ["Abad"]
    assert outcome_of(judge, query, answers, store.light(corpus.tile(page, row))) == outcome


def test_the_grounded_judge_calls_another_answer_wrong(corpus: Any, store: TileStore) -> None:
    judge: Judge = JUDGES["grounded"]()
    tile = store.light(corpus.tile(0, 0))
    assert outcome_of(judge, "What is the capital of Aland?", ["Bergport"], tile) == "WRONG"
