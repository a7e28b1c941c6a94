"""Digests that are the same in every process, on every machine, with every version: what choices and orders go by."""

import hashlib
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Hashes: TypeAlias = npt.NDArray[np.uint64]
Rows: TypeAlias = npt.NDArray[np.int64]

_GOLDEN = np.uint64(0x9E3779B97F4A7C15)
_WORD = 8


def digest_of(*parts: int | str) -> int:
    """A number from 0 to 2^128 that depends on ``parts`` alone."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "big")


def keys_of(hashes: Hashes, *parts: int | str) -> Hashes:
    """[N] -> [N]: other numbers of the same things, that depend on ``parts`` too; to sort by, to draw by."""
    return mixed(hashes ^ np.uint64(digest_of(*parts) % 2**64))


def mixed(values: Hashes) -> Hashes:
    """[N] -> [N], one to one: each bit of a result hangs on all bits of its value (splitmix64; Steele et al. 2014)."""
    values = (values ^ (values >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    values = (values ^ (values >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return values ^ (values >> np.uint64(31))


class Spans:
    """N pieces of one run of bytes: the texts of an Arrow array, or the rows of a numpy array of fixed width."""

    def __init__(self, data: npt.NDArray[np.uint8], starts: Rows, lengths: Rows) -> None:
        self.starts, self.lengths = starts, lengths
        self._data = np.concatenate([data, np.zeros(_WORD, np.uint8)])  # a word may begin at the last byte
        self._words: Hashes | None = None
        length = int(lengths[0]) if len(lengths) else 0
        if (
            length
            and bool((lengths == length).all())
            and bool((np.diff(starts) == (step := len(data) // len(starts))).all())
        ):
            whole = np.zeros((len(starts), -(-length // _WORD) * _WORD), np.uint8)
            whole[:, :length] = data[: step * len(starts)].reshape(-1, step)[:, :length]
            self._words = whole.view("<u8")

    @classmethod
    def of_texts(cls, texts: pa.Array) -> "Spans":
        """The UTF-8 bytes of a large_string array without nulls."""
        _, offsets, data = texts.buffers()
        if not len(texts):
            return cls(np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int64))
        edges = np.frombuffer(offsets, np.int64)[texts.offset : texts.offset + len(texts) + 1]
        held = np.zeros(0, np.uint8) if data is None else np.frombuffer(data, np.uint8)[edges[0] : edges[-1]]
        return cls(held, edges[:-1] - edges[0], np.diff(edges))

    @classmethod
    def of_fixed(cls, array: npt.NDArray[Any]) -> "Spans":
        """The rows of a numpy array of bytes (``|S28``), each up to its first NUL."""
        width = array.dtype.itemsize
        data = np.ascontiguousarray(array).view(np.uint8)
        lengths = (data.reshape(-1, width) != 0).sum(1, dtype=np.int64)
        return cls(data, np.arange(len(array), dtype=np.int64) * width, lengths)

    def __len__(self) -> int:
        return len(self.starts)

    def words(self, number: int, rows: Rows | slice = slice(None)) -> Hashes:
        """Bytes ``8 number`` to ``8 number + 7`` of the pieces ``rows`` as integers; bytes beyond an end count as 0."""
        if self._words is not None:
            return np.asarray(self._words[rows, number], np.uint64)
        count = len(self._data) - _WORD + 1
        words = np.ndarray((count,), "<u8", self._data, strides=(1,))
        places = np.minimum(self.starts[rows] + _WORD * number, count - 1)
        rest = np.clip(self.lengths[rows] - _WORD * number, 0, _WORD).astype(np.uint64)
        mask = np.where(rest == _WORD, ~np.uint64(0), (np.uint64(1) << (rest * np.uint64(8))) - np.uint64(1))
        return np.asarray(words[places] & mask, np.uint64)

    def hashes(self) -> Hashes:
        """64 bits of each piece: equal pieces have equal hashes, others as good as never."""
        found = mixed(self.lengths.astype(np.uint64) + _GOLDEN)
        longest = int(self.lengths.max(initial=0))
        rows = np.arange(len(self), dtype=np.int64)
        for number in range(-(-longest // _WORD)):
            rows = rows[self.lengths[rows] > _WORD * number]
            found[rows] = mixed((found[rows] ^ self.words(number, rows)) + _GOLDEN)
        return found

    def equal(self, rows: Rows, other: "Spans", other_rows: Rows) -> npt.NDArray[np.bool_]:
        """[N]: whether the pieces ``rows`` are, byte by byte, the pieces ``other_rows`` of ``other``."""
        same = np.asarray(self.lengths[rows] == other.lengths[other_rows])
        longest = int(self.lengths[rows].max(initial=0))
        for number in range(-(-longest // _WORD)):
            same &= self.words(number, rows) == other.words(number, other_rows)
        return same


def hashes_of(texts: pa.Array) -> Hashes:
    """[N] texts (Arrow large_string, no nulls) -> 64 bits each, of their UTF-8 alone."""
    return Spans.of_texts(texts).hashes()


def distinct_order(texts: pa.Array, hashes: Hashes) -> tuple[Rows, list[tuple[int, int]]]:
    """([N] rows in an order that depends on the texts alone, pairs of rows (earlier, later) with the same text)."""
    order = np.argsort(hashes, kind="stable")
    sorted_hashes = hashes[order]
    repeats: list[tuple[int, int]] = []
    ties = np.flatnonzero(sorted_hashes[1:] == sorted_hashes[:-1])
    for start in ties[np.diff(ties, prepend=-2) > 1].tolist():
        stop = int(np.searchsorted(sorted_hashes, sorted_hashes[start], "right"))
        run = sorted(order[start:stop].tolist(), key=lambda row: (texts[row].as_py(), row))
        order[start:stop] = run
        repeats += [(a, b) for a, b in pairwise(run) if texts[a].as_py() == texts[b].as_py()]
    return order, repeats
