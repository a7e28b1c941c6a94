"""Writes a segment of an index from vectors that are read in blocks: peak memory is ids and blocks, not the vectors."""

from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.mining.index_arrays import Array, Arrays, InMemory, decode_ids, open_array, release
from tilewright.mining.index_lists import InvertedLists, Layout, write_codes, write_rows
from tilewright.mining.index_quantiser import Quantiser
from tilewright.mining.index_segment import FlatVectors, Segment, sorted_rows
from tilewright.mining.index_settings import Plan
from tilewright.mining.index_source import InMemorySource, Source, all_ids, as_unit, blocks_of, sample_of

IDS, ORDER, VECTORS, SIZES, LISTS = "tile_ids", "order", "vectors", "list_sizes", "lists"
Codes = Callable[[], Iterator[tuple[int, Array]]]  # (first row, codes [n, code_size]) of all rows in order
_NONE = np.empty(0, np.int64)


def train_quantiser(source: Source, plan: Plan) -> Quantiser | None:
    """Trained by the plan's sample of ``source``; None for kind flat."""
    if plan.kind == "flat":
        return None
    return Quantiser.train(plan, sample_of(source, plan.training_sample, plan.seed)[1])


def write_segment(arrays: Arrays, source: Source, quantiser: Quantiser | None) -> Segment:
    """A segment of all of ``source``. Raises InputError for an id given twice and vectors not of unit length."""
    ids = all_ids(source)
    order = unique_order(ids)
    if quantiser is None:
        return write_flat(arrays, ids, order, source)
    numbers = np.empty(len(source), np.int32)
    for block in blocks_of(source):
        numbers[block.start : block.start + len(block.vectors)] = quantiser.nearest_lists(block.vectors, 1)[0][:, 0]

    def codes() -> Iterator[tuple[int, Array]]:
        for block in blocks_of(source):
            yield block.start, quantiser.encode(block.vectors, numbers[block.start : block.start + len(block.vectors)])

    return write_lists(arrays, ids, numbers, codes, quantiser)


def unique_order(ids: Array) -> Array:
    """The rows in ascending order of id. Raises InputError for an id given twice."""
    order = sorted_rows(ids)
    twice = np.flatnonzero(ids[order[1:]] == ids[order[:-1]])
    if len(twice):
        raise InputError(f"a tile id stands twice in the index: {decode_ids(ids[order[twice[:1]]])[0]}")
    return order


def write_flat(arrays: Arrays, ids: Array, order: Array, source: Source) -> Segment:
    """A flat segment; a float32 array in memory is used as it is."""
    if isinstance(source, InMemorySource) and isinstance(arrays, InMemory):
        matrix = as_unit(source.vectors, source.tile_ids)
    else:
        matrix = arrays.new(VECTORS, (len(source), source.dimension), np.float32)
        for block in blocks_of(source):
            matrix[block.start : block.start + len(block.vectors)] = block.vectors
            release(matrix)
        arrays.close(matrix)
    return Segment(_kept(arrays, IDS, ids), _kept(arrays, ORDER, order), FlatVectors(matrix), _NONE)


def write_lists(arrays: Arrays, ids: Array, numbers: Array, codes: Codes, quantiser: Quantiser) -> Segment:
    """A segment of inverted lists of rows whose lists are ``numbers`` [n]; within a list they keep their order."""
    by_list = np.argsort(numbers, kind="stable")
    places = np.empty(len(numbers), np.int64)
    places[by_list] = np.arange(len(numbers))
    sizes = np.bincount(numbers, minlength=quantiser.nlist).astype(np.int64)
    layout = Layout(sizes, quantiser.code_size)
    raw = arrays.new(LISTS, (int(layout.offsets[-1]),), np.uint8)
    for start, block in codes():
        write_codes(raw, layout, places[start : start + len(block)], block)
        release(raw)
    write_rows(raw, layout)
    release(raw)
    arrays.close(raw)
    ids = ids[by_list]
    kept = [_kept(arrays, name, array) for name, array in ((IDS, ids), (ORDER, sorted_rows(ids)), (SIZES, sizes))]
    return Segment(kept[0], kept[1], InvertedLists(quantiser, kept[2], raw), _NONE)


def copy_segment(arrays: Arrays, segment: Segment) -> None:
    """Write a segment's arrays, its removed rows apart."""
    _kept(arrays, IDS, segment.ids)
    _kept(arrays, ORDER, segment.order)
    if isinstance(segment.stored, FlatVectors):
        _kept(arrays, VECTORS, segment.stored.matrix)
        return
    _kept(arrays, SIZES, segment.stored.layout.sizes)
    _kept(arrays, LISTS, segment.stored.raw)


def _kept(arrays: Arrays, name: str, array: Array) -> Array:
    kept = arrays.new(name, array.shape, array.dtype)
    kept[:] = array
    arrays.close(kept)
    return kept


def open_segment(folder: Path, count: int, dimension: int, quantiser: Quantiser | None, removed: Array) -> Segment:
    """Map a segment of ``count`` tiles that was written to ``folder``. Raises InputError if a file of it is damaged."""
    ids = open_array(folder / f"{IDS}.npy", "S", (count,))
    order = open_array(folder / f"{ORDER}.npy", np.int64, (count,))
    if quantiser is None:
        matrix = open_array(folder / f"{VECTORS}.npy", np.float32, (count, dimension))
        return Segment(ids, order, FlatVectors(matrix), removed)
    sizes = np.array(open_array(folder / f"{SIZES}.npy", np.int64, (quantiser.nlist,)))
    if sizes.min() < 0 or sizes.sum() != count:
        raise InputError(f"{folder / SIZES}.npy: wanted the sizes of lists of {count} tiles, found {sizes.sum()}")
    layout = Layout(sizes, quantiser.code_size)
    raw = open_array(folder / f"{LISTS}.npy", np.uint8, (int(layout.offsets[-1]),))
    return Segment(ids, order, InvertedLists(quantiser, sizes, raw), removed)
