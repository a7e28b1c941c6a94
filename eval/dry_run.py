"""What readers and the judge would be asked and cost, found out without a search or a call."""

import random
from collections.abc import Mapping, Sequence

from tilewright.configs.stage import DryRunError
from tilewright.eval.cache import Cache
from tilewright.eval.evaluation import Evaluation
from tilewright.eval.graders import ToGrade
from tilewright.eval.grading_run import regrade
from tilewright.eval.metrics import RowResult
from tilewright.eval.parts import Question, Retriever
from tilewright.eval.reading import answer_cell
from tilewright.eval.rows import Cell, cells_of

STAND_IN = "an answer of some words"


def report_cost(evaluation: Evaluation) -> None:
    """Raise DryRunError with the calls of every cell whose reader is a served model, and of the judge.

    Nothing is searched: each question gets items drawn at random from those that would be, which cost on average what
    hits do. Cells that share questions and items share calls, so that the sum is an upper bound.
    """
    registry, plan = evaluation.registry, evaluation.plan
    lines: list[str] = []
    counts: dict[str, Mapping[str, float]] = {}
    asked = 0
    for cell in cells_of(plan.specs):
        asked += len(plan.read)
        settings = getattr(registry.reader(cell.reader), "settings", None)
        if settings is None:
            lines.append(f"{cell.name}: asks no served model")
            continue
        result = drawn_at_random(registry.retriever(cell.retriever), plan.read, cell)
        try:
            answer_cell(cell, registry, result, plan.read, Cache(registry.workshop.out / ".dry_run"))
        except DryRunError as error:
            lines.append(f"{cell.name}: {error}")
            counts |= {f"{cell.name}/{purpose}": sums for purpose, sums in error.counts.items()}
    if plan.judge is not None:
        items = [_to_grade(question) for question in plan.read]
        try:
            regrade(items, plan.judge.grader(), registry.workshop.out, max_error_share=1.0, llm=plan.judge.llm)
        except DryRunError as error:
            lines.append(f"judge, for one cell's answers of {len(items)} ({asked} answers in all): {error}")
            counts |= {f"judge/{purpose}": sums for purpose, sums in error.counts.items()}
    lines.append("Items are drawn at random in place of hits.")
    raise DryRunError("\n".join(lines), counts)


def drawn_at_random(retriever: Retriever, questions: Sequence[Question], cell: Cell) -> RowResult:
    """``cell.k`` items of the retriever's own for each question, the same in every run."""
    items = sorted(retriever.page_of)
    hits = {
        question.query_id: tuple(
            (item, 0.0) for item in random.Random(question.query_id).sample(items, min(cell.k, len(items)))
        )
        for question in questions
    }
    return RowResult(hits, {}, {}, page_of=retriever.page_of)


def _to_grade(question: Question) -> ToGrade:
    return ToGrade(
        key=question.query_id,
        query=question.query,
        answers=question.answers,
        prediction=STAND_IN,
        options=question.options,
        answer_parts=question.answer_parts,
    )
