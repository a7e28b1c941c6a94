"""Pipe tables, and the report's tables as Markdown, so that a file and the page say the same."""

import re
from collections.abc import Sequence
from html.parser import HTMLParser

from tilewright.eval.report.markup import Markup

_MARKS = re.compile(r"[\\|*`]|~(?=~)|(?<=~)~|(?<=\])\(|(?<![^\W_])_|_(?![^\W_])")  # of _ those at the edge of a word
_ENTITY = re.compile(r"&(?=#?\w+;)")


def markdown_of(markup: Markup) -> str:
    """Every table in ``markup``, our own, as a caption and a pipe table; other elements are left out."""
    parser = _Tables()
    parser.feed(markup)
    parser.close()
    return "\n".join(_table(caption, rows) for caption, rows in parser.found)


def escaped(text: str) -> str:
    """``text`` on one line, as it reads in a Markdown table: no emphasis, code, link, tag or entity of its own."""
    line = _MARKS.sub(r"\\\g<0>", " ".join(text.split()))
    return _ENTITY.sub("&amp;", line).replace("<", "&lt;")


def pipe_table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table of plain texts: the first column to the left, the others to the right."""
    return _lines([[escaped(cell) for cell in row] for row in (head, *rows)])


def _table(caption: str, rows: list[list[str]]) -> str:
    return f"*{escaped(caption)}*\n\n" + _lines(rows)


def _lines(rows: Sequence[Sequence[str]]) -> str:
    head, *body = rows
    lines = [head, ["---", *["---:"] * (len(head) - 1)], *body]
    return "".join("| " + " | ".join(line) + " |\n" for line in lines)


class _Tables(HTMLParser):
    """Collects (caption, rows of cell texts); parts of a cell (figure, interval, remark) are joined by spaces."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[tuple[str, list[list[str]]]] = []
        self._parts: list[str] | None = None

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag == "table":
            self.found.append(("", []))
        elif tag == "tr":
            self.found[-1][1].append([])
        elif tag in ("caption", "th", "td"):
            self._parts = []

    def handle_data(self, data: str) -> None:
        if self._parts is not None:
            self._parts.append(data)

    def handle_endtag(self, tag: str) -> None:
        if tag in ("th", "td"):
            between = " " if tag == "td" else ": "  # a row's name and what it is
            self.found[-1][1][-1].append(escaped(self._text(between)))
        elif tag == "caption":
            self.found[-1] = (self._text(" "), self.found[-1][1])

    def _text(self, between: str) -> str:
        parts, self._parts = [part for part in self._parts or () if part.strip()], None
        return between.join(parts)
