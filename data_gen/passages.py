"""The running text of rendered pages as passages: whole sentences of one section, within bounds of length."""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from itertools import groupby

from tilewright.configs.bounds import check_bounds
from tilewright.data_gen.grounded.sentences import sentences
from tilewright.data_gen.records import Tile
from tilewright.data_gen.shingles import tokens

PROSE = ("paragraph", "list_item")
_FULL_STOP = re.compile(r"(?<=[\u3002\uff01\uff1f])\s*")  # Chinese and Japanese: no blank behind it

_ENDS = re.compile(r"[.!?:;\u2026\u3002\uff01\uff1f][\"'\u201d\u2019)\]]*$")


@dataclass(frozen=True)
class PassageSettings:
    """Bounds of a passage in words (of a script without blanks: in letters), and the sections that give none.

    ``skipped_sections``: patterns of headings, in any case (``see also``, ``*references``).
    """

    min_words: int
    max_words: int
    skipped_sections: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "min_words")
        check_bounds(self, self.min_words, None, "max_words")


@dataclass(frozen=True)
class Passage:
    """Consecutive sentences of one section of a page. ``part`` counts the passages of a section from 0."""

    page_id: str
    title: str
    section: str
    part: int
    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sentences, a blank between two."""
        return " ".join(self.sentences)


@dataclass
class _Piece:
    """A paragraph or list item, joined again where tiles cut it; ``open_end``: its end is on the next tile, if any."""

    heading: int
    section: str
    kind: str
    text: str
    open_start: bool
    open_end: bool
    row: int


def passages_of(tiles: Iterable[Tile], settings: PassageSettings, drops: Counter[str]) -> Iterator[Passage]:
    """The passages of pages whose tiles come page by page in reading order; what is left out is counted in ``drops``.

    Paragraphs that tiles cut are joined; where the rest is missing (a tile that isn't there) the broken sentence goes.
    A section longer than ``max_words`` gives several passages of about equal length. Drops: ``cut_block`` (cut at its
    side), ``skipped_section``, ``fragment`` (blocks), ``long_sentence`` (sentences); ``short_passage`` and
    ``duplicate_passage`` (of any page, the same words).
    """
    seen: set[bytes] = set()
    for page_id, own in groupby(tiles, key=lambda tile: tile.page_id):
        page = list(own)
        for passage in _of_page(page_id, page, settings, drops):
            words = tokens(passage.text)
            digest = hashlib.sha256(" ".join(words).encode()).digest()[:16]
            if len(words) < settings.min_words:
                drops["short_passage"] += 1
            elif digest in seen:
                drops["duplicate_passage"] += 1
            else:
                seen.add(digest)
                yield passage


def _of_page(page_id: str, page: Sequence[Tile], settings: PassageSettings, drops: Counter[str]) -> Iterator[Passage]:
    pieces = _pieces([tile for tile in page if tile.column == 0], drops)
    for _, own in groupby(pieces, key=lambda piece: (piece.heading, piece.section)):
        section = list(own)
        name = section[0].section
        if any(fnmatchcase(name.casefold(), pattern.casefold()) for pattern in settings.skipped_sections):
            drops["skipped_section"] += len(section)
            continue
        found = []
        prose = _prose_of(section, settings.min_words)
        drops["fragment"] += len(section) - len(prose)
        for sentence in (sentence for piece in prose for sentence in _whole_sentences(piece)):
            if len(tokens(sentence)) > settings.max_words:
                drops["long_sentence"] += 1
            elif tokens(sentence):
                found.append(sentence)
        for part, run in enumerate(_runs(found, settings.max_words)):
            yield Passage(page_id, page[0].title, name, part, tuple(run))


def _pieces(tiles: Iterable[Tile], drops: Counter[str]) -> list[_Piece]:
    """Paragraphs and list items in reading order; ``heading`` counts the headings before them."""
    pieces: list[_Piece] = []
    heading = 0
    for tile in tiles:
        prose = [block for block in tile.blocks if block.kind in PROSE]
        for block in tile.blocks:
            heading += block.kind == "heading"
            if block.kind not in PROSE:
                continue
            first, last = block is prose[0], block is prose[-1]
            if not (block.whole or first or last):
                drops["cut_block"] += 1
                continue
            piece = _Piece(
                heading,
                block.section,
                block.kind,
                " ".join(block.text.split()),
                open_start=first and not block.whole and tile.row > 0,
                open_end=last and not block.whole,
                row=tile.row,
            )
            if not (pieces and _joined(pieces[-1], piece)):
                pieces.append(piece)
    return pieces


def _joined(before: _Piece, piece: _Piece) -> bool:
    """Join ``piece`` to the one before it if that goes on in it, on the next tile; whether it did."""
    same = (before.kind, before.section, before.heading) == (piece.kind, piece.section, piece.heading)
    if not (same and before.open_end and piece.open_start and piece.row == before.row + 1):
        return False
    before.text += f" {piece.text}"
    before.open_end, before.row = piece.open_end, piece.row
    return True


def _prose_of(section: Sequence[_Piece], min_words: int) -> list[_Piece]:
    """A section without what is no running text: short paragraphs, and one or two items before its first paragraph,
    that don't end like a sentence (*Main article: Politics of Alaska*, *Next page*)."""
    leading = next((i for i, piece in enumerate(section) if piece.kind == "paragraph"), 0)
    return [
        piece
        for i, piece in enumerate(section)
        if _ENDS.search(piece.text)
        or len(tokens(piece.text)) >= min_words
        or (piece.kind == "list_item" and not i < leading <= 2)
    ]


def _whole_sentences(piece: _Piece) -> list[str]:
    found = [part for sentence in sentences(piece.text) for part in _FULL_STOP.split(sentence) if part]
    return found[1 if piece.open_start else 0 : -1 if piece.open_end else None]


def _runs(found: Sequence[str], max_words: int) -> Iterator[list[str]]:
    """The sentences in as few runs of at most ``max_words`` as their sum allows, of about equal length."""
    lengths = [len(tokens(sentence)) for sentence in found]
    target = sum(lengths) / max(1, -(-sum(lengths) // max_words))
    run: list[str] = []
    size = 0
    for sentence, length in zip(found, lengths, strict=True):
        if run and (size + length > max_words or size + length / 2 > target):
            yield run
            run, size = [], 0
        run.append(sentence)
        size += length
    if run:
        yield run
