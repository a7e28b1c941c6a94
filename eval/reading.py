"""What readers answer: each cell's deliveries, predictions (kept by content), grades, and one record a question."""

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.digests import plain
from tilewright.configs.items import ItemError
from tilewright.data_gen.records import EvalRecord, Given
from tilewright.eval.cache import Cache
from tilewright.eval.graders import Graded, gives_up
from tilewright.eval.grading import Grade
from tilewright.eval.metrics import RowResult
from tilewright.eval.parts import (
    DELIVERY_FAILED,
    READER_FAILED,
    RETRIEVAL_FAILED,
    Asked,
    Delivered,
    Delivery,
    Item,
    Prediction,
    Preparing,
    Question,
    Ranked,
    Reader,
    Retriever,
    Searching,
)
from tilewright.eval.registry import Registry
from tilewright.eval.rows import Cell

SHOWN_CHARACTERS = 600
NOTHING_RETRIEVED = "nothing_retrieved"
NO_ANSWER = Prediction("", 0, 0, 0, 0)


@dataclass(frozen=True)
class Answers:
    """A cell's outcome: for each query_id a prediction or an error; what was delivered; seconds a delivery took."""

    cell: Cell
    predictions: Mapping[str, Prediction]
    errors: Mapping[str, str]
    delivered: Mapping[str, Delivered]
    delivery_seconds: Sequence[float]


def answer_cell(
    cell: Cell, registry: Registry, result: RowResult, questions: Sequence[Question], cache: Cache
) -> Answers:
    """Deliver to and ask the cell's reader; questions that it has answered before, for any cell, aren't asked again.

    A retrieval, delivery or reader that fails is the question's error: never a wrong or a closed-book answer. A reader
    that searches gets no items but a tool; what its searches say of themselves stands for what was delivered.
    """
    retriever, reader = registry.retriever(cell.retriever), reader_of(cell, registry)
    searching = isinstance(reader, Searching)
    if not searching:
        delivery = registry.delivery(cell.delivery)
        delivered, errors, seconds = _deliver(cell, delivery, retriever, reader, result, questions)
    else:
        delivered, errors, seconds = {question.query_id: Delivered(()) for question in questions}, {}, []
    asked = {
        question.query_id: Asked(question, delivered[question.query_id].items)
        for question in questions
        if question.query_id in delivered and (delivered[question.query_id].items or retriever.closed_book or searching)
    }
    part = cache.part("answers", reader.identity)

    def key(one: Asked) -> str:
        return one.key(reader.sees_answers)

    values, failed = cache.values(part, cell.name, list(asked.values()), key, _working(reader, part))
    predictions = {name: Prediction(**values[key(one)]) for name, one in asked.items() if key(one) in values}
    errors |= {name: _failure(failed[key(one)]) for name, one in asked.items() if key(one) in failed}
    predictions |= {name: NO_ANSWER for name in delivered if name not in asked}
    if searching:
        delivered = {name: Delivered((), tuple(one.flags), one.measures) for name, one in predictions.items()}
    return Answers(cell, predictions, errors, delivered, seconds)


def reader_of(cell: Cell, registry: Registry) -> Reader:
    """The cell's reader, with the cell's tool if it searches. Raises as ``registry.reader``."""
    reader = registry.reader(cell.reader)
    if isinstance(reader, Searching):
        return reader.using(registry.retriever(cell.retriever), registry.delivery(cell.delivery), cell.k)
    return reader


def _failure(said: str) -> str:
    """A reader's error, by what failed."""
    return said if said.startswith((RETRIEVAL_FAILED, DELIVERY_FAILED)) else f"{READER_FAILED}: {said}"


def _working(reader: Reader, part: Path) -> Callable[[Sequence[Asked]], Any]:
    def work(todo: Sequence[Asked]) -> Any:
        if todo:
            for one, value in reader.answer(todo, part):
                yield one, value if isinstance(value, ItemError) else plain(value)

    return work


