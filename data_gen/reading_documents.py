"""A stretch of a documentation page as plain structure: headings, paragraphs, lists, tables, code, links.

Scripts, styles, pictures, attributes and navigation are left out; nothing of outside is asked for.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from html import escape
from html.parser import HTMLParser
from itertools import zip_longest
from math import ceil
from random import Random

from tilewright.data_gen.reading_style import TABLES
from tilewright.data_gen.reading_text import is_tight, longest_word

_INLINE = {
    "a": "a", "b": "b", "strong": "strong", "i": "i", "em": "em", "cite": "i", "var": "i", "dfn": "i", "code": "code",
    "tt": "code", "kbd": "code", "samp": "code", "sub": "sub", "sup": "sup", "small": "small",
}  # fmt: skip
_HEADINGS = ("h1", "h2", "h3", "h4", "h5", "h6")
_LISTS = ("ul", "ol", "dl", "table")
_GROUPS = ("div", "section", "article", "main", "header", "footer", "aside", "figure", "center", "address", "details")
_BLOCKS = {
    name: name
    for name in (*_HEADINGS, *_LISTS, "p", "li", "dt", "dd", "caption", "tr", "td", "th", "pre", "blockquote")
}
_BLOCKS |= dict.fromkeys(_GROUPS, "div")
_LEFT_OUT = (
    "script", "style", "template", "noscript", "svg", "math", "iframe", "object", "select", "textarea", "button", "nav",
    "title", "audio", "video", "canvas",
)  # fmt: skip
_CHROME = re.compile(
    r"headerlink|permalink|docnav|\bfooter\b|sphinxsidebar|\brelated\b|nav(?:header|footer|bar|igation)"
    r"|clearer|langlinks|outofdate"
)
_CLOSES = {  # a start tag ends these open elements, up to the nearest of those
    "li": (("li",), ("ul", "ol", "table")),
    "dt": (("dt", "dd"), ("dl", "table")),
    "dd": (("dt", "dd"), ("dl", "table")),
    "td": (("td", "th"), ("table",)),
    "th": (("td", "th"), ("table",)),
    "tr": (("tr",), ("table",)),
}
_HOLD_PARAGRAPHS = ("li", "dd", "td", "th", "div", "blockquote", "table")
_VOID = ("br", "hr", "img", "input", "link", "meta", "col", "wbr", "area", "base", "embed", "source", "track", "param")
_MAX_DEPTH = 40
_SHORT_ITEM = 30  # letters; lists of shorter items stand in two columns


@dataclass
class Node:
    """An element; its children are elements and texts."""

    tag: str
    children: list["Node | str"] = field(default_factory=list)

    def text(self) -> str:
        """All its text."""
        return "".join(child if isinstance(child, str) else child.text() for child in self.children)

    def markup(self, random: Random, line_characters: int) -> str:
        """As HTML; tables get classes by chance."""
        inner = "".join(
            escape(child, False) if isinstance(child, str) else child.markup(random, line_characters)
            for child in self.children
        )
        if self.tag == "br":
            return "<br>"
        if self.tag == "table":
            tight = " tight" if is_tight(self._longest_words(), line_characters) else ""
            return f'<table class="t{random.randrange(TABLES)}{tight}">{inner}</table>\n'
        attributes = ' href="#"' if self.tag == "a" else ""
        end = "\n" if self.tag in _BLOCKS else ""
        return f"<{self.tag}{attributes}>{inner}</{self.tag}>{end}"

    def _longest_words(self) -> list[int]:
        """Of a table: characters of each column's longest word."""
        rows = [row.children for row in self.children if isinstance(row, Node) and row.tag == "tr"]
        texts = [[cell.text() for cell in row if isinstance(cell, Node)] for row in rows]
        return [max(map(longest_word, column)) for column in zip_longest(*texts, fillvalue="")]


