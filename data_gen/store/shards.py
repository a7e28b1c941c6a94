"""Writing the shards of a tile store: rows cut into batches and files by size alone."""

from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tilewright.configs.errors import InputError
from tilewright.data_gen.store.rows import IMAGE, check_tile_id, tile_schema
from tilewright.data_gen.store.state import Shard, sync_file

SHARD_BYTES = 256 << 20
BATCH_BYTES = 16 << 20
BATCH_ROWS = 4096
_WORD_BYTES = 64  # about what a word takes in a batch


class Batches:
    """Cuts a stream of record batches anew, by size: the result depends on the rows, not on how they came."""

    def __init__(self) -> None:
        self._pieces: list[pa.RecordBatch] = []
        self._size = self._rows = 0

    def push(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Take rows; give every batch that is full with them."""
        start, ends = 0, np.cumsum(_row_bytes(batch))
        while start < len(batch):
            done = int(ends[start - 1]) if start else 0
            full = int(np.searchsorted(ends, BATCH_BYTES - self._size + done)) + 1  # with the row that fills it
            stop = min(full, start + BATCH_ROWS - self._rows, len(batch))
            self._pieces.append(batch.slice(start, stop - start))
            self._size += int(ends[stop - 1]) - done
            self._rows += stop - start
            start = stop
            if self._size >= BATCH_BYTES or self._rows >= BATCH_ROWS:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """The rows that have gathered, if there are any."""
        if self._pieces:
            yield pa.concat_batches(self._pieces)  # copies: a slice alone would be written with its neighbours' bits
        self._pieces, self._size, self._rows = [], 0, 0


def _row_bytes(batch: pa.RecordBatch) -> np.ndarray[Any, Any]:
    """About how many bytes each row takes [rows]."""
    images = pc.binary_length(pc.struct_field(batch.column(IMAGE), "bytes"))
    words = pc.list_value_length(batch.column("words"))
    parts = (images, pc.binary_length(batch.column("text")))
    sizes = sum(pc.fill_null(part, 0).to_numpy(zero_copy_only=False).astype(np.int64) for part in parts)
    return np.asarray(sizes + _WORD_BYTES * pc.fill_null(words, 0).to_numpy(zero_copy_only=False).astype(np.int64))


class ShardWriter:
    """Writes rows as numbered shards of about ``shard_bytes``, each renamed to its name when it is whole."""

    def __init__(self, folder: Path, number: int, shard_bytes: int) -> None:
        self.shards: list[Shard] = []
        self.number = number
        self._folder, self._shard_bytes = folder, shard_bytes
        self._batches = Batches()
        self._file: Any = None
        self._out: Any = None
        self._rows = 0

    def write(self, batch: pa.RecordBatch) -> bool:
        """Take rows; True if a shard was finished with them."""
        before = len(self.shards)
        for full in self._batches.push(batch):
            self._append(full)
        return len(self.shards) > before

    def close(self) -> None:
        """Finish the last shard."""
        for rest in self._batches.flush():
            self._append(rest)
        if self._out is not None:
            self._finish()

    def close_or_write_empty(self) -> None:
        """Finish the last shard; a store without rows gets a shard without rows, so that it can be read."""
        self.close()
        if not self.shards:
            self._start()
            self._finish()

    def abandon(self) -> None:
        """Forget what isn't in a finished shard."""
        if self._out is not None:
            self._out.close()
            self._file.close()
            (self._folder / f"{self._name}.tmp").unlink(missing_ok=True)
        self._out, self._rows, self._batches = None, 0, Batches()

    @property
    def _name(self) -> str:
        return shard_name(self.number)

    def _start(self) -> None:
        self._file = pa.OSFile(str(self._folder / f"{self._name}.tmp"), "wb")
        self._out = pa.ipc.new_stream(self._file, tile_schema())

    def _append(self, batch: pa.RecordBatch) -> None:
        if self._out is None:
            self._start()
        self._out.write_batch(batch)
        self._rows += len(batch)
        if self._file.tell() >= self._shard_bytes:
            self._finish()

    def _finish(self) -> None:
        self._out.close()
        self._file.close()
        temporary = self._folder / f"{self._name}.tmp"
        sync_file(temporary)
        size_bytes = temporary.stat().st_size
        temporary.replace(self._folder / self._name)
        self.shards.append(Shard(self._name, self._rows, size_bytes))
        self.number += 1
        self._out, self._rows = None, 0


class Ascending:
    """Checks that ids come in ascending order, each once, over any number of batches."""

    def __init__(self, last: str = "") -> None:
        self.last = last

    def check(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """``batch`` itself. Raises InputError for an id of another form or page, out of order or given twice."""
        ids = (batch.column(name).to_pylist() for name in ("tile_id", "page_id"))
        for tile_id, page_id in zip(*ids, strict=True):
            check_tile_id(tile_id, page_id)
            if tile_id <= self.last:
                raise InputError(f"tile_id {tile_id!r} after {self.last!r}: wanted ascending ids, each once")
            self.last = tile_id
        return batch


def shard_name(number: int) -> str:
    """``data-{number:05d}.arrow``."""
    return f"data-{number:05d}.arrow"


def check_batches(batches: Iterable[pa.RecordBatch], ascending: Ascending) -> Iterator[pa.RecordBatch]:
    """``batches``, their ids checked."""
    for batch in batches:
        yield ascending.check(batch)