def _deliver(
    cell: Cell,
    delivery: Delivery,
    retriever: Retriever,
    reader: Reader,
    result: RowResult,
    questions: Sequence[Question],
) -> tuple[dict[str, Delivered], dict[str, str], list[float]]:
    """({query_id: what is delivered}, {query_id: error}, seconds of each delivery)."""
    delivered, seconds = {}, []
    errors = {
        question.query_id: f"{RETRIEVAL_FAILED}: {result.errors[question.query_id]}"
        for question in questions
        if question.query_id in result.errors
    }
    ranked = {
        question.query_id: Ranked(retriever, result.hits[question.query_id])
        for question in questions
        if question.query_id not in errors
    }
    if isinstance(delivery, Preparing):
        delivery.prepare([item for items in ranked.values() for item in items[: cell.k]])
    for question in questions:
        if question.query_id in errors:
            continue
        started = time.monotonic()
        try:
            found = delivery.deliver(question, ranked[question.query_id], cell.k, reader.cost)
        except ItemError as error:
            errors[question.query_id] = f"{DELIVERY_FAILED}: {error}"
            continue
        seconds.append(time.monotonic() - started)
        if not found.items and not retriever.closed_book:
            found = Delivered((), (*found.flags, NOTHING_RETRIEVED), found.measures)
        delivered[question.query_id] = found
    return delivered, errors, seconds


def records_of(
    answers: Answers,
    result: RowResult,
    questions: Sequence[Question],
    graded: Mapping[str, Mapping[str, Graded]],
    deciding: str,
    cost: Callable[[Item], int],
    urls: Mapping[str, str],
) -> list[EvalRecord]:
    """One record a question. ``graded``: {grader: {query_id: outcome}}; ``deciding``: whose grade is the verdict."""
    records = []
    for question in questions:
        name = question.query_id
        prediction, delivered = answers.predictions.get(name), answers.delivered.get(name)
        outcome = graded[deciding][name]
        unread = None if outcome.score is not None else outcome.error or f"{deciding}: {outcome.by}: no grade"
        records.append(
            EvalRecord(
                **retrieved(answers.cell.name, question, result, urls),
                k=answers.cell.k,
                given=tuple(_given(item, cost) for item in delivered.items) if delivered else (),
                flags=delivered.flags if delivered else (),
                input_tokens=prediction.input_tokens if prediction else 0,
                visual_tokens=prediction.visual_tokens if prediction else 0,
                retrieved_text_tokens=prediction.retrieved_text_tokens if prediction else 0,
                output_tokens=prediction.output_tokens if prediction else 0,
                tokens_told=prediction.told if prediction else True,
                prediction=prediction.text if prediction else None,
                scores={grader: found[name].score for grader, found in graded.items()},
                verdict=None if unread else _verdict(outcome, prediction),
                error=answers.errors.get(name) or unread,
            )
        )
    return records


def _verdict(outcome: Graded, prediction: Prediction | None) -> str:
    if outcome.score == 1.0:
        return "CORRECT"
    silent = outcome.grade is Grade.NOT_ATTEMPTED or prediction is None or not prediction.text.strip()
    return "CANNOT_ANSWER" if silent or gives_up(prediction.text if prediction else "") else "WRONG"


def _given(item: Item, cost: Callable[[Item], int]) -> Given:
    picture = item.picture
    return Given(
        item_id=item.item_id,
        page_id=item.page_id,
        source=item.source,
        tokens=cost(item),
        compression=picture.compression if picture else 1.0,
        size_px=picture.shown_px if picture else (),
        text="" if item.source == "tile" else item.text[:SHOWN_CHARACTERS],
    )


def retrieved(row: str, question: Question, result: RowResult, urls: Mapping[str, str]) -> dict[str, Any]:
    """The part of a record that retrieval fills. ``urls``: {page_id: url}."""
    evidence = (result.evidence or {}).get(question.query_id, ())
    gold = question.gold_urls or tuple(urls[page] for page in sorted(question.gold_pages) if page in urls)
    return {
        "row": row,
        "query_id": question.query_id,
        "query": question.query,
        "answers": question.answers,
        "gold_urls": gold,
        "gold_tile_ids": tuple(sorted(question.gold_tiles)),
        "hits": tuple((item, float(score)) for item, score in result.hits.get(question.query_id, ())),
        "cluster": question.cluster or f"question {question.query_id}",
        "ranks": _ranks(question, result),
        "evidence": tuple(rank for rank, held in enumerate(evidence, start=1) if held),
    }


def _ranks(question: Question, result: RowResult) -> dict[str, int]:
    """Of the first hit of a gold page and of a gold tile, 0 if not found; without a key where nothing is gold."""
    hits = [item for item, _ in result.hits.get(question.query_id, ())]
    pages = [(result.page_of or {}).get(item) for item in hits]
    right = {"page": [page in question.gold_pages for page in pages], "tile": [h in question.gold_tiles for h in hits]}
    gold = {"page": question.gold_pages, "tile": question.gold_tiles}
    return {level: found.index(True) + 1 if True in found else 0 for level, found in right.items() if gold[level]}
