"""Rows of an evaluation: Retriever x Delivery x Reader by name, and what each retriever finds."""

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any

from tilewright.configs.bounds import check_bounds
from tilewright.configs.items import ItemError
from tilewright.eval.cache import Cache
from tilewright.eval.metrics import RowResult
from tilewright.eval.parts import Item, Question, Ranked, Retriever
from tilewright.eval.string_evidence import holds

Names = str | tuple[str, ...]
AS_IS = "as_is"


@dataclass(frozen=True)
class RowSpec:
    """A row, or, where several names or ``k`` are given, every combination of them.

    ``retriever``, ``delivery`` and ``reader`` are names of the config's; ``k``: how many items a reader gets. Without
    a reader a row is scored by recall alone.
    """

    retriever: Names
    delivery: Names = AS_IS
    reader: Names = ()
    k: tuple[int, ...] = (3,)

    def __post_init__(self) -> None:
        if not self.retrievers or not listed(self.delivery) or not self.k or len(set(self.k)) < len(self.k):
            raise ValueError(f"wanted a retriever, a delivery and distinct k, found {self}")
        for k in self.k:
            check_bounds(_K(k), 1, None, "k")

    @property
    def retrievers(self) -> tuple[str, ...]:
        """Its retrievers."""
        return listed(self.retriever)

    def cells(self) -> Iterator["Cell"]:
        """Every combination that has a reader, in the order of the names."""
        for retriever, delivery, reader, k in product(
            self.retrievers, listed(self.delivery), listed(self.reader), self.k
        ):
            yield Cell(retriever, delivery, reader, k)


@dataclass(frozen=True)
class _K:
    k: int


def listed(names: Names) -> tuple[str, ...]:
    """One name or several, as several."""
    return (names,) if isinstance(names, str) else names


@dataclass(frozen=True)
class Cell:
    """One retriever, delivery, reader and k: what an accuracy is given for."""

    retriever: str
    delivery: str
    reader: str
    k: int

    @property
    def name(self) -> str:
        """The cell as a name of rows and files."""
        return f"{self.retriever}.{self.delivery}.{self.reader}.k{self.k}"


def specs_of(rows: Sequence[str | RowSpec]) -> list[RowSpec]:
    """The rows, a name alone standing for its retriever."""
    return [RowSpec(row) if isinstance(row, str) else row for row in rows]


def retrievers_of(specs: Iterable[RowSpec]) -> list[str]:
    """Every retriever of the rows once, in their order."""
    return list(dict.fromkeys(name for spec in specs for name in spec.retrievers))


def cells_of(specs: Iterable[RowSpec]) -> list[Cell]:
    """Every cell of the rows once, in their order."""
    return list(dict.fromkeys(cell for spec in specs for cell in spec.cells()))


@dataclass(frozen=True)
class Search:
    """A retriever's result, and how many seconds a question took on average (None: all came from the cache)."""

    result: RowResult
    seconds: float | None


def search(name: str, retriever: Retriever, questions: Sequence[Question], depth: int, cache: Cache) -> Search:
    """The hits of every question down to ``depth``; those in the cache aren't searched again.

    A question whose search fails is an error: it is never answered as if nothing had been retrieved.
    """
    spent: list[float] = []

    def work(todo: Sequence[Question]) -> Iterator[tuple[Question, Any]]:
        if not todo:
            return
        started = time.monotonic()
        found = retriever.search(todo, depth)
        spent.append((time.monotonic() - started) / len(todo))
        for question in todo:
            if question.query_id in found.errors:
                yield question, ItemError(found.errors[question.query_id])
            else:
                yield question, [list(hit) for hit in found.hits[question.query_id]]

    part = cache.part("hits", retriever.identity, depth)
    key = _own_key if retriever.sees_gold else _asked_key
    values, errors = cache.values(part, name, questions, key, work)
    hits = {
        question.query_id: tuple((str(item), float(score)) for item, score in values[key(question)])
        for question in questions
        if key(question) in values
    }
    failed = {question.query_id: errors[key(question)] for question in questions if key(question) in errors}
    evidence = {
        question.query_id: _evidence(question, Ranked(retriever, hits[question.query_id]))
        for question in questions
        if question.query_id in hits and any(answer.strip() for answer in question.answers)
    }
    result = RowResult(hits, failed, retriever.facts, retriever.items_failed, retriever.page_of, evidence)
    return Search(result, sum(spent) if spent else None)


def _asked_key(question: Question) -> str:
    return question.asked_digest


def _own_key(question: Question) -> str:
    """Of retrievers that look at a question's gold."""
    return f"{question.query_id}/{sorted(question.gold_tiles)}/{sorted(question.gold_pages)}"


def _evidence(question: Question, ranked: Iterable[Item]) -> tuple[bool, ...]:
    return tuple(holds(item.text, question.answers) for item in ranked)
