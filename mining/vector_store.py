"""Vectors of tiles on disk, at any number: shards of a bounded size, memory-mapped; nothing is read as a whole.

A folder holds ``vectors-00000.npy`` [n, D] and so on, beside each a ``vectors-00000.arrow`` (an Arrow file: tile_id,
image_sha256) in the same order, and ``vectors.json``, written last: dimension, dtype, encoder hash, what the model
computed in, and of every shard its number of tiles and the size and SHA-256 of both files. At 30 M tiles of 2,048
dimensions: 123 GB in float16.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import pyarrow as pa

from tilewright.configs.errors import InputError
from tilewright.configs.manifest import digest_file
from tilewright.data_gen.records import from_json
from tilewright.mining.index_arrays import Array, open_array

INDEX = "vectors.json"
Dtype = Literal["float32", "float16"]
FORMAT = "tilewright vectors 1"
_SHARDS_OPEN = 256
SCHEMA = pa.schema([("tile_id", pa.string()), ("image_sha256", pa.binary(32))])


@dataclass(frozen=True)
class VectorShard:
    """How many tiles a shard has; the size and SHA-256 of its vectors and of its ids."""

    tiles: int
    vectors_bytes: int
    vectors_sha256: str
    ids_bytes: int
    ids_sha256: str


@dataclass(frozen=True)
class StoreIndex:
    """``vectors.json``."""

    format: str
    dimension: int
    dtype: str
    encoder_hash: str
    model_dtype: str
    tiles: int
    shards: tuple[VectorShard, ...]


def shard_names(number: int) -> tuple[str, str]:
    """The file names of a shard's vectors and ids."""
    return f"vectors-{number:05d}.npy", f"vectors-{number:05d}.arrow"


class VectorStore:
    """Vectors by row, with the id and the image's SHA-256 of each row's tile. Made by ``open``; read-only."""

    def __init__(self, folder: Path, index: StoreIndex) -> None:
        self.folder = folder
        self.dimension, self.dtype = index.dimension, index.dtype
        self.encoder_hash, self.model_dtype = index.encoder_hash, index.model_dtype
        self._shards = index.shards
        self._starts = [0, *accumulate(shard.tiles for shard in index.shards)]
        self._vectors = lru_cache(_SHARDS_OPEN)(self._open_vectors)
        self._table = lru_cache(_SHARDS_OPEN)(self._open_table)
        self.tile_ids: Sequence[str] = _Column(self, "tile_id")

    @classmethod
    def open(cls, folder: Path) -> "VectorStore":
        """Open a folder of vectors. Raises InputError if it isn't one, or a file of it is gone or cut short."""
        try:
            data = json.loads((folder / INDEX).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise InputError(f"{folder}: not a folder of vectors ({INDEX}: {error}); run embed_tiles") from error
        index = from_json(StoreIndex, data, str(folder / INDEX))
        if index.format != FORMAT or index.dimension < 1 or index.dtype not in ("float32", "float16"):
            raise InputError(f"{folder / INDEX}: wanted {FORMAT!r}, found {index.format!r}; run embed_tiles again")
        if index.tiles != sum(shard.tiles for shard in index.shards):
            raise InputError(f"{folder / INDEX}: wanted shards with {index.tiles} tiles, found {len(index.shards)}")
        for number, shard in enumerate(index.shards):
            for name, size in zip(shard_names(number), (shard.vectors_bytes, shard.ids_bytes), strict=True):
                _check_size(folder / name, size)
        return cls(folder, index)

    def __reduce__(self) -> tuple[Any, ...]:
        return VectorStore.open, (self.folder,)

    def __len__(self) -> int:
        return self._starts[-1]

    def shards(self) -> Iterator[tuple[Sequence[str], Array]]:
        """(ids, mapped vectors [n, D] in ``dtype``) of every shard, in order."""
        for number in range(len(self._shards)):
            yield self._table(number).column("tile_id").to_pylist(), self._vectors(number)

    def rows(self, numbers: Array | Sequence[int]) -> Array:
        """Vectors [n, D] float32 of the rows ``numbers`` [n], in their order. Raises IndexError beyond the store."""
        wanted = np.asarray(numbers, np.int64)
        if len(wanted) and not 0 <= wanted.min() <= wanted.max() < len(self):
            raise IndexError(f"{self.folder}: wanted rows 0 to {len(self) - 1}, found {wanted.min()}, {wanted.max()}")
        found = np.empty((len(wanted), self.dimension), np.float32)
        places = np.searchsorted(self._starts, wanted, side="right") - 1
        for number in np.unique(places).tolist():
            of_shard = places == number
            found[of_shard] = self._vectors(number)[wanted[of_shard] - self._starts[number]]
        return found

    def image_hashes(self) -> Sequence[str]:
        """The SHA-256 of every row's image, 64 hex characters."""
        return _Column(self, "image_sha256")

    def image_digests(self) -> Iterator[Array]:
        """The same of every shard as bytes [n], numpy's S32, mapped."""
        for number in range(len(self._shards)):
            yield np.frombuffer(_fixed_bytes(self._table(number).column("image_sha256")), "S32")

    def verify(self) -> None:
        """Read everything; raise InputError if a file isn't the one that was written."""
        for number, shard in enumerate(self._shards):
            for name, digest in zip(shard_names(number), (shard.vectors_sha256, shard.ids_sha256), strict=True):
                if digest_file(self.folder / name) != digest:
                    raise InputError(f"{self.folder / name}: changed since it was written; run embed_tiles again")

    def _open_vectors(self, number: int) -> Array:
        shape = (self._shards[number].tiles, self.dimension)
        return open_array(self.folder / shard_names(number)[0], np.dtype(self.dtype), shape)

    def _open_table(self, number: int) -> pa.RecordBatch:
        path, count = self.folder / shard_names(number)[1], self._shards[number].tiles
        try:
            with pa.memory_map(str(path)) as file:
                batch = pa.ipc.open_file(file).get_batch(0)
            batch.validate(full=True)
        except (OSError, ValueError, pa.ArrowException) as error:
            raise InputError(f"{path}: not a readable table of ids ({error}); run embed_tiles again") from error
        if batch.schema != SCHEMA or len(batch) != count or any(column.null_count for column in batch.columns):
            raise InputError(f"{path}: wanted {count} rows of tile_id and image_sha256, found {len(batch)} rows")
        return batch


class _Column(Sequence[str]):
    """A column of all shards' tables as text, read where it is asked for."""

    def __init__(self, store: VectorStore, name: str) -> None:
        self._store, self._name = store, name

    def __len__(self) -> int:
        return len(self._store)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = range(len(self))[index]
        number = bisect_right(self._store._starts, row) - 1
        column = self._store._table(number).column(self._name)
        return _text(column[row - self._store._starts[number]].as_py())

    def __iter__(self) -> Iterator[str]:
        for number in range(len(self._store._shards)):
            yield from map(_text, self._store._table(number).column(self._name).to_pylist())


def _text(value: str | bytes) -> str:
    return value.hex() if isinstance(value, bytes) else value


def _fixed_bytes(column: pa.Array) -> Any:
    """The bytes of a column of fixed width, not copied."""
    width = column.type.byte_width
    return memoryview(column.buffers()[1])[column.offset * width : (column.offset + len(column)) * width]


def _check_size(path: Path, size: int) -> None:
    found = path.stat().st_size if path.is_file() else None
    if found != size:
        what = "nothing" if found is None else f"{found}"
        raise InputError(f"{path}: wanted {size} bytes, found {what}: damaged; run embed_tiles again")
