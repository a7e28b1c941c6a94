"""Whether a tile answers a query: a verdict, or one of the outcomes that are none and so decide nothing."""

from collections.abc import Sequence
from typing import Protocol

from tilewright.configs.items import ItemError
from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.records import Tile
from tilewright.data_gen.verdicts import Verdict

ERROR = "ERROR"  # the call failed; beside the verdicts, never one of them


class JudgeError(ItemError):
    """A judge's call failed (server down, time-out, budget): no verdict came of it."""


class Judge(Protocol):
    """Says whether ``tile`` alone yields one of ``answers`` to ``query``. Raises JudgeError when a call fails."""

    def judge(self, query: str, answers: Sequence[str], tile: Tile) -> Verdict: ...


JUDGES = {"grounded": GroundedJudge}


def outcome_of(judge: Judge, query: str, answers: Sequence[str], tile: Tile) -> str:
    """CORRECT, WRONG, CANNOT_ANSWER or UNPARSED as the judge says, ERROR if its call failed."""
    try:
        return judge.judge(query, answers, tile).value
    except JudgeError:
        return ERROR
