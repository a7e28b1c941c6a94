"""Writing a store of vectors (``vector_store``) shard by shard; the bytes depend on the vectors alone."""

import dataclasses
import hashlib
import io
import json
import os
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa

from tilewright.configs.errors import InputError
from tilewright.configs.stage import write_atomically
from tilewright.mining.index_arrays import Array
from tilewright.mining.vector_store import (
    FORMAT,
    INDEX,
    SCHEMA,
    Dtype,
    StoreIndex,
    VectorShard,
    VectorStore,
    shard_names,
)

SHARD_BYTES = 256 << 20


class VectorWriter:
    """Writes ``tiles`` vectors into ``folder``, as many to a shard as fit ``shard_bytes`` (at least one)."""

    def __init__(
        self,
        folder: Path,
        *,
        tiles: int,
        dimension: int,
        dtype: Dtype,
        encoder_hash: str,
        model_dtype: str = "float32",
        shard_bytes: int = SHARD_BYTES,
    ) -> None:
        self.folder = folder
        self._tiles, self._dimension, self._dtype = tiles, dimension, dtype
        self._encoder_hash, self._model_dtype = encoder_hash, model_dtype
        self._rows = max(1, shard_bytes // (dimension * np.dtype(dtype).itemsize))

    def ranges(self) -> list[range]:
        """The rows of every shard."""
        return [range(start, min(start + self._rows, self._tiles)) for start in range(0, self._tiles, self._rows)]

    def write_shard(
        self, number: int, tile_ids: Sequence[str], image_hashes: Sequence[str], vectors: Iterable[Array]
    ) -> VectorShard:
        """Write shard ``number``: as many ids and hashes (64 hex) as its range has rows, ``vectors`` in pieces [n, D].

        Raises InputError for a hash of another form, ValueError for another number of rows.
        """
        names, rows = shard_names(number), len(self.ranges()[number])
        if len(tile_ids) != rows:
            raise ValueError(f"{names[1]}: wanted {rows} tiles, found {len(tile_ids)}")
        table = pa.record_batch([pa.array(tile_ids, pa.string()), _digests(tile_ids, image_hashes)], schema=SCHEMA)
        buffer = io.BytesIO()
        with pa.ipc.new_file(buffer, SCHEMA) as out:
            out.write_batch(table)
        written = write_whole(self.folder / names[0], self._array_file(names[0], rows, vectors))
        return VectorShard(rows, *written, *write_whole(self.folder / names[1], [buffer.getbuffer()]))

    def _array_file(self, name: str, rows: int, vectors: Iterable[Array]) -> Iterator[bytes]:
        """The bytes of a .npy file."""
        header, count = io.BytesIO(), 0
        descr = np.lib.format.dtype_to_descr(np.dtype(self._dtype))
        entries = {"descr": descr, "fortran_order": False, "shape": (rows, self._dimension)}
        np.lib.format.write_array_header_1_0(header, entries)
        yield header.getvalue()
        for piece in vectors:
            if piece.ndim != 2 or piece.shape[1] != self._dimension:
                raise ValueError(f"{name}: wanted pieces [n, {self._dimension}], found {list(piece.shape)}")
            yield piece.astype(self._dtype).tobytes()
            count += len(piece)
        if count != rows:
            raise ValueError(f"{name}: wanted {rows} vectors, found {count}")

    def finish(self, shards: Sequence[VectorShard]) -> VectorStore:
        """Write ``vectors.json``, which makes the folder a store, and open it."""
        space = (self._encoder_hash, self._model_dtype)
        index = StoreIndex(FORMAT, self._dimension, self._dtype, *space, self._tiles, tuple(shards))
        write_atomically(self.folder / INDEX, json.dumps(dataclasses.asdict(index), indent=1) + "\n")
        return VectorStore.open(self.folder)


def write_vector_store(
    folder: Path,
    tile_ids: Sequence[str],
    image_hashes: Sequence[str],
    vectors: Array,
    *,
    encoder_hash: str,
    dtype: Dtype = "float32",
    shard_bytes: int = SHARD_BYTES,
) -> VectorStore:
    """Write ``vectors`` [P, D] with their ids and image hashes as a store. Raises as ``VectorWriter.write_shard``."""
    if not len(tile_ids) == len(image_hashes) == len(vectors):
        raise ValueError(f"{len(tile_ids)} tile ids and {len(image_hashes)} hashes for {len(vectors)} vectors")
    folder.mkdir(parents=True, exist_ok=True)
    dimension = vectors.shape[1]
    writer = VectorWriter(
        folder,
        tiles=len(vectors),
        dimension=dimension,
        dtype=dtype,
        encoder_hash=encoder_hash,
        shard_bytes=shard_bytes,
    )
    shards = []
    for number, rows in enumerate(writer.ranges()):
        part = slice(rows.start, rows.stop)
        shards.append(writer.write_shard(number, tile_ids[part], image_hashes[part], [vectors[part]]))
    return writer.finish(shards)


def write_whole(path: Path, pieces: Iterable[bytes | memoryview]) -> tuple[int, str]:
    """Write a file that has its name only once all of it is on the disk; return its size and SHA-256."""
    temporary = path.with_name(f".{path.name}.tmp")
    size, digest = 0, hashlib.sha256()
    with temporary.open("wb") as file:
        for piece in pieces:
            file.write(piece)
            digest.update(piece)
            size += len(piece)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return size, digest.hexdigest()


def _digests(tile_ids: Sequence[str], image_hashes: Sequence[str]) -> pa.Array:
    digests = []
    for tile_id, text in zip(tile_ids, image_hashes, strict=True):
        try:
            digests.append(bytes.fromhex(text))
        except ValueError:
            digests.append(b"")
        if len(digests[-1]) != 32:
            raise InputError(f"tile {tile_id}: image_sha256: wanted 64 hex characters, found {text!r}")
    return pa.array(digests, pa.binary(32))
