"""The order in which a tile's words are read: lines are cut at wide gaps, their pieces stacked to blocks by column.

So a paragraph is read on beside an infobox, and a cell of a table that takes several lines stays together.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.train.nano_reader_words import TileWords

Array = np.ndarray[Any, Any]
GAP_CELLS = 5  # from one character's cell to the next word's, above which a new piece begins: 20 px
NEXT_ROWS = 2  # lines of one block lie at most so many rows of patches (16 px) apart


@dataclass(frozen=True)
class Layout:
    """``order`` [N]: the words in reading order; in that order ``block`` and ``piece`` [N], numbered from 0."""

    order: Array
    block: Array
    piece: Array


@dataclass
class _Piece:
    """Words ``start`` to ``stop`` of one row, from cell ``left`` to cell ``right``."""

    row: int
    left: int
    right: int
    start: int
    stop: int


def layout_of(words: TileWords) -> Layout:
    """Blocks by their first piece, from top to bottom, then from left to right."""
    blocks = _stacked(_pieces(words))
    order, block, piece, count = [], [], [], 0
    for number, members in enumerate(blocks):
        for member in members:
            size = member.stop - member.start
            order.append(np.arange(member.start, member.stop))
            block.append(np.full(size, number))
            piece.append(np.full(size, count))
            count += 1
    empty = [np.zeros(0, dtype=np.int64)]
    return Layout(*(np.concatenate([*empty, *parts]) for parts in (order, block, piece)))


def _pieces(words: TileWords) -> list[_Piece]:
    if not len(words):
        return []
    rows, left, right = (array.astype(np.int64) for array in (words.rows, words.left, words.right))
    cut = (rows[1:] != rows[:-1]) | (left[1:] - right[:-1] > GAP_CELLS)
    starts = np.concatenate([[0], np.flatnonzero(cut) + 1])
    stops = np.append(starts[1:], len(words))
    return [
        _Piece(int(rows[start]), int(left[start]), int(right[stop - 1]), int(start), int(stop))
        for start, stop in zip(starts, stops, strict=True)
    ]


def _stacked(pieces: Sequence[_Piece]) -> list[list[_Piece]]:
    """Each piece goes on with the block above it that it shares most cells with."""
    blocks: list[list[_Piece]] = []
    open_blocks: list[list[_Piece]] = []
    for piece in pieces:
        open_blocks = [block for block in open_blocks if piece.row - block[-1].row <= NEXT_ROWS]
        shared = [(_shared(piece, block), block) for block in open_blocks if block[-1].row < piece.row]
        best = max(shared, key=lambda entry: entry[0], default=(0, []))
        if best[0] > 0:
            best[1].append(piece)
            continue
        blocks.append([piece])
        open_blocks.append(blocks[-1])
    return blocks


def _shared(piece: _Piece, block: Sequence[_Piece]) -> int:
    left, right = min(part.left for part in block[-3:]), max(part.right for part in block[-3:])
    return min(piece.right, right) - max(piece.left, left) + 1
