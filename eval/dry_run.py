"""What readers and judges would be asked and cost, found out without a search or a call."""

import random
from collections.abc import Mapping, Sequence

from tilewright.configs.stage import DryRunError
from tilewright.data_gen.llm import Session
from tilewright.eval.cache import Cache
from tilewright.eval.evaluation import Evaluation
from tilewright.eval.evidence_judge import ModelEvidence, ask_model, hits_to_judge, judged_questions
from tilewright.eval.graders import ToGrade
from tilewright.eval.grading_run import regrade
from tilewright.eval.metrics import RowResult
from tilewright.eval.parts import Question, Retriever
from tilewright.eval.reading import answer_cell
from tilewright.eval.rows import cells_of, retrievers_of

STAND_IN = "an answer of some words"


def report_cost(evaluation: Evaluation) -> None:
    """Raise DryRunError with the calls of every cell whose reader is a served model, and of the judges.

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
        result = drawn_at_random(registry.retriever(cell.retriever), plan.read, cell.k)
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
    if isinstance(plan.evidence_judge, ModelEvidence):
        found = _evidence_cost(evaluation, plan.evidence_judge)
        lines.append(f"evidence judge, if no hit is evidence: {found}")
        counts |= {f"evidence judge/{purpose}": sums for purpose, sums in found.counts.items()}
    lines.append("Items are drawn at random in place of hits.")
    raise DryRunError("\n".join(lines), counts)


def _evidence_cost(evaluation: Evaluation, judge: ModelEvidence) -> DryRunError:
    registry, plan = evaluation.registry, evaluation.plan
    workshop = registry.workshop
    retrievers = {name: registry.retriever(name) for name in retrievers_of(plan.specs)}
    questions = judged_questions(judge, workshop)
    rows = {name: (one, drawn_at_random(one, questions, judge.depth)) for name, one in retrievers.items()}
    with Session(judge.llm, workshop.out) as session:
        try:
            ask_model(judge, session, hits_to_judge(judge, workshop, rows))
        except DryRunError as error:
            return error
    raise ValueError("wanted settings of a dry run")


def drawn_at_random(retriever: Retriever, questions: Sequence[Question], k: int) -> RowResult:
    """``k`` items of the retriever's own for each question, the same in every run."""
    items = sorted(retriever.page_of)
    hits = {
        question.query_id: tuple(
            (item, 0.0) for item in random.Random(question.query_id).sample(items, min(k, len(items)))
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
