"""The parts of a row, Retriever x Delivery x Reader, and what passes between them.

Question -> Retriever.search -> hits -> Item -> Delivery.deliver -> Delivered -> Reader.answer -> Prediction. Which
options make which part is in ``registry``.
"""

import functools
import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal, Protocol, overload, runtime_checkable

from PIL import Image

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.items import ItemError
from tilewright.data_gen.records import QAPair
from tilewright.train.compress import compress, size

Hits = Sequence[tuple[str, float]]  # (item_id, score), best first, each item once
Modality = Literal["picture", "text"]
RETRIEVAL_FAILED, DELIVERY_FAILED, READER_FAILED = "retrieval failed", "delivery failed", "reader failed"


@dataclass(frozen=True)
class Question:
    """A question of an evaluation.

    ``answers``: the gold answer, then its aliases; any of them is right. ``gold_pages``: page_ids, any of which counts
    as found (redirects included; empty: out of recall by page); ``gold_tiles`` likewise. ``options``: of a multiple
    choice. ``answer_parts``: of an answer that is a list, each item with its spellings. ``picture``: encoded bytes of
    a query image, b"" without one. ``cluster``: what the bootstrap resamples. ``kinds``: kinds of evidence that cover
    most of its gold tiles (infobox, table, list, paragraph), where known; ``source``: the kind of element that it was
    made from, "" if unknown.
    """

    query_id: str
    query: str
    answers: tuple[str, ...]
    gold_pages: frozenset[str] = frozenset()
    gold_tiles: frozenset[str] = frozenset()
    gold_urls: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()
    options: tuple[str, ...] = ()
    answer_parts: tuple[tuple[str, ...], ...] = ()
    picture: bytes = b""
    cluster: str = ""
    source: str = ""

    @classmethod
    def of(cls, pair: QAPair) -> "Question":
        """The question of a pair, whose gold are its page and its tile."""
        return cls(
            query_id=pair.query_id,
            query=pair.query,
            answers=(pair.answer, *pair.aliases),
            gold_pages=frozenset({pair.page_id} - {""}),
            gold_tiles=frozenset({pair.tile_id} - {""}),
            cluster=pair.page_id or f"question {pair.query_id}",
            source=pair.source_type,
        )

    @functools.cached_property
    def asked_digest(self) -> str:
        """Of what a retriever or reader sees of it: no answers."""
        picture = hashlib.sha256(self.picture).hexdigest() if self.picture else ""
        return digest_text(canonical_json([self.query, self.options, picture]))


@dataclass(frozen=True)
class Picture:
    """A picture that is decoded when it is needed. ``sha256`` names its content before compression.

    ``size_px``: (width, height) before compression. ``load`` raises InputError for a broken one.
    """

    sha256: str
    size_px: tuple[int, int]
    load: Callable[[], Image.Image] = field(compare=False, repr=False)
    compression: float = 1.0

    @property
    def shown_px(self) -> tuple[int, int]:
        """(width, height) as a reader is given it."""
        return size(*self.size_px, self.compression)

    def shown(self) -> Image.Image:
        """The picture as a reader is given it: decoded, then compressed."""
        return compress(self.load(), self.compression)


@dataclass(frozen=True)
class Item:
    """A thing that is retrieved, or that a reader is given: the picture of a tile, or a text.

    ``item_id`` has no spaces and is unique within its retriever; ``page_id`` of the page it is from. ``text`` of a
    tile is its DOM text, for evidence by string: readers see ``picture`` where there is one, else ``text``.
    ``source``: what made it (``tile``, ``text_chunk``, ``ocr``...). ``position``: its place among the page's items.
    """

    item_id: str
    page_id: str
    source: str
    text: str
    picture: Picture | None = None
    position: int = 0
    title: str = ""

    @property
    def modality(self) -> Modality:
        """What a reader sees of it."""
        return "text" if self.picture is None else "picture"

    @functools.cached_property
    def digest(self) -> str:
        """Of what a reader sees of it: equal items are read once."""
        if self.picture is None:
            return digest_text(f"text/{self.text}")
        return digest_text(f"picture/{self.picture.sha256}/{self.picture.compression!r}")

    def compressed(self, compression: float) -> "Item":
        """The item with its picture at ``compression``; texts stay as they are."""
        if self.picture is None:
            return self
        return replace(self, picture=replace(self.picture, compression=compression))


@dataclass(frozen=True)
class Found:
    """Outcome of a search: for each query_id either hits, best first (may be none), or an error, never both."""

    hits: Mapping[str, tuple[tuple[str, float], ...]]
    errors: Mapping[str, str] = field(default_factory=dict)


