"""Retrievers whose items are texts of pages: fixed-size chunks of a parser's text, chunks of the DOM."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol

import numpy as np

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.eval.chunks import chunks_of
from tilewright.eval.page_html import dom_chunks
from tilewright.eval.page_texts import WIKITEXT, Parser, module_of
from tilewright.eval.parts import Found, Item, Question
from tilewright.eval.tools import require_module
from tilewright.eval.workshop import WORDS, Workshop
from tilewright.mining.index import TileIndex
from tilewright.train.encoder import Encoder, evaluating

BM25, MINILM = "bm25", "minilm"


@dataclass(frozen=True)
class TextChunks:
    """The text of pages by ``parser`` in chunks of at most ``tokens``, found by ``search``.

    ``parser``: trafilatura (trafilatura_recall: keeping what it is less sure of), or mwparserfromhell from wikitext
    (the config names the ``dump``). ``search``: bm25, minilm, or the name of a checkpoint that embeds texts.
    ``tokenizer``: what counts tokens, a checkpoint's name, ``words`` or ``words_and_marks``. ``overlap``: tokens that a
    chunk takes in of the one before.
    """

    kind: Literal["text_chunks"]
    parser: Parser = "trafilatura"
    tokens: int = 1024
    overlap: int = 0
    search: str = BM25
    tokenizer: str = WORDS

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "tokens")
        check_bounds(self, 0, self.tokens - 1, "overlap")


@dataclass(frozen=True)
class DomChunks:
    """Chunks of the DOM: sections, and rows of tables with their header row; searched as text."""

    kind: Literal["dom_chunks"]
    tokens: int = 1024
    search: str = BM25
    tokenizer: str = WORDS

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "tokens")


@dataclass(frozen=True)
class TileDomTexts:
    """The DOM text of each tile, searched as text; what is found are tiles.

    With a checkpoint of nano as ``search`` it is the ceiling of its vectors: what it would find if it read each letter.
    """

    kind: Literal["tile_texts"]
    search: str = BM25


@dataclass(frozen=True)
class TextItems:
    """Items by id, and the pages that gave none because they couldn't be parsed."""

    items: Mapping[str, Item]
    errors: Mapping[str, str]


class Engine(Protocol):
    """Finds texts."""

    def search(self, questions: Sequence[Question], k: int) -> list[tuple[tuple[str, float], ...]]: ...


class PageTexts:
    """Finds chunks of pages; an item's page is the page of its text."""

    closed_book, sees_gold = False, False

    def __init__(
        self,
        title: str,
        options: TextChunks | DomChunks | TileDomTexts,
        make: Callable[[], TextItems],
        workshop: Workshop,
    ) -> None:
        self.title, self._options, self._make, self._workshop = title, options, make, workshop
        self._name = canonical_json(options)
        same = {name: value for name, value in vars(options).items() if name != "search"}
        self._chunks = f"chunks {canonical_json(same)}"

    @property
    def made(self) -> TextItems:
        """The chunks; cut once a run."""
        return self._workshop.once(self._chunks, self._make)

    @property
    def identity(self) -> str:
        """What is searched and how."""
        texts = digest_text(canonical_json({name: item.text for name, item in self.made.items.items()}))
        return f"{self._name}/{texts}/{_engine_identity(self._options.search, self._workshop)}"

    @property
    def items_failed(self) -> int:
        """Pages that couldn't be parsed."""
        return len(self.made.errors)

    @property
    def page_of(self) -> Mapping[str, str]:
        """Of each chunk."""
        return self._workshop.once(
            f"pages of {self._name}", lambda: {name: item.page_id for name, item in self.made.items.items()}
        )

    @property
    def facts(self) -> Mapping[str, object]:
        """How pages were cut and what finds the chunks."""
        made = self.made
        facts: dict[str, object] = {name: value for name, value in vars(self._options).items() if name != "kind"}
        facts |= {"items": len(made.items), "pages": len(set(self.page_of.values()))}
        return facts | ({"pages_failed": len(made.errors)} if made.errors else {})

    def item(self, item_id: str) -> Item:
        """A chunk. Raises InputError for an unknown one."""
        if item_id not in self.made.items:
            raise InputError(
                f"a row returned {item_id!r}, which isn't among the {len(self.made.items)} chunks searched"
            )
        return self.made.items[item_id]

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        """Chunks for each question."""
        texts = {name: item.text for name, item in self.made.items.items()}
        engine = self._workshop.once(
            f"engine {self._name}", lambda: _engine(self._options.search, texts, self._workshop)
        )
        found = engine.search(questions, depth)
        hits = {question.query_id: hits for question, hits in zip(questions, found, strict=True)}
        return Found(hits)


