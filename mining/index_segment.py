"""A segment of an index: tiles written together, never changed; removed ones are marked beside it."""

from collections.abc import Collection, Sequence
from functools import cached_property
from typing import Any, Protocol

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.mining.index_arrays import Array, decode_ids, encode_ids
from tilewright.mining.index_lists import InvertedLists
from tilewright.mining.index_topk import Found, TopK, padded, top_k_of_rows

_IDS_AT_ONCE = 65_536


class Vectors(Protocol):
    """Where a segment's vectors are."""

    def vectors(self, rows: Array) -> Array: ...


class FlatVectors:
    """Vectors [n, D] float32 as they are."""

    def __init__(self, matrix: Array) -> None:
        self.matrix = matrix

    def vectors(self, rows: Array) -> Array:
        """[n, D] of ``rows``: a view where they follow one another."""
        if len(rows) and rows[-1] - rows[0] + 1 == len(rows) and (np.diff(rows) == 1).all():
            return self.matrix[rows[0] : rows[-1] + 1]
        return np.asarray(self.matrix[rows])


class Allowed:
    """Rows of a segment that a search may give; ``rows`` None: all of ``total``."""

    def __init__(self, rows: Array | None, total: int) -> None:
        self.rows, self._total = rows, total

    def __len__(self) -> int:
        return self._total if self.rows is None else len(self.rows)

    @cached_property
    def bits(self) -> Array | None:
        """One bit a row, for FAISS; None: all."""
        if self.rows is None:
            return None
        mask = np.zeros(self._total, bool)
        mask[self.rows] = True
        return np.packbits(mask, bitorder="little")


class Segment:
    """``ids`` [n] bytes by row, ``order`` [n] the rows in ascending order of id, ``removed`` rows ascending."""

    def __init__(self, ids: Array, order: Array, stored: FlatVectors | InvertedLists, removed: Array) -> None:
        self.ids, self.order, self.stored, self.removed = ids, order, stored, removed
        self._held: Any = None

    def __len__(self) -> int:
        return len(self.ids)

    def without(self, rows: Array) -> "Segment":
        """The same with ``rows`` removed too."""
        return Segment(self.ids, self.order, self.stored, np.union1d(self.removed, rows))

    @cached_property
    def live(self) -> Allowed:
        """The rows that aren't removed."""
        if not len(self.removed):
            return Allowed(None, len(self))
        mask = np.ones(len(self), bool)
        mask[self.removed] = False
        return Allowed(np.flatnonzero(mask), len(self))

    def live_rows(self) -> Array:
        """The rows that aren't removed, ascending."""
        rows = self.live.rows
        return np.arange(len(self)) if rows is None else rows

    def find(self, ids: Array) -> Array:
        """The row of each of ``ids`` (bytes), -1 for one that isn't here or is removed."""
        rows = np.full(len(ids), -1)
        fits = np.flatnonzero(np.char.str_len(ids) <= self.ids.dtype.itemsize)
        wanted = ids[fits].astype(self.ids.dtype)
        found = self._inside(self.order[np.minimum(self._places(wanted), len(self) - 1)])
        there = (self.ids[found] == wanted) & ~self._is_removed(found)
        rows[fits[there]] = found[there]
        return rows

    def _places(self, ids: Array) -> Array:
        """Where ``ids`` (as wide as our own) stand, or would, in the order of ids."""
        try:
            places: Array = np.searchsorted(self.ids, ids, sorter=self.order)
        except ValueError as error:
            raise InputError(f"the index's order of tile ids is damaged ({error}): build the index again") from error
        return places

    def _inside(self, rows: Array) -> Array:
        if rows.size and not 0 <= rows.min() <= rows.max() < len(self):
            raise InputError("the index's order of tile ids is damaged: build the index again")
        return rows

    def _is_removed(self, rows: Array) -> Array:
        places = np.searchsorted(self.removed, rows)
        gone: Array = np.append(self.removed, -1)[np.minimum(places, len(self.removed))] == rows
        return gone

    def of_pages(self, pages: Collection[str]) -> Allowed:
        """The live tiles of ``pages``, found by bisection."""
        names = sorted({page for page in pages if page and "-" not in page and "\0" not in page})
        rows = [self._with_prefix(names), self._exactly(names)]
        return Allowed(np.setdiff1d(np.unique(np.concatenate(rows)), self.removed), len(self))

    def _with_prefix(self, names: Sequence[str]) -> Array:
        """Rows of tiles ``{page}-...``."""
        names = [name for name in names if len(name.encode()) < self.ids.dtype.itemsize]
        if not names:
            return np.empty(0, np.int64)
        signs = (b"-", b".")  # "." follows "-"
        bounds = [np.array([name.encode() + sign for name in names], self.ids.dtype) for sign in signs]
        first, end = map(self._places, bounds)
        return self._inside(np.concatenate([self.order[a:b] for a, b in zip(first, end, strict=True)]))

    def _exactly(self, names: Sequence[str]) -> Array:
        rows = self.find(encode_ids(names)) if names else np.empty(0, np.int64)
        return rows[rows >= 0]

    def vectors(self, rows: Array) -> Array:
        """Vectors [n, D] of ``rows``: exact, or what their codes stand for."""
        return self.stored.vectors(rows)

    def candidates(
        self, top_k: TopK, queries: Array, k: int, allowed: Allowed, probes: tuple[Array, Array] | None
    ) -> Found:
        """The k best allowed rows for ``queries`` [Q, D]; with ``probes`` (IVF kinds) those in these lists."""
        if probes is not None and isinstance(self.stored, InvertedLists):
            return self.stored.candidates(queries, k, *probes, allowed.bits)
        if allowed.rows is not None or isinstance(self.stored, InvertedLists):
            rows = np.arange(len(self)) if allowed.rows is None else allowed.rows
            return top_k_of_rows(top_k, self.stored.vectors, queries.shape[1], rows, queries, k)
        if self._held is None:
            self._held = top_k.hold(self.stored.matrix)
        return padded(*top_k(queries, self._held, min(k, len(self))), k)


def missing_from(segments: Sequence[Segment], tile_ids: Sequence[str]) -> list[str]:
    """Those of ``tile_ids`` that no segment holds."""
    encoded = encode_ids(tile_ids)
    missing = np.all([segment.find(encoded) < 0 for segment in segments], axis=0)
    return [tile_ids[place] for place in np.flatnonzero(np.broadcast_to(missing, len(tile_ids))).tolist()]


def first_beyond(segments: Sequence[Segment], tile_ids: Sequence[str]) -> str | None:
    """A tile of the segments that isn't among ``tile_ids``, which are read in blocks; None if there is none."""
    beyond = [np.isin(np.arange(len(segment)), segment.live_rows()) for segment in segments]
    for start in range(0, len(tile_ids), _IDS_AT_ONCE):
        encoded = encode_ids(tile_ids[start : start + _IDS_AT_ONCE])
        for segment, left in zip(segments, beyond, strict=True):
            rows = segment.find(encoded)
            left[rows[rows >= 0]] = False
    for segment, left in zip(segments, beyond, strict=True):
        if left.any():
            return decode_ids(segment.ids[[int(np.argmax(left))]])[0]
    return None


def sorted_rows(ids: Array) -> Array:
    """The rows of ``ids`` in ascending order of id."""
    return np.argsort(ids, kind="stable")
