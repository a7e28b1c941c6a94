"""Pieces of a page's HTML: chunks of its DOM, and the HTML that a text was taken from. Parsed by lexbor."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from tilewright.data_gen.answers import normalize_answer
from tilewright.eval.chunks import CountTokens, chunks_of
from tilewright.eval.tools import require_module

_NOISE = (
    "script, style, template, noscript, link, meta, nav, .navbox, .mw-editsection, #toc, .toc, sup.reference,"
    " ol.references, .reflist, [hidden]"
)
_BLOCKS = frozenset({"p", "ul", "ol", "dl", "pre", "blockquote", "figure", "h1", "h2", "h3", "h4", "h5", "h6"})
_BREAKS = frozenset({"h2", "h3"})  # a chunk never goes on beyond one
_KEPT_ATTRIBUTES = frozenset({"colspan", "rowspan", "scope", "headers"})
_SPACES = re.compile(r"\s+")
LOOKUP_CHARACTERS = 30_000
KEY_CHARACTERS = 4


@dataclass(frozen=True)
class DomChunk:
    """Neighbouring blocks of one section, or rows of a table under its header row: as text and as clean HTML."""

    text: str
    html: str


@dataclass(frozen=True)
class _Block:
    breaks: bool
    text: str
    html: str


def parse(html: str) -> Any:
    """The page's tree without scripts, navigation, tables of contents and lists of references."""
    parser = require_module("selectolax.lexbor", "text").LexborHTMLParser(html)
    for node in parser.css(_NOISE):
        node.decompose()
    return parser


def dom_chunks(html: str, tokens: int, count: CountTokens) -> list[DomChunk]:
    """The page's DOM in chunks of about ``tokens`` tokens of text; a block that is longer is one chunk or is cut.

    A heading of level 2 or 3 begins a chunk. A table is cut between rows, each part with the header row before it.
    """
    body = parse(html).body
    if body is None:
        return []
    found: list[DomChunk] = []
    held: list[_Block] = []
    used = 0
    for block in _blocks(body, tokens, count):
        size = count(block.text)
        if held and (block.breaks or used + size > tokens):
            found.append(_joined(held))
            held, used = [], 0
        held.append(block)
        used += size
    return [*found, _joined(held)] if held else found


def _joined(blocks: list[_Block]) -> DomChunk:
    return DomChunk("\n".join(block.text for block in blocks), "\n".join(block.html for block in blocks))


def _blocks(node: Any, tokens: int, count: CountTokens) -> Iterator[_Block]:
    """The blocks below ``node`` in their order; text that stands in none is a block of its own."""
    for child in node.iter(include_text=True):
        name = child.tag
        if name == "-text":
            text = _plain(child.text_content or "")
            if text:
                yield _Block(False, text, f"<p>{_escaped(text)}</p>")
        elif name == "table":
            yield from _table(child, tokens, count)
        elif name in _BLOCKS or (not _has_blocks(child) and _plain(child.text())):
            yield from _block(child, tokens, count)
        else:
            yield from _blocks(child, tokens, count)


def _has_blocks(node: Any) -> bool:
    return node.css_first("p, ul, ol, dl, pre, blockquote, table, h1, h2, h3, h4, h5, h6, div") is not None


def _block(node: Any, tokens: int, count: CountTokens) -> Iterator[_Block]:
    text = _plain(node.text(separator=" "))
    if not text:
        return
    if count(text) <= tokens:
        yield _Block(node.tag in _BREAKS, text, clean(node))
        return
    for chunk in chunks_of(text, tokens, count):
        yield _Block(False, chunk.text, f"<p>{_escaped(chunk.text)}</p>")


def _table(table: Any, tokens: int, count: CountTokens) -> Iterator[_Block]:
    rows = [(_row(row), clean(row)) for row in table.css("tr") if _nearest_table(row) == table]
    rows = [(text, html) for text, html in rows if text]
    if not rows:
        return
    first = next(row for row in table.css("tr") if _row(row))
    cells = [cell.tag for cell in first.iter() if cell.tag in ("th", "td")]
    header = rows[:1] if len(rows) > 1 and len(cells) > 1 and set(cells) == {"th"} else []
    head = sum(count(text) for text, _ in header)
    held: list[tuple[str, str]] = []
    used = head
    for text, html in rows[len(header) :]:
        size = count(text)
        if held and used + size > tokens:
            yield _part(header, held)
            held, used = [], head
        held.append((text, html))
        used += size
    if held:
        yield _part(header, held)


def _part(header: list[tuple[str, str]], rows: list[tuple[str, str]]) -> _Block:
    whole = [*header, *rows]
    return _Block(False, "\n".join(text for text, _ in whole), f"<table>{''.join(html for _, html in whole)}</table>")


def _nearest_table(row: Any) -> Any:
    node = row.parent
    while node is not None and node.tag != "table":
        node = node.parent
    return node


def _row(row: Any) -> str:
    cells = [_plain(cell.text(separator=" ")) for cell in row.iter() if cell.tag in ("th", "td")]
    return " | ".join(cells) if any(cells) else ""


def _plain(text: str) -> str:
    return _SPACES.sub(" ", text).strip()


def _escaped(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def clean(node: Any) -> str:
    """A node's HTML without attributes other than those that shape tables."""
    for inner in [node, *node.css("*")]:
        for name in [name for name in inner.attributes if name not in _KEPT_ATTRIBUTES]:
            del inner.attrs[name]
    return str(node.html or "")


@dataclass(frozen=True)
class ContentBlocks:
    """The children of a page's content: clean HTML, and text as it is compared. Made once a page."""

    html: tuple[str, ...]
    texts: tuple[str, ...]

    @classmethod
    def of(cls, html: str) -> "ContentBlocks":
        """Of a page's HTML."""
        parser = parse(html)
        root = parser.css_first(".mw-parser-output") or parser.body
        children = [] if root is None else list(root.iter(include_text=False))
        texts = tuple(normalize_answer(child.text(separator=" ")) for child in children)
        return cls(tuple(clean(child) for child in children), texts)

    def lookup(self, text: str) -> str | None:
        """The HTML that ``text`` (the page's text or a part of it) was taken from; None where too little is found.

        The published baseline's five steps: keys are the text's lines but the first, normalised, of at least
        KEY_CHARACTERS; the elements that hold a key; the content's children from the first to the last of them;
        cleaned; cut at LOOKUP_CHARACTERS. Too little: under 100 characters for a text of more than 200.
        """
        lines = text.splitlines()
        keys = {normalize_answer(line) for line in (lines[1:] if len(lines) > 1 else lines)}
        keys = {key for key in keys if len(key) >= KEY_CHARACTERS}
        holding = [number for number, found in enumerate(self.texts) if _holds_any(found, keys)]
        if not holding:
            return None
        first, last = holding[0], holding[-1] + 1
        if len(text) > 200 and len("".join(self.texts[first:last])) < 100:
            return None
        return "\n".join(self.html[first:last])[:LOOKUP_CHARACTERS]


def _holds_any(found: str, keys: set[str]) -> bool:
    """Whether an element's text holds a key, or is (a long part of) one itself."""
    return any(key in found for key in keys) or (len(found) >= 40 and any(found in key for key in keys))
