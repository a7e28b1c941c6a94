"""A long unit in parts: cut at sentence ends, a row between its cells, preformatted text between its lines.

Each part of a row has the row's labels, each part of a cell those of its column.
"""

import re
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence

MAX_UNIT_TOKENS = 300
_PIECE = re.compile(r"\w+|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[A-Z0-9\u00c0-\uffff])|\n")


def rough_tokens(text: str) -> int:
    """Words and marks in ``text``: about what tokenizers make of it, without being any reader's."""
    return len(_PIECE.findall(text))


def is_long(text: str, max_tokens: int) -> bool:
    """Whether ``text`` has more than ``max_tokens`` rough tokens."""
    return len(text) > max_tokens and rough_tokens(text) > max_tokens


def cut(body: str, max_tokens: int = MAX_UNIT_TOKENS) -> list[str]:
    """``body`` in parts of at most ``max_tokens`` rough tokens; nothing is lost but the space at the cuts.

    It is cut at sentence ends and lines; what is longer still, between words.
    """
    if not is_long(body, max_tokens):
        return [body]
    return list(_packed(_pieces(body, max_tokens), max_tokens))


def cut_row(labels: str, fields: Sequence[tuple[str, str]], separator: str, max_tokens: int) -> list[str]:
    """A row in parts of at most ``max_tokens`` rough tokens; ``fields``: (column label, text) of its cells.

    Each part starts with ``labels``, and each part of a text with its column's, where they leave room for it.
    """
    start = labels + separator if labels else ""
    if rough_tokens(start) > max_tokens // 2:
        start, fields = "", [("", labels), *fields]
    room = max_tokens - rough_tokens(start)
    parts: list[str] = []
    size, last = 0, -1
    for number, (label, text) in enumerate(fields):
        name = f"{label}: " if label else ""
        if rough_tokens(name) > room // 2:
            name, text = "", name + text
        for piece in _pieces(text, room - rough_tokens(name)):
            joint = " " if number == last else separator + name
            tokens = rough_tokens(joint) + rough_tokens(piece)
            if not parts or size + tokens > room:
                parts.append(start + name + piece)
                size = rough_tokens(name + piece)
            else:
                parts[-1] += joint + piece
                size += tokens
            last = number
    return parts


def _pieces(text: str, max_tokens: int) -> Iterator[str]:
    """The sentences of ``text``, those that are too long in parts; no empty ones."""
    for sentence in _sentences(text):
        yield from filter(None, _words(sentence, max_tokens))


def _sentences(text: str) -> Iterator[str]:
    start = 0
    for end in _SENTENCE_END.finditer(text):
        yield text[start : end.end()].strip()
        start = end.end()
    yield text[start:].strip()


def _words(text: str, max_tokens: int) -> Iterator[str]:
    if rough_tokens(text) <= max_tokens:
        yield text
        return
    starts = [found.start() for found in _PIECE.finditer(text)]
    start, first = 0, 0
    while first + max_tokens < len(starts):
        limit = starts[first + max_tokens]
        space = text.rfind(" ", start + 1, limit)
        stop = space if space > starts[first] else limit
        yield text[start:stop].strip()
        start, first = stop, bisect_left(starts, stop)
    yield text[start:].strip()


def _packed(pieces: Iterable[str], max_tokens: int) -> Iterator[str]:
    part: list[str] = []
    size = 0
    for text in pieces:
        tokens = rough_tokens(text)
        if part and size + tokens > max_tokens:
            yield " ".join(part)
            part, size = [], 0
        part.append(text)
        size += tokens
    if part:
        yield " ".join(part)
