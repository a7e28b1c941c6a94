"""Grades of all cells' answers: equal answers to one question are graded once, by every grader of the run."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.requests import request_of
from tilewright.data_gen.llm import LlmSettings
from tilewright.eval.cache import Cache
from tilewright.eval.graders import ChoiceGrader, ExactGrader, Graded, Grader, PartsGrader, ToGrade, TokenF1Grader
from tilewright.eval.grading_judge import JudgeGrader
from tilewright.eval.grading_run import regrade
from tilewright.eval.parts import Question
from tilewright.eval.reading import Answers

GraderName = Literal["exact", "alias", "token_f1", "choice", "answer_parts"]
JUDGE = "judge"
_GRADERS: dict[str, Grader] = {
    "exact": ExactGrader(aliases=False),
    "alias": ExactGrader(),
    "token_f1": TokenF1Grader(),
    "choice": ChoiceGrader(),
    "answer_parts": PartsGrader(),
}


@dataclass(frozen=True)
class JudgeOptions:
    """A language model that grades; ``prompt`` and ``max_aliases`` as in grading_judge.JudgeGrader."""

    llm: LlmSettings
    prompt: str = "grade.v1"
    max_aliases: int = 10

    def __post_init__(self) -> None:
        check_bounds(self, 0, None, "max_aliases")
        self.grader()

    def grader(self) -> JudgeGrader:
        """The grader. Raises ValueError for a prompt that doesn't ship."""
        return JudgeGrader(self.prompt, self.max_aliases)


def grade_cells(
    cells: Sequence[Answers],
    questions: Sequence[Question],
    graders: Sequence[GraderName],
    judge: JudgeOptions | None,
    cache: Cache,
    max_error_share: float,
) -> dict[str, dict[str, dict[str, Graded]]]:
    """{cell: {grader: {query_id: outcome}}}; the judge's column is ``judge``.

    A failed retrieval, delivery or reader stays an error. Raises StageError if the judge answers nothing at all.
    """
    keys = {
        answers.cell.name: {
            question.query_id: _key(question, answers.predictions[question.query_id].text)
            for question in questions
            if question.query_id in answers.predictions
        }
        for answers in cells
    }
    items = _distinct(cells, questions, keys)
    columns: dict[str, Mapping[str, Graded]] = {
        name: regrade(items, _GRADERS[name], cache.folder, max_error_share=1.0).graded for name in graders
    }
    if judge is not None:
        identity = request_of("judge", 1, judge.llm)["config"]
        part = cache.part("grades", judge.grader().name, judge.max_aliases, identity)
        columns[JUDGE] = regrade(items, judge.grader(), part, max_error_share=max_error_share, llm=judge.llm).graded
    return {
        answers.cell.name: {
            name: {question.query_id: _outcome(answers, question, keys, column) for question in questions}
            for name, column in columns.items()
        }
        for answers in cells
    }


def _key(question: Question, prediction: str) -> str:
    """Names an answer by all that a grader sees."""
    seen = [question.query, question.answers, question.options, question.answer_parts, prediction]
    return digest_text(canonical_json(seen))


def _distinct(
    cells: Sequence[Answers], questions: Sequence[Question], keys: Mapping[str, Mapping[str, str]]
) -> list[ToGrade]:
    items: dict[str, ToGrade] = {}
    for answers in cells:
        for question in questions:
            key = keys[answers.cell.name].get(question.query_id)
            if key is not None and key not in items:
                items[key] = ToGrade(
                    key=key,
                    query=question.query,
                    answers=question.answers,
                    prediction=answers.predictions[question.query_id].text,
                    options=question.options,
                    answer_parts=question.answer_parts,
                )
    return list(items.values())


def _outcome(
    answers: Answers, question: Question, keys: Mapping[str, Mapping[str, str]], column: Mapping[str, Graded]
) -> Graded:
    key = keys[answers.cell.name].get(question.query_id)
    return Graded(None, None, "reader", answers.errors[question.query_id]) if key is None else column[key]