class _Reader(HTMLParser):
    """The body's elements that are kept, as a tree below ``root``."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self.root = Node("div")
        self._open = [self.root]
        self._skipped: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Open an element that is kept; pass over one that isn't."""
        if self._skipped:
            if tag == self._skipped[0]:
                self._skipped.append(tag)
            return
        classes = " ".join(value or "" for name, value in attrs if name in ("class", "id", "role"))
        if tag not in _VOID and (tag in _LEFT_OUT or (classes and _CHROME.search(classes))):
            self._skipped.append(tag)
        elif tag == "br":
            self._open[-1].children.append(Node("br"))
        elif tag in _INLINE or tag in _BLOCKS:
            self._start(_INLINE.get(tag) or _BLOCKS[tag])

    def handle_endtag(self, tag: str) -> None:
        """Close the nearest open element of that name, and all in it."""
        if self._skipped:
            if tag == self._skipped[0]:
                self._skipped.pop()
            return
        kept = _INLINE.get(tag) or _BLOCKS.get(tag)
        self._close((kept,) if kept else (), ("table",) if kept != "table" else ())

    def handle_data(self, data: str) -> None:
        """Keep text; outside ``pre`` white space is one blank."""
        if self._skipped:
            return
        if not any(node.tag == "pre" for node in self._open):
            data = re.sub(r"\s+", " ", data)
        self._open[-1].children.append(data)

    def _start(self, tag: str) -> None:
        if tag in _CLOSES:
            self._close(*_CLOSES[tag])
        if tag in _BLOCKS:
            self._close(("p", *_HEADINGS), _HOLD_PARAGRAPHS)
        if len(self._open) < _MAX_DEPTH:
            node = Node(tag)
            self._open[-1].children.append(node)
            self._open.append(node)

    def _close(self, tags: tuple[str, ...], barriers: tuple[str, ...]) -> None:
        for at in range(len(self._open) - 1, 0, -1):
            if self._open[at].tag in tags:
                del self._open[at:]
                return
            if self._open[at].tag in barriers:
                return


def read_blocks(text: str) -> list[Node]:
    """The blocks of an HTML page's body in order, groups taken apart. Raises AssertionError as html.parser does."""
    reader = _Reader()
    start = re.search(r"<body", text, re.IGNORECASE)
    reader.feed(text[start.start() if start else 0 :])
    reader.close()
    return [block for block in _blocks(reader.root) if block.text().strip()]


def _blocks(group: Node) -> Iterator[Node]:
    loose = Node("p")
    for child in group.children:
        if isinstance(child, str) or child.tag in _INLINE or child.tag == "br":
            loose.children.append(child)
            continue
        yield loose
        loose = Node("p")
        if child.tag == "div":
            yield from _blocks(child)
        elif child.tag in ("li", "dt", "dd", "tr", "td", "th", "caption"):  # stray ones
            yield Node("p", child.children)
        else:
            yield child
    yield loose


def lines_of(node: Node, line_characters: int) -> float:
    """About how many lines of body text ``node`` is high."""
    if node.tag == "tr":
        cells = [cell for cell in node.children if isinstance(cell, Node)] or [Node("td")]
        width = max(1, line_characters // len(cells))
        return 0.4 + max(lines_of(cell, width) for cell in cells)
    if node.tag == "pre":
        return node.text().count("\n") + 1.5
    inside = [child for child in node.children if isinstance(child, Node) and child.tag in _BLOCKS]
    if inside:
        return sum(lines_of(child, line_characters) for child in inside)
    length = len(node.text().strip())
    return ceil(length / line_characters) * (1.8 if node.tag in _HEADINGS else 1) + 0.3 if length else 0.0


def pieces(block: Node, line_characters: int, most: float) -> Iterator[Node]:
    """``block``, or if it is higher than ``most`` lines its items, rows or lines in several blocks of its kind."""
    if lines_of(block, line_characters) <= most or block.tag not in (*_LISTS, "pre"):
        yield block
        return
    if block.tag == "pre":
        rows = block.text().strip("\n").split("\n")
        size = max(1, int(most) - 1)
        for at in range(0, len(rows), size):
            yield Node("pre", ["\n".join(rows[at : at + size])])
        return
    part, height = Node(block.tag), 0.0
    for child in block.children:
        if isinstance(child, str):
            continue
        part.children.append(child)
        height += lines_of(child, line_characters)
        if height >= most and child.tag != "dt":
            yield part
            part, height = Node(block.tag), 0.0
    yield part


def stretch(blocks: list[Node], line_characters: int, lines: float, random: Random) -> list[Node]:
    """About ``lines`` lines of the page from a place chosen by chance; less if the page hasn't as many."""
    parts = [part for block in blocks for part in pieces(block, line_characters, lines / 3)]
    heights = [lines_of(part, line_characters) for part in parts]
    left, last = 0.0, 0
    for at in range(len(parts) - 1, -1, -1):
        left += heights[at]
        if left >= lines:
            last = at
            break
    start = random.randint(0, last)
    chosen, height = [], 0.0
    for part, high in zip(parts[start:], heights[start:], strict=True):
        chosen.append(part)
        height += high
        if height >= lines:
            break
    return chosen


def body_markup(blocks: list[Node], random: Random, line_characters: int) -> str:
    """The blocks as HTML; lists of short items stand in two columns."""
    return "".join(
        f'<div class="cols">{markup}</div>' if _is_narrow(block) else markup
        for block in blocks
        for markup in (block.markup(random, line_characters),)
    )


def _is_narrow(block: Node) -> bool:
    items = [child for child in block.children if isinstance(child, Node)]
    return block.tag in ("ul", "ol", "dl") and len(items) > 5 and len(block.text()) < _SHORT_ITEM * len(items)