class Retriever(Protocol):
    """Finds items for questions. ``facts``: what the report says about it; ``identity``: equal ones search alike.

    ``items_failed``: items that couldn't be made searchable. ``closed_book``: there is nothing to find, so a reader is
    asked without anything; for all others no hits mean that there is nothing to read. ``sees_gold``: what it finds
    depends on a question's gold.
    """

    @property
    def title(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def facts(self) -> Mapping[str, object]: ...

    @property
    def items_failed(self) -> int: ...

    @property
    def closed_book(self) -> bool: ...

    @property
    def sees_gold(self) -> bool: ...

    @property
    def page_of(self) -> Mapping[str, str]:
        """{item_id: page_id} of all items that are searched."""
        ...

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        """At most ``depth`` hits of each question. A question that fails is an error of its own."""
        ...

    def item(self, item_id: str) -> Item:
        """A hit's item. Raises InputError for an unknown one."""
        ...


@dataclass(frozen=True)
class Delivered:
    """What a reader is given, in this order. ``flags``: what the report counts, such as ``fallback``; ``measures``:
    what it averages, such as ``citations``."""

    items: tuple[Item, ...]
    flags: tuple[str, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict)


Cost = Callable[[Item], int]  # tokens that an item costs the row's reader


class Delivery(Protocol):
    """Makes what a reader is given out of ranked items."""

    @property
    def identity(self) -> str: ...

    def deliver(self, question: Question, ranked: Sequence[Item], k: int, cost: Cost) -> Delivered:
        """``ranked``: all hits, best first (items are made when they are looked at); ``k``: how many a reader gets.

        Raises ItemError if the question can't be delivered (it becomes an error, never a closed-book answer).
        """
        ...


@runtime_checkable
class Preparing(Protocol):
    """A delivery that does its work for many items at once before it delivers."""

    def prepare(self, items: Sequence[Item]) -> None: ...


@dataclass(frozen=True)
class Asked:
    """One question to a reader with what it is given."""

    question: Question
    items: tuple[Item, ...]

    def key(self, sees_answers: bool) -> str:
        """Names it by content, question, options and items: equal keys get equal answers from one reader."""
        answers = list(self.question.answers) if sees_answers else []
        return digest_text(canonical_json([self.question.asked_digest, answers, *[item.digest for item in self.items]]))


@dataclass(frozen=True)
class Prediction:
    """A reader's answer and its cost in tokens: ``visual_tokens`` (of pictures) and ``retrieved_text_tokens`` are parts
    of ``input_tokens``; ``seconds``: how long it took, for the table of latencies alone.

    ``told``: whether the token counts are the server's or tokenizer's own, not an estimate. ``flags`` and ``measures``:
    of a reader that searches, as of what is Delivered.
    """

    text: str
    input_tokens: int
    visual_tokens: int
    retrieved_text_tokens: int
    output_tokens: int
    seconds: float = 0.0
    told: bool = True
    flags: tuple[str, ...] = ()
    measures: Mapping[str, float] = field(default_factory=dict)


class Reader(Protocol):
    """Answers questions from items. ``identity``: equal readers answer alike; ``stand_in``: what must be said of one
    that is no model, else "". ``sees_answers``: it is told the gold answers, so they are part of what is asked."""

    @property
    def title(self) -> str: ...

    @property
    def identity(self) -> str: ...

    @property
    def stand_in(self) -> str: ...

    @property
    def sees_answers(self) -> bool: ...

    def cost(self, item: Item) -> int:
        """Tokens that ``item`` adds to the input."""
        ...

    def answer(self, asked: Sequence[Asked], out: Path) -> Iterable[tuple[Asked, Prediction | ItemError]]:
        """Each with its prediction or error, as they end, in any order. ``out``: a folder for logs and replies."""
        ...


@runtime_checkable
class Searching(Protocol):
    """A reader that searches: it is given no items, but the row's retriever and delivery as its tool."""

    def using(self, retriever: Retriever, delivery: Delivery, k: int) -> Reader:
        """The same reader with this tool. Raises InputError if it can't search with it."""
        ...


class Ranked(Sequence[Item]):
    """The items of a question's hits, made when they are looked at."""

    def __init__(self, retriever: Retriever, hits: Hits) -> None:
        self._retriever, self._hits = retriever, hits

    @property
    def retriever(self) -> Retriever:
        """What found them: it has the other items of their pages."""
        return self._retriever

    def __len__(self) -> int:
        return len(self._hits)

    def __iter__(self) -> Iterator[Item]:
        return (self._retriever.item(item_id) for item_id, _ in self._hits)

    @overload
    def __getitem__(self, index: int) -> Item: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Item]: ...

    def __getitem__(self, index: int | slice) -> Item | Sequence[Item]:
        if isinstance(index, slice):
            return [self._retriever.item(item_id) for item_id, _ in self._hits[index]]
        return self._retriever.item(self._hits[index][0])
