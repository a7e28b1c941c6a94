"""Texts cut into chunks of at most so many tokens: the baseline's fixed-size chunks, at ends of sentences or lines."""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass

_END = re.compile(r"[^\n]*?(?:[.!?…][\"'”’)\]]*(?=\s)[^\S\n]*|\n+|\Z)")
CountTokens = Callable[[str], int]


@dataclass(frozen=True)
class Chunk:
    """``text`` is the page's from ``start`` (in characters), ``position`` its number from 0."""

    text: str
    start: int
    position: int
    tokens: int


@dataclass(frozen=True)
class _Piece:
    start: int
    end: int
    tokens: int


def chunks_of(text: str, tokens: int, count: CountTokens, overlap: int = 0) -> list[Chunk]:
    """Consecutive chunks of ``text``, each of at most ``tokens`` tokens by ``count``; blank ones are left out.

    Cut at ends of sentences or lines where they fit, a longer sentence between words, a longer word anywhere. A chunk
    takes in the last pieces of the one before it, up to ``overlap`` tokens. Raises ValueError unless 0 <= overlap <
    tokens.
    """
    if not 0 <= overlap < tokens:
        raise ValueError(f"wanted 0 <= overlap < tokens, found overlap {overlap} and tokens {tokens}")
    pieces = [part for start, end in _ends(text) for part in _fitting(text, start, end, tokens, count)]
    found: list[Chunk] = []
    first = 0
    while first < len(pieces):
        last = _last(text, pieces, first, tokens, count)
        whole = text[pieces[first].start : pieces[last].end].strip()
        if whole:
            found.append(Chunk(whole, pieces[first].start, len(found), count(whole)))
        first = _next(pieces, first, last, overlap)
    return found


def _last(text: str, pieces: list[_Piece], first: int, tokens: int, count: CountTokens) -> int:
    """The last piece of the chunk that begins with ``first``; tokens of a sum may be a few more than those of parts."""
    last, used = first, pieces[first].tokens
    while last + 1 < len(pieces) and used + pieces[last + 1].tokens <= tokens:
        last += 1
        used += pieces[last].tokens
    while last > first and count(text[pieces[first].start : pieces[last].end].strip()) > tokens:
        last -= 1
    return last


def _next(pieces: list[_Piece], first: int, last: int, overlap: int) -> int:
    """Where the next chunk begins: after ``last``, or so many pieces before its end as ``overlap`` holds."""
    following, used = last + 1, 0
    if following == len(pieces):
        return following
    while following - 1 > first and used + pieces[following - 1].tokens <= overlap:
        following -= 1
        used += pieces[following].tokens
    return following


def _ends(text: str) -> Iterator[tuple[int, int]]:
    """(start, end) of sentences and lines, which together are the text."""
    position = 0
    for match in _END.finditer(text):
        if match.end() > position:
            yield position, match.end()
            position = match.end()


def _fitting(text: str, start: int, end: int, tokens: int, count: CountTokens) -> Iterator[_Piece]:
    """A sentence as pieces that fit: itself, else its halves, cut between words if it has several."""
    number = count(text[start:end].strip())
    if number <= tokens or end - start == 1:
        yield _Piece(start, end, number)
        return
    middle = (start + end) // 2
    gaps = [match.end() for match in re.finditer(r"\s+", text[start:end])]
    inside = [start + gap for gap in gaps if 0 < gap < end - start]
    cut = min(inside, key=lambda place: abs(place - middle), default=middle)
    yield from _fitting(text, start, cut, tokens, count)
    yield from _fitting(text, cut, end, tokens, count)
