"""Markup that would cost a parser time or memory out of proportion is flattened before it gets there.

The HTML standard's tree construction is quadratic in the depth of nesting (each start tag looks through the stack of
open elements) and in the attributes of one tag, and copies unclosed formatting elements into each paragraph: 100,000
nested divs take lexbor a minute, 14 KB of <b> and <p> make a million nodes. Browsers cap the depth at 512. Pages that
stay under the limits are passed on as they are; in others the tags over them are left out and their text stays.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

MAX_CHARS = 10_000_000
MAX_DEPTH = 400
MAX_ATTRIBUTES = 200
MAX_COPIES = 500_000  # of formatting elements that the parser may make
MAX_MISPLACED = 400  # end tags of elements that aren't open or aren't the last opened
_SMALL_CHARS, _SMALL_TAGS = 65_536, 2_000  # a page this small can't cost more than a second or two
_MAX_BROKEN = 50  # tags with an open quote: looking for its end may read all the rest
_SKIPPED = r"<!--(?:-?>|.*?(?:--!?>|\Z))|<[!?][^>]*>"
_RAW = r"<(script|style|textarea|title|xmp|iframe|noembed|noframes)\b[^>]*>(.*?)(?:</\2\s*>|\Z)"
_TAG = r"<(/?)([a-z][^\s/>]*)([^>]*)>"
_TOKEN = re.compile(rf"({_SKIPPED})|{_RAW}|{_TAG}", re.IGNORECASE | re.DOTALL)
_QUOTED_REST = re.compile(r"""(?:[^"'>]++|"[^"]*+"|'[^']*+')*+(?=>)""")
_ATTRIBUTE = re.compile(r"""[^\s"'>/=][^\s>/=]*+(?:\s*+=\s*+(?:"[^"]*+"|'[^']*+'|[^\s"'>]++))?""")
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_FORMATTING = frozenset(
    ["a", "b", "big", "code", "em", "font", "i", "nobr", "s", "small", "strike", "strong", "tt", "u"]
)
_CELLS, _ROWS = {"td", "th", "p", "li"}, {"td", "th", "tr", "p", "li"}
_CLOSES = {  # start tag: open elements that it ends if they were opened last
    "li": {"li", "p"},
    "dt": {"dt", "dd", "p"},
    "dd": {"dt", "dd", "p"},
    "td": _CELLS,
    "th": _CELLS,
    "tr": _ROWS,
    "tbody": _ROWS | {"thead", "tbody", "tfoot"},
    "thead": _ROWS | {"thead", "tbody", "tfoot"},
    "tfoot": _ROWS | {"thead", "tbody", "tfoot"},
    "option": {"option"},
}
_CLOSES_P = frozenset(
    [
        "p",
        "div",
        "ul",
        "ol",
        "dl",
        "table",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "blockquote",
        "pre",
        "section",
        "article",
        "form",
        "hr",
    ]
)
_OPTIONAL = frozenset(["p", "li", "dt", "dd", "td", "th", "tr", "tbody", "thead", "tfoot", "option", "colgroup"])


def bounded(html: str) -> str:
    """``html`` itself, or what stays of it when the tags over the limits are left out."""
    if len(html) <= _SMALL_CHARS and html.count("<") <= _SMALL_TAGS:
        return html
    return html if _is_harmless(html) else "".join(_flattened(html))


class _Token(NamedTuple):
    """``before``: the text that leads to it; ``name`` "" for a comment; ``raw`` the content of a title and the like."""

    before: str
    name: str
    is_end: bool = False
    rest: str = ""
    raw: str = ""


def _tokens(html: str) -> Iterator[_Token]:
    """The tags of ``html`` in time linear in its length, last the text behind them."""
    position, broken, end = 0, 0, html.rfind(">") + 1
    while (found := _TOKEN.search(html, position, end)) is not None:
        before, position = html[position : found.start()], found.end()
        skipped, raw, content, slash, name, rest = found.groups()
        if skipped:
            yield _Token(before, "")
        elif raw:
            yield _Token(before, raw.lower(), raw=content)
        else:
            if ('"' in rest or "'" in rest) and broken < _MAX_BROKEN:
                whole = _QUOTED_REST.match(html, found.start(6), end)
                broken += whole is None
                rest, position = (whole[0], whole.end() + 1) if whole else (rest, position)
            yield _Token(before, name.lower(), bool(slash), rest)
    yield _Token(html[position:], "")


class _Open:
    """The open elements, as far as the limits need them."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.formatting = self.copies = self.misplaced = 0

    def start(self, name: str) -> None:
        """Open an element; those that it ends implicitly are closed."""
        closes = _CLOSES.get(name, ())
        while self.names and (self.names[-1] in closes or (self.names[-1] == "p" and name in _CLOSES_P)):
            self.names.pop()
        self.names.append(name)
        if name in _FORMATTING:
            self.formatting += 1
        else:
            self.copies += self.formatting

    def end(self, name: str) -> bool:
        """Whether an element was closed: the last opened, not counting ones whose end tag is optional."""
        depth = len(self.names)
        while depth and self.names[depth - 1] != name and self.names[depth - 1] in _OPTIONAL:
            depth -= 1
        if not depth or self.names[depth - 1] != name:
            self.misplaced += 1
            return False
        del self.names[depth - 1 :]
        self.formatting -= name in _FORMATTING
        return True


def _is_harmless(html: str) -> bool:
    state = _Open()
    for token in _tokens(html):
        if not token.name or token.name in _VOID or token.raw:
            continue
        if token.is_end:
            state.end(token.name)
        else:
            state.start(token.name)
            if len(token.rest) > MAX_ATTRIBUTES and len(_ATTRIBUTE.findall(token.rest)) > MAX_ATTRIBUTES:
                return False
        if len(state.names) > MAX_DEPTH or state.copies > MAX_COPIES or state.misplaced > MAX_MISPLACED:
            return False
    return True


def _flattened(html: str) -> Iterator[str]:
    """``html`` with each element ended in its parent, none deeper than MAX_DEPTH; comments and scripts are left out."""
    state = _Open()
    for token in _tokens(html):
        yield _text(token.before)
        name = token.name
        if name == "title" and token.raw:
            yield f"<title>{_text(token.raw)}</title>"
        elif not name or token.raw:
            continue
        elif token.is_end:
            if state.end(name):
                yield f"</{name}>"
        elif name in _VOID:
            yield f"<{name}{_attributes(token.rest)}>"
        elif len(state.names) < MAX_DEPTH and not (name in _FORMATTING and state.copies > MAX_COPIES):
            state.start(name)
            yield f"<{name}{_attributes(token.rest)}>"


def _attributes(rest: str) -> str:
    return "".join(f" {attribute}" for attribute in _ATTRIBUTE.findall(rest)[:MAX_ATTRIBUTES])


def _text(text: str) -> str:
    return text.replace("<", "&lt;")
