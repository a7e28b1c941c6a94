"""Grade stored predictions: with any grader, again with another one, without asking a reader again."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError
from tilewright.data_gen.llm import Client, LlmSettings, Session
from tilewright.eval.graders import Graded, Grader, ToGrade
from tilewright.eval.grading import Grade
from tilewright.eval.grading_judge import EXACT

EMPTY = "empty prediction"
NO_VERDICT = "the grader gave no verdict"


@dataclass(frozen=True)
class Regraded:
    """The outcomes of one grader, {key: outcome}, in the order of the predictions. ``grader``: its name.

    ``complete``: whether no more than the allowed share has no score.
    """

    grader: str
    graded: Mapping[str, Graded]
    complete: bool

    @property
    def counts(self) -> dict[str, int]:
        """``n`` predictions, of which ``n_graded`` have a score; the others by what they lack, and the grades."""
        outcomes = list(self.graded.values())
        return {
            "n": len(outcomes),
            "n_graded": sum(one.score is not None for one in outcomes),
            "n_errors": sum(one.error is not None for one in outcomes),
            "n_unparsed": sum(one.grade is Grade.UNPARSED for one in outcomes),
            **{f"n_{grade}": sum(one.grade is grade for one in outcomes) for grade in list(Grade)[:3]},
            "n_empty": sum(one.by == EMPTY for one in outcomes),
        }

    def arrays(self, keys: Sequence[str]) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
        """(scores, NaN without one; which failed) of these predictions, for ``statistics_cells``."""
        scores = [self.graded[key].score for key in keys]
        values = np.array([np.nan if score is None else score for score in scores], dtype=np.float64)
        return values, np.isnan(values)


def regrade(
    items: Sequence[ToGrade], grader: Grader, out: Path, *, max_error_share: float, llm: LlmSettings | None = None
) -> Regraded:
    """Grade ``items``. A model's verdicts are journalled in ``out`` and its calls are cached as ``llm`` says.

    An empty prediction is NOT_ATTEMPTED for any grader, score 0, without asking; a reader's failure stays an error.
    Raises InputError for a key that comes twice, StageError if a model is asked and gives no verdict on anything (what
    is finished is kept) and for what stops a session (budget, key, no server).
    """
    _check_keys(items)
    if grader.asks_model and llm is None:
        raise InputError(f"grader {grader.name}: wanted the settings of a model, found none")
    found = {item.key: known for item in items if (known := _known(item)) is not None}
    todo = [item for item in items if item.key not in found]
    found |= _asked(todo, grader, out, llm) if llm is not None and grader.asks_model else _computed(todo, grader)
    graded = {item.key: found[item.key] for item in items}
    missing = sum(one.score is None for one in graded.values())
    return Regraded(grader.name, graded, missing <= max_error_share * len(items))


def _check_keys(items: Sequence[ToGrade]) -> None:
    seen: set[str] = set()
    for item in items:
        if item.key in seen:
            raise InputError(f"prediction {item.key!r} comes twice: wanted it once")
        if (item.prediction is None) != (item.error is not None):
            raise InputError(f"prediction {item.key!r}: wanted a prediction or an error, found both or neither")
        seen.add(item.key)


def _known(item: ToGrade) -> Graded | None:
    """The outcome that no grader is asked for."""
    if item.prediction is None:
        return Graded(None, None, "reader", item.error)
    return None if item.prediction.strip() else Graded(0.0, Grade.NOT_ATTEMPTED, EMPTY)


def _computed(items: Sequence[ToGrade], grader: Grader) -> dict[str, Graded]:
    async def run() -> dict[str, Graded]:
        return {item.key: await grader.grade(None, item) for item in items}

    return asyncio.run(run())


def _asked(items: Sequence[ToGrade], grader: Grader, out: Path, llm: LlmSettings) -> dict[str, Graded]:
    async def work(client: Client, item: ToGrade) -> dict[str, Any]:
        found = await grader.grade(client, item)
        return {"score": found.score, "grade": found.grade, "by": found.by}

    out.mkdir(parents=True, exist_ok=True)
    with Session(llm, out) as session:
        values = session.process("grade", items, lambda item: f"{grader.name}/{item.key}", work, max_error_share=1.0)
    graded = {item.key: _outcome(values.get(f"{grader.name}/{item.key}")) for item in items}
    failed = sum(one.error is not None for one in graded.values())
    if failed and all(one.error is not None or one.by == EXACT for one in graded.values()):
        raise StageError(
            f"grader {grader.name}: no verdict on any of the {failed} predictions that {llm.model} was asked about; see"
            f" {out}/logs/errors.jsonl. Start the server again, then run the same command again"
        )
    return graded


def _outcome(value: Mapping[str, Any] | None) -> Graded:
    if value is None:
        return Graded(None, None, "grader", NO_VERDICT)
    return Graded(value["score"], None if value["grade"] is None else Grade(value["grade"]), value["by"])
