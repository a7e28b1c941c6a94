"""A long unit in parts: cut at sentence ends, a row between its cells, preformatted text between its lines."""

import re
from bisect import bisect_left
from collections.abc import Iterator, Sequence

MAX_UNIT_TOKENS = 300
_PIECE = re.compile(r"\w+|[^\w\s]")
_SENTENCE_END = re.compile(r"(?<=[.!?。！？])[\"'”’)\]]*\s+(?=[\"'“‘(\[]*[A-Z0-9\u00c0-\uffff])|\n")


def rough_tokens(text: str) -> int:
    """Words and marks in ``text``: about what tokenizers make of it, without being any reader's."""
    return len(_PIECE.findall(text))


def cut(body: str, separator: str, max_tokens: int = MAX_UNIT_TOKENS) -> list[str]:
    """``body`` in parts of at most ``max_tokens`` rough tokens; nothing is lost but the space at the cuts.

    ``separator`` "": cut at sentence ends and lines; else at it first. What is longer still is cut between words.
    """
    if len(body) <= max_tokens or rough_tokens(body) <= max_tokens:
        return [body]
    pieces: list[tuple[str, str]] = []  # (text, what joins it to the one before)
    for field in body.split(separator) if separator else [body]:
        start = separator
        for sentence in _sentences(field):
            for words in _words(sentence, max_tokens):
                pieces.append((start, words))
                start = " "
    return list(_packed(pieces, max_tokens))


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


def _packed(pieces: Sequence[tuple[str, str]], max_tokens: int) -> Iterator[str]:
    part, size = "", 0
    for joint, text in pieces:
        if not text:
            continue
        tokens = rough_tokens(joint) + rough_tokens(text)
        if part and size + tokens > max_tokens:
            yield part
            part, size = "", 0
        part, size = (part + joint + text, size + tokens) if part else (text, tokens)
    if part:
        yield part
