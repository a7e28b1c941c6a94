"""Inverted lists on disk: per list its codes, then its row numbers, as FAISS's OnDiskInvertedLists reads them, mapped.

Rows are numbered list by list, so a row's code is found by arithmetic, and a row's list by bisection.
"""

from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cached_property
from math import gcd
from typing import Any

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.mining.index_arrays import Array
from tilewright.mining.index_quantiser import Quantiser, required_faiss
from tilewright.mining.index_topk import Found

_ID_BYTES = 8


@dataclass(frozen=True)
class Layout:
    """Where the codes of ``sizes`` [nlist] entries lie."""

    sizes: Array
    code_size: int

    @cached_property
    def capacities(self) -> Array:
        """Entries there is room for: row numbers lie on multiples of 8 bytes."""
        step = _ID_BYTES // gcd(_ID_BYTES, self.code_size)
        return -(-self.sizes // step) * step

    @cached_property
    def first_rows(self) -> Array:
        """Of every list, and the number of all rows [nlist + 1]."""
        return np.concatenate([[0], np.cumsum(self.sizes)])

    @cached_property
    def offsets(self) -> Array:
        """Of every list, and the number of all bytes [nlist + 1]."""
        return np.concatenate([[0], np.cumsum(self.capacities * (self.code_size + _ID_BYTES))])

    def lists_of(self, rows: Array) -> Array:
        """The list of each of ``rows``."""
        return np.searchsorted(self.first_rows, rows, side="right") - 1

    def addresses(self, rows: Array) -> Array:
        """Where the code of each of ``rows`` begins."""
        lists = self.lists_of(rows)
        addresses: Array = self.offsets[lists] + (rows - self.first_rows[lists]) * self.code_size
        return addresses


def write_codes(raw: Array, layout: Layout, rows: Array, codes: Array) -> None:
    """Put ``codes`` [n, code_size] where those of ``rows`` [n] lie."""
    windows = np.lib.stride_tricks.sliding_window_view(raw, layout.code_size, writeable=True)
    windows[layout.addresses(rows)] = codes


def write_rows(raw: Array, layout: Layout) -> None:
    """Put the row numbers behind the codes of every list."""
    for number in np.flatnonzero(layout.sizes):
        start = layout.offsets[number] + layout.capacities[number] * layout.code_size
        rows = np.arange(layout.first_rows[number], layout.first_rows[number + 1], dtype=np.int64)
        raw[start : start + _ID_BYTES * len(rows)] = rows.view(np.uint8)


class InvertedLists:
    """Mapped (or in memory) lists of one segment, searched by FAISS."""

    def __init__(self, quantiser: Quantiser, sizes: Array, raw: Array) -> None:
        self.quantiser, self.layout, self.raw = quantiser, Layout(np.asarray(sizes), quantiser.code_size), raw

    @cached_property
    def _searcher(self) -> tuple[Any, Any]:
        """A FAISS index and the lists to which it holds a bare pointer."""
        faiss = required_faiss("search")
        lists = self._mapped(faiss) if isinstance(self.raw, np.memmap) else self._copied(faiss)
        return self.quantiser.over(lists, int(self.layout.first_rows[-1])), lists

    def _mapped(self, faiss: Any) -> Any:
        lists = faiss.OnDiskInvertedLists(self.quantiser.nlist, self.quantiser.code_size, str(self.raw.filename))  # type: ignore[attr-defined]
        places, entry = lists.lists, faiss.OnDiskOneList()
        places.clear()
        layout, header = self.layout, int(self.raw.offset)  # type: ignore[attr-defined]
        for size, capacity, offset in zip(layout.sizes, layout.capacities, layout.offsets[:-1], strict=True):
            entry.size, entry.capacity, entry.offset = int(size), int(capacity), header + int(offset)
            places.push_back(entry)
        lists.totsize, lists.read_only, lists.prefetch_nthread = header + self.raw.size, True, 0
        lists.do_mmap()
        return lists

    def _copied(self, faiss: Any) -> Any:
        lists = faiss.ArrayInvertedLists(self.quantiser.nlist, self.quantiser.code_size)
        for number in np.flatnonzero(self.layout.sizes):
            first, end = (int(row) for row in self.layout.first_rows[number : number + 2])
            rows = np.arange(first, end, dtype=np.int64)
            codes = np.ascontiguousarray(self.codes(rows))
            lists.add_entries(int(number), len(rows), faiss.swig_ptr(rows), faiss.swig_ptr(codes))
        return lists

    def codes(self, rows: Array) -> Array:
        """Codes [n, code_size] of ``rows`` [n]."""
        windows = np.lib.stride_tricks.sliding_window_view(self.raw, self.layout.code_size)
        codes: Array = windows[self.layout.addresses(rows)]
        return codes

    def vectors(self, rows: Array) -> Array:
        """The vectors [n, D] that the codes of ``rows`` [n] stand for."""
        return self.quantiser.decode(self.codes(rows), self.layout.lists_of(rows))

    def candidates(self, queries: Array, k: int, lists: Array, scores: Array, bits: Array | None) -> Found:
        """The k best of the rows in ``lists`` [Q, nprobe] (``scores``: of their centroids) that ``bits`` allow."""
        faiss = required_faiss("search")
        selector = None if bits is None else faiss.IDSelectorBitmap(bits)
        parameters = faiss.SearchParametersIVF(nprobe=lists.shape[1], sel=selector)
        found = np.empty((len(queries), k), np.float32)
        rows = np.empty((len(queries), k), np.int64)
        searcher = self._searcher[0]

        def scan(part: slice) -> None:
            pointers = [faiss.swig_ptr(array[part]) for array in (lists, scores, found, rows)]
            block = queries[part]
            searcher.search_preassigned_c(len(block), faiss.swig_ptr(block), k, *pointers, False, parameters)

        # FAISS scans lists that were chosen beforehand on one thread alone, without Python's lock
        step = -(-len(queries) // max(1, faiss.omp_get_max_threads())) or 1
        parts = [slice(start, start + step) for start in range(0, len(queries), step)]
        if len(parts) == 1:
            scan(parts[0])
        else:
            with ThreadPoolExecutor(len(parts)) as threads:
                list(threads.map(scan, parts))
        if rows.size and not -1 <= rows.min() <= rows.max() < self.layout.first_rows[-1]:
            raise InputError("the index's inverted lists are damaged: build the index again")
        found[rows < 0] = -np.inf
        return found, rows
