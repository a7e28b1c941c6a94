"""Retrievers that search nothing or fuse others: no retrieval, the gold tile, reciprocal-rank fusion."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Literal

from tilewright.eval.parts import Found, Item, Question, Retriever
from tilewright.eval.workshop import Workshop


@dataclass(frozen=True)
class NoRetrieval:
    """Nothing is retrieved: the reader answers by memory alone (closed book)."""

    kind: Literal["none"]


@dataclass(frozen=True)
class Oracle:
    """The gold tile itself: what a reader would do with a perfect retriever."""

    kind: Literal["oracle"]


@dataclass(frozen=True)
class Hybrid:
    """Reciprocal-rank fusion of other retrievers (Cormack et al., 2009): sum of 1 / (``constant`` + rank)."""

    kind: Literal["hybrid"]
    of: tuple[str, ...]
    constant: int = 60

    def __post_init__(self) -> None:
        if len(set(self.of)) < 2 or len(set(self.of)) != len(self.of) or self.constant < 0:
            raise ValueError(f"hybrid: wanted `of` two or more retrievers, each once, constant >= 0; found {self.of}")


class ClosedBook:
    """``none``."""

    title, identity = "no retrieval", "none"
    closed_book, sees_gold, items_failed = True, False, 0
    facts: Mapping[str, object] = {}
    page_of: Mapping[str, str] = {}

    def item(self, item_id: str) -> Item:
        """There is none."""
        raise KeyError(item_id)

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        """No hits."""
        return Found({question.query_id: () for question in questions})


class GoldTiles:
    """``oracle``: a question's gold tiles, else the tiles of its gold pages."""

    title, facts = "the gold tile", dict[str, object]()
    closed_book, sees_gold, items_failed = False, True, 0

    def __init__(self, workshop: Workshop) -> None:
        self._workshop = workshop
        self.identity = f"oracle/{workshop.corpus_digest}"

    @property
    def page_of(self) -> Mapping[str, str]:
        """The pool's."""
        return self._workshop.pool.page_of

    def item(self, item_id: str) -> Item:
        """A tile."""
        return self._workshop.tile_item(item_id)

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        """A question whose gold isn't in the pool is an error."""
        hits: dict[str, tuple[tuple[str, float], ...]] = {}
        errors = {}
        pool = self._workshop.pool
        for question in questions:
            tiles = sorted(tile for tile in question.gold_tiles if tile in pool.page_of)
            if not question.gold_tiles:
                tiles = [tile for page in sorted(question.gold_pages) for tile in pool.tiles_of.get(page, ())]
            if tiles:
                hits[question.query_id] = tuple((tile, 1.0) for tile in tiles[:depth])
            else:
                errors[question.query_id] = "the gold tile isn't among the tiles searched"
        return Found(hits, errors)


class Fused:
    """``hybrid``. A question that fails in one of the retrievers is an error."""

    closed_book = False

    def __init__(self, options: Hybrid, parts: Mapping[str, Retriever]) -> None:
        self._constant, self._parts = options.constant, parts
        self.title = f"reciprocal-rank fusion of {', '.join(parts)}"
        self.identity = f"rrf/{options.constant}/" + "/".join(part.identity for part in parts.values())

    @property
    def sees_gold(self) -> bool:
        """Whether one of them does."""
        return any(part.sees_gold for part in self._parts.values())

    @property
    def items_failed(self) -> int:
        """Of all together."""
        return sum(part.items_failed for part in self._parts.values())

    @property
    def facts(self) -> Mapping[str, object]:
        """What is fused."""
        return {"of": list(self._parts), "constant": self._constant}

    @cached_property
    def page_of(self) -> Mapping[str, str]:
        """Items of all, each once."""
        return {item: page for part in self._parts.values() for item, page in part.page_of.items()}

    def item(self, item_id: str) -> Item:
        """The item as the first retriever that has it gives it."""
        owner = next(part for part in self._parts.values() if item_id in part.page_of)
        return owner.item(item_id)

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        """The best ``depth`` of the sums over each retriever's first ``depth``; ties by item id."""
        found = [part.search(questions, depth) for part in self._parts.values()]
        errors = {query_id: error for one in found for query_id, error in one.errors.items()}
        hits = {
            question.query_id: fused([one.hits[question.query_id] for one in found], self._constant)[:depth]
            for question in questions
            if question.query_id not in errors
        }
        return Found(hits, errors)


def fused(rankings: Sequence[Sequence[tuple[str, float]]], constant: int) -> tuple[tuple[str, float], ...]:
    """Items of all ``rankings`` by falling sum of 1 / (constant + rank), ranks from 1."""
    sums: dict[str, float] = {}
    for ranking in rankings:
        for rank, (item, _) in enumerate(ranking, start=1):
            sums[item] = sums.get(item, 0.0) + 1.0 / (constant + rank)
    return tuple(sorted(sums.items(), key=lambda entry: (-entry[1], entry[0])))