def text_chunks(options: TextChunks, workshop: Workshop) -> PageTexts:
    """Raises MissingToolError without the parser or engine, InputError without pages or the dump."""
    _require(options.search, workshop)
    module_of(options.parser)
    pages = workshop.need_pages("text_chunks")
    if options.parser == WIKITEXT and pages.dump is None:
        raise InputError("text_chunks by mwparserfromhell: wanted `dump` (a MediaWiki dump), for it reads wikitext")
    count = workshop.counter(options.tokenizer)

    def make() -> TextItems:
        texts, errors = workshop.once(f"texts by {options.parser}", lambda: pages.texts(options.parser, workshop.cache))
        items = {}
        for page_id, text in texts.items():
            title = pages.pages[page_id].title
            for chunk in chunks_of(text, options.tokens, count, options.overlap):
                name = f"{page_id}-text-{chunk.position:04d}"
                items[name] = Item(name, page_id, "text_chunk", chunk.text, None, chunk.position, title)
        return TextItems(items, errors)

    cut = f"{options.tokens} {'words' if options.tokenizer == WORDS else 'tokens'}"
    return PageTexts(
        f"text of the pages by {options.parser}, chunks of {cut}, {options.search}", options, make, workshop
    )


def dom_chunk_items(options: DomChunks, workshop: Workshop) -> PageTexts:
    """Raises MissingToolError without selectolax or the engine, InputError without pages."""
    _require(options.search, workshop)
    require_module("selectolax", "text")
    pages = workshop.need_pages("dom_chunks")
    count = workshop.counter(options.tokenizer)

    def make() -> TextItems:
        items, html, errors = {}, {}, {}
        for page_id, page in pages.pages.items():
            try:
                chunks = dom_chunks(pages.html(page_id), options.tokens, count)
            except (ItemError, RecursionError) as error:
                errors[page_id] = f"{type(error).__name__}: {error}"
                continue
            for position, chunk in enumerate(chunks):
                name = f"{page_id}-dom-{position:04d}"
                items[name] = Item(name, page_id, "dom_chunk", chunk.text, None, position, page.title)
                html[name] = chunk.html
        workshop.keep_html(html)
        return TextItems(items, errors)

    return PageTexts(f"chunks of the pages' DOM, {options.search}", options, make, workshop)


def tile_text_items(options: TileDomTexts, workshop: Workshop) -> PageTexts:
    """Raises as ``text_chunks`` for its engine."""
    _require(options.search, workshop)

    def make() -> TextItems:
        return TextItems({tile_id: workshop.tile_item(tile_id) for tile_id in workshop.store.tile_ids}, {})

    return PageTexts(f"DOM text of the tiles, {options.search}", options, make, workshop)


def _require(search: str, workshop: Workshop) -> None:
    if search == BM25:
        require_module("bm25s", "text")
    elif search == MINILM:
        from tilewright.eval.minilm import require_minilm

        require_minilm()
    elif search not in workshop.checkpoints:
        raise InputError(f"search: wanted {BM25}, {MINILM} or a checkpoint of this run, found {search!r}")


def _engine_identity(search: str, workshop: Workshop) -> str:
    if search in (BM25, MINILM):
        return search
    return f"{workshop.encoder(search).hash}/{workshop.precision}"


def _engine(search: str, texts: Mapping[str, str], workshop: Workshop) -> Engine:
    if search == BM25:
        from tilewright.eval.bm25 import Bm25

        return _ByText(Bm25(texts))
    if search == MINILM:
        from tilewright.eval.minilm import MiniLm

        return _MiniLmEngine(MiniLm(texts, words=None))
    return _Dense(workshop.encoder(search), texts)


class _ByText:
    def __init__(self, index: Any) -> None:
        self._index = index

    def search(self, questions: Sequence[Question], k: int) -> list[tuple[tuple[str, float], ...]]:
        return [self._index.search(question.query, k) for question in questions]


class _MiniLmEngine:
    def __init__(self, index: Any) -> None:
        self._index = index

    def search(self, questions: Sequence[Question], k: int) -> list[tuple[tuple[str, float], ...]]:
        found: list[tuple[tuple[str, float], ...]] = self._index.search([question.query for question in questions], k)
        return found


class _Dense:
    """Texts as the encoder embeds documents, searched exactly; one without a word has no vector, and isn't found."""

    def __init__(self, encoder: Encoder, texts: Mapping[str, str], at_once: int = 8) -> None:
        told = (name for name, text in texts.items() if text.strip())
        ids = sorted(told, key=lambda name: (len(texts[name]), name))  # alike in length: little padding
        vectors = np.zeros((len(ids), encoder.dimension), np.float32)
        with evaluating(encoder.model):
            for start in range(0, len(ids), at_once):
                batch = encoder.document_batch([texts[name] for name in ids[start : start + at_once]])
                vectors[start : start + at_once] = encoder.forward(batch).cpu().numpy()
        self._encoder = encoder
        self._index = TileIndex.build(vectors, ids, encoder_hash=encoder.hash)

    def search(self, questions: Sequence[Question], k: int) -> list[tuple[tuple[str, float], ...]]:
        return list(self._index.search(self._encoder.encode_queries([question.query for question in questions]), k))
