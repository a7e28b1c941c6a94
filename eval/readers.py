"""Readers on the tiles of a retriever or on the gold tile, at each compression: predictions, verdicts, token costs."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError, process_items
from tilewright.data_gen.answers import exact_match
from tilewright.data_gen.records import EvalRecord, QAPair
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.verdicts import Verdict
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.metrics import COMPLETE, INCOMPLETE, Hits, RowResult, as_json
from tilewright.eval.outputs import gold_urls
from tilewright.train.reader import Answer, Reader
from tilewright.train.reader_prompt import CANNOT_ANSWER

GOLD = "gold"  # in place of a retriever: the reader is given the tile that holds the answer


@dataclass(frozen=True)
class Cell:
    """One figure of the grid: which reader, on which retriever's tiles, at which compression."""

    reader: str
    given: str
    compression: float

    @property
    def name(self) -> str:
        """The cell as the name of a row and a file."""
        return f"reader-{self.reader}-{self.given}-c{self.compression:g}"


@dataclass(frozen=True)
class Task:
    """One question for one cell; ``hits`` is the retriever's whole list, ``tile_ids`` what the reader is given."""

    cell: Cell
    pair: QAPair
    hits: Hits
    tile_ids: tuple[str, ...]

    @property
    def key(self) -> str:
        """The task in the stage's journal."""
        return f"{self.cell.name}/{self.pair.query_id}"


def tasks_of(cell: Cell, pairs: Sequence[QAPair], results: Mapping[str, RowResult], tiles: int) -> list[Task]:
    """The tasks of a cell; a question whose retrieval failed gets none (its record is an error)."""
    if cell.given == GOLD:
        return [Task(cell, pair, (), (pair.tile_id,)) for pair in pairs]
    hits = results[cell.given].hits
    found = [(pair, hits[pair.query_id]) for pair in pairs if pair.query_id in hits]
    return [Task(cell, pair, mine, tuple(tile for tile, _ in mine[:tiles])) for pair, mine in found]


def answer_tasks(
    readers: Mapping[str, Reader], tasks: Sequence[Task], store: TileStore, out: Path, *, max_new_tokens: int
) -> tuple[dict[str, Answer], dict[str, str]]:
    """({key: answer}, {key: error}) of all tasks, one question at a time; finished ones stay in ``out``'s journal."""
    errors: dict[str, str] = {}

    def work(todo: Sequence[Task]) -> Iterable[tuple[Task, Any]]:
        for task in todo:
            try:
                yield task, list(_answer(readers[task.cell.reader], task, store, max_new_tokens))
            except (InputError, RuntimeError, ValueError, OSError) as error:
                errors[task.key] = type(error).__name__
                yield task, ItemError(f"{type(error).__name__}: {error}")

    values = process_items("readers", tasks, lambda task: task.key, work, out, max_error_share=1.0)
    return {key: Answer(*value) for key, value in values.items()}, errors


def _answer(reader: Reader, task: Task, store: TileStore, max_new_tokens: int) -> Answer:
    if not task.tile_ids:
        return Answer("", 0, 0, 0)  # nothing was retrieved: there is nothing to read
    images = [store.image(tile_id) for tile_id in task.tile_ids]
    return reader.answer(task.pair.query, images, compression=task.cell.compression, max_new_tokens=max_new_tokens)


def records_of(
    cell: Cell,
    pairs: Sequence[QAPair],
    tasks: Sequence[Task],
    answers: Mapping[str, Answer],
    errors: Mapping[str, str],
    urls: Mapping[str, str],
) -> list[EvalRecord]:
    """One record a question. An error of retrieval or reading is an error, never a wrong answer."""
    by_query = {task.pair.query_id: task for task in tasks}
    records = []
    for pair in pairs:
        task = by_query.get(pair.query_id)
        answer = answers.get(task.key) if task else None
        error = None if answer else errors.get(task.key, "not answered") if task else "retrieval failed"
        records.append(
            EvalRecord(
                row=cell.name,
                query_id=pair.query_id,
                query=pair.query,
                answers=(pair.answer, *pair.aliases),
                gold_urls=gold_urls(pair, urls),
                gold_tile_ids=(pair.tile_id,) if pair.tile_id else (),
                hits=tuple(task.hits) if task else (),
                reader_tile_ids=task.tile_ids if task else (),
                compression=cell.compression,
                input_tokens=answer.input_tokens if answer else 0,
                visual_tokens=answer.visual_tokens if answer else 0,
                output_tokens=answer.output_tokens if answer else 0,
                prediction=answer.text if answer else None,
                verdict=verdict_of(answer.text, pair).value if answer else None,
                error=error,
            )
        )
    return records


def verdict_of(prediction: str, pair: QAPair) -> Verdict:
    """CORRECT if the prediction equals the answer or an alias; CANNOT_ANSWER for an empty one or one that says so."""
    if exact_match(prediction, (pair.answer, *pair.aliases)):
        return Verdict.CORRECT
    return Verdict.CANNOT_ANSWER if not prediction or exact_match(prediction, (CANNOT_ANSWER,)) else Verdict.WRONG


def summary(
    cell: Cell,
    pairs: Sequence[QAPair],
    records: Sequence[EvalRecord],
    bootstrap: ClusterBootstrap,
    max_error_share: float,
) -> dict[str, Any]:
    """A reader row of metrics.json; ``bootstrap`` is over the gold pages of ``pairs``."""
    graded = [record for record in records if record.error is None]
    errors = len(records) - len(graded)
    exact = [
        np.nan if record.error is not None else float(exact_match(record.prediction or "", pair.answer))
        for record, pair in zip(records, pairs, strict=True)
    ]
    alias = [np.nan if record.error is not None else float(record.verdict == Verdict.CORRECT) for record in records]
    return {
        "reader": cell.reader,
        "given": "gold tile" if cell.given == GOLD else f"tiles retrieved by {cell.given}",
        "compression": cell.compression,
        "status": INCOMPLETE if errors > max_error_share * len(records) else COMPLETE,
        "n_questions": len(records),
        "n_graded": len(graded),
        "n_errors": errors,
        "n_pages": len({pair.page_id for pair in pairs}),
        "n_cannot_answer": sum(record.verdict == Verdict.CANNOT_ANSWER for record in graded),
        "exact": as_json(bootstrap.mean(np.array(exact))),
        "alias": as_json(bootstrap.mean(np.array(alias))),
        "tokens": {
            "visual": _mean([record.visual_tokens for record in graded]),
            "text_in": _mean([record.input_tokens - record.visual_tokens for record in graded]),
            "out": _mean([record.output_tokens for record in graded]),
        },
    }


def _mean(values: Sequence[int]) -> float | None:
    return sum(values) / len(values) if values else None
