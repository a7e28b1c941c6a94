"""Where an index's vectors come from, read in blocks: arrays in memory, or folders of embed_tiles in a row."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.mining.index_arrays import BLOCK_BYTES, Array, encode_ids, release
from tilewright.mining.vector_store import VectorStore

_UNIT_TOLERANCE = 1e-2


class Source(Protocol):
    """Vectors of ``dimension`` with their tiles' ids, in a fixed order."""

    dimension: int

    def __len__(self) -> int: ...
    def parts(self) -> Iterator[tuple[Sequence[str], Array]]: ...  # ids, vectors [n, D]


class InMemorySource:
    """One array. Raises InputError unless it is [P, D] with an id for each of at least one vector."""

    def __init__(self, vectors: Array, tile_ids: Sequence[str]) -> None:
        if vectors.ndim != 2 or not vectors.size:
            raise InputError(f"vectors: wanted shape [P, D] with at least one tile, found {list(vectors.shape)}")
        if len(tile_ids) != len(vectors):
            raise InputError(f"{len(tile_ids)} tile ids for {len(vectors)} vectors")
        self.vectors, self.tile_ids = vectors, tile_ids
        self.dimension = vectors.shape[1]

    def __len__(self) -> int:
        return len(self.vectors)

    def parts(self) -> Iterator[tuple[Sequence[str], Array]]:
        """The whole."""
        yield self.tile_ids, self.vectors


class StoreSource:
    """Folders of vectors by one encoder, one after another. Raises InputError if there are none, or they differ."""

    def __init__(self, stores: Sequence[VectorStore]) -> None:
        if not stores:
            raise InputError("vectors: wanted at least one folder of vectors, found none")
        first = stores[0]
        for store in stores[1:]:
            if (store.encoder_hash, store.dimension) != (first.encoder_hash, first.dimension):
                raise InputError(
                    f"{store.folder}: wanted vectors of encoder {first.encoder_hash[:16]}, dimension {first.dimension},"
                    f" as in {first.folder}; found encoder {store.encoder_hash[:16]}, dimension {store.dimension}"
                )
        if not any(map(len, stores)):
            raise InputError(
                f"vectors: wanted at least one tile, found none in {first.folder}: an empty part of a store"
            )
        self._stores, self.dimension, self.encoder_hash = stores, first.dimension, first.encoder_hash

    def __len__(self) -> int:
        return sum(map(len, self._stores))

    def parts(self) -> Iterator[tuple[Sequence[str], Array]]:
        """Every shard of every folder."""
        for store in self._stores:
            yield from store.shards()


@dataclass(frozen=True)
class Block:
    """Vectors [n, D] float32 of unit length of the rows from ``start``, and their tiles' ids."""

    start: int
    ids: Sequence[str]
    vectors: Array


def blocks_of(source: Source) -> Iterator[Block]:
    """The source in blocks of a bounded size. Raises InputError for vectors that aren't of unit length."""
    for start, ids, array in _pieces(source):
        yield Block(start, ids, as_unit(array, ids))


def _pieces(source: Source) -> Iterator[tuple[int, Sequence[str], Array]]:
    """(first row, ids, vectors as they are) of blocks; what was mapped of one is given back with the next."""
    step, start = max(1, BLOCK_BYTES // (4 * source.dimension)), 0
    for ids, array in source.parts():
        for first in range(0, len(array), step):
            yield start + first, ids[first : first + step], array[first : first + step]
            release(array)
        start += len(array)


def as_unit(vectors: Array, tile_ids: Sequence[str]) -> Array:
    """``vectors`` [n, D] as float32; narrower ones at unit length again. Raises InputError if they aren't near it."""
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(array, axis=1)
    bad = np.flatnonzero(~(np.abs(lengths - 1) <= _UNIT_TOLERANCE))
    if len(bad):
        found = f"{tile_ids[bad[0]]}, length {lengths[bad[0]]}"
        raise InputError(f"{len(bad)} vectors aren't of unit length (first: {found})")
    return array / lengths[:, None] if vectors.dtype != np.float32 else array


def sample_of(source: Source, count: int, seed: int) -> tuple[list[str], Array]:
    """Ids and unit vectors [n, D] of at most ``count`` rows drawn by ``seed``, ascending; read in one pass."""
    drawn = np.random.default_rng(seed).choice(len(source), min(count, len(source)), replace=False, shuffle=False)
    drawn.sort()
    ids: list[str] = []
    vectors = np.empty((len(drawn), source.dimension), np.float32)
    for start, names, array in _pieces(source):
        first, end = np.searchsorted(drawn, [start, start + len(array)])
        rows = drawn[first:end] - start
        of_rows = [names[row] for row in rows.tolist()]
        vectors[first:end] = as_unit(array[rows], of_rows)
        ids += of_rows
    return ids, vectors


def all_ids(source: Source) -> Array:
    """The ids of all rows, as bytes."""
    return np.concatenate([encode_ids(ids) for ids, _ in source.parts()])
