"""Deliveries: what a reader is given of what was retrieved."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from tilewright.configs.items import ItemError
from tilewright.eval.page_html import ContentBlocks
from tilewright.eval.parts import Cost, Delivered, Item, Question
from tilewright.eval.rendered_text import RenderedTexts
from tilewright.eval.tools import require_module
from tilewright.eval.workshop import Workshop


@dataclass(frozen=True)
class AsIs:
    """As it was retrieved: a tile as its picture, a text as text."""

    kind: Literal["as_is"]


@dataclass(frozen=True)
class Compressed:
    """Pictures with each side times 1/sqrt(``compression``); texts as they are."""

    kind: Literal["compressed"]
    compression: float

    def __post_init__(self) -> None:
        if not 1 <= self.compression < float("inf"):
            raise ValueError(f"compression: wanted a number of at least 1, found {self.compression}")


@dataclass(frozen=True)
class OcrText:
    """Of a tile what tesseract reads on its picture; texts as they are."""

    kind: Literal["ocr"]


@dataclass(frozen=True)
class DomText:
    """Of a tile the DOM text that it shows; texts as they are."""

    kind: Literal["dom_text"]


@dataclass(frozen=True)
class HtmlLookup:
    """The HTML that the text was taken from, found in the page's own document; the text itself where it isn't found."""

    kind: Literal["html_lookup"]


@dataclass(frozen=True)
class HtmlChunks:
    """A DOM chunk's own HTML, other texts and tiles as they are."""

    kind: Literal["html_chunks"]


@dataclass(frozen=True)
class RenderedText:
    """A text as a picture of it, drawn as tiles are; tiles as they are. ``compression``: of the picture."""

    kind: Literal["rendered_text"]
    compression: float = 1.0

    def __post_init__(self) -> None:
        if not 1 <= self.compression < float("inf"):
            raise ValueError(f"compression: wanted a number of at least 1, found {self.compression}")


PAGES_OPEN, ITEMS_FOUND = 256, 4096  # of HTML lookup, in memory
HTML_LOOKUP, HTML_CHUNK, HTML_RAG = "html_lookup", "html_chunk", "html_rag"
HTML_SOURCES = (HTML_LOOKUP, HTML_CHUNK, HTML_RAG)  # items whose text is HTML
Changed = tuple[Item, str | None]  # what the reader is given, and a flag for the report


class Delivery:
    """Takes the first k items, each changed by ``change``."""

    def __init__(self, identity: str, change: Callable[[Item], Changed]) -> None:
        self.identity, self._change = identity, change

    def item(self, item: Item) -> Item:
        """One item as it is delivered. Raises ItemError if it can't be."""
        return self._change(item)[0]

    def deliver(self, question: Question, ranked: Sequence[Item], k: int, cost: Cost) -> Delivered:
        """The first ``k``, in rank order. Raises ItemError if one of them can't be delivered."""
        changed = [self._change(item) for item in ranked[:k]]
        return Delivered(tuple(item for item, _ in changed), tuple(flag for _, flag in changed if flag))


def as_is(options: AsIs, workshop: Workshop) -> Delivery:
    """Unchanged."""
    return Delivery("as_is", lambda item: (item, None))


def compressed(options: Compressed, workshop: Workshop) -> Delivery:
    """Smaller pictures."""
    return Delivery(f"compressed/{options.compression!r}", lambda item: (item.compressed(options.compression), None))


def dom_text(options: DomText, workshop: Workshop) -> Delivery:
    """Tiles as their DOM text."""
    return Delivery("dom_text", lambda item: (_as_text(item, "dom_text", item.text), None))


def ocr_text(options: OcrText, workshop: Workshop) -> Delivery:
    """Tiles as OCR text, of the pictures that are searched. Raises MissingToolError."""
    require_module("pytesseract", "ocr")
    from tilewright.eval.ocr import require_tesseract

    settings = workshop.ocr
    version = require_tesseract(settings.language)

    def change(item: Item) -> Changed:
        if item.picture is None:
            return item, None
        texts, errors = workshop.ocr_texts()
        if item.item_id in errors:
            raise ItemError(f"OCR of {item.item_id} failed: {errors[item.item_id]}")
        return _as_text(item, "ocr", texts[item.item_id]), None

    return Delivery(f"ocr/{version}/{settings.language}/{settings.scale}", change)


class Rendered:
    """Texts as pictures; ``prepare`` draws all that a row will show with one browser."""

    def __init__(self, options: RenderedText, workshop: Workshop) -> None:
        self._compression = options.compression
        self.identity = f"rendered_text/{options.compression!r}"
        self._texts = workshop.once("rendered texts", lambda: RenderedTexts(workshop.cache))

    def prepare(self, items: Sequence[Item]) -> None:
        """Draw the texts among ``items``."""
        self._texts.draw([item.text for item in items if item.picture is None and item.text.strip()])

    def deliver(self, question: Question, ranked: Sequence[Item], k: int, cost: Cost) -> Delivered:
        """The first ``k``. Raises ItemError for a text that couldn't be drawn."""
        return Delivered(tuple(self._drawn(item) for item in ranked[:k]))

    def _drawn(self, item: Item) -> Item:
        if item.picture is not None:
            return item.compressed(self._compression)
        if not item.text.strip():
            raise ItemError(f"{item.item_id}: a blank text can't be drawn")
        return replace(item, picture=self._texts.picture(item.text, self._compression), source="rendered_text")


def rendered_text(options: RenderedText, workshop: Workshop) -> Rendered:
    """Texts as pictures; the browser starts when there is something to draw."""
    return Rendered(options, workshop)


def html_lookup(options: HtmlLookup, workshop: Workshop) -> Delivery:
    """HTML of the page in place of its text. Raises MissingToolError, InputError without pages."""
    require_module("selectolax", "text")
    pages = workshop.need_pages("html_lookup")
    blocks = lru_cache(PAGES_OPEN)(lambda page_id: ContentBlocks.of(pages.html(page_id)))
    looked_up = lru_cache(ITEMS_FOUND)(lambda page_id, text: blocks(page_id).lookup(text))

    def change(item: Item) -> Changed:
        try:
            found = looked_up(item.page_id, item.text)
        except RecursionError as error:
            raise ItemError(f"page {item.page_id}: nested too deep") from error
        if found is None:
            return _as_text(item, "text", item.text), "html_lookup_fallback"
        return _as_text(item, HTML_LOOKUP, found), None

    return Delivery("html_lookup/1", change)


def html_chunks(options: HtmlChunks, workshop: Workshop) -> Delivery:
    """HTML of DOM chunks."""

    def change(item: Item) -> Changed:
        html = workshop.html_of(item.item_id)
        if html is None:
            return item, "no_html_of_its_own"
        return _as_text(item, HTML_CHUNK, html), None

    return Delivery("html_chunks/1", change)


def _as_text(item: Item, source: str, text: str) -> Item:
    return replace(item, picture=None, source=source, text=text)
