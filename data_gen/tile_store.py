"""The tile store: a folder of Hugging Face ``datasets`` Arrow shards with the encoded images inside.

``datasets.load_from_disk(folder)`` opens it, a hub shows its pictures. A sorted array of ids (``tile_ids.npy``) is
mapped beside the shards, so a tile is found in O(log P); a shard is mapped when a tile of it is first read, so opening
takes the same time and memory at any size.
"""

import shutil
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from pathlib import Path
from typing import Any, Self

import numpy as np
import pyarrow as pa
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image, image_sha256
from tilewright.data_gen.records import Tile
from tilewright.data_gen.store.ids import TileIds, map_array
from tilewright.data_gen.store.rows import (
    COLUMNS,
    EVIDENCE_KINDS,
    ID_WIDTH,
    IMAGE,
    TILE_ID,
    read_batches,
    read_tiles,
    to_batches,
    to_tile,
    without_images,
    write_tiles,
)
from tilewright.data_gen.store.shards import SHARD_BYTES, Ascending, ShardWriter, check_batches
from tilewright.data_gen.store.state import STATE, StoreState, publish_state, read_state, write_state

__all__ = [
    "EVIDENCE_KINDS",
    "TILE_ID",
    "TileIds",
    "TileStore",
    "decode_image",
    "image_sha256",
    "read_tiles",
    "write_store",
    "write_tiles",
]

_LIGHT = [name for name in COLUMNS if name != IMAGE]
_SHARDS_OPEN = 256
_ROWS_AT_ONCE = 16
_RANKS_AT_ONCE = 65_536


def write_store(
    folder: Path, tiles: "Iterable[Tile] | TileStore", shard_bytes: int = SHARD_BYTES, *, keep_images: bool = True
) -> int:
    """Write ``tiles``, sorted by ``tile_id``, as the store ``folder`` (replacing it); return how many there are.

    A shard is closed at about ``shard_bytes``. The bytes written depend on the tiles alone. ``keep_images=False``
    leaves the pictures out: such a tile has its hash and size only. Raises InputError for an id of another form, out
    of order or given twice.
    """
    batches = batches_of(tiles)
    return write_store_of(folder, batches if keep_images else map(without_images, batches), shard_bytes)


def write_store_of(folder: Path, batches: Iterable[pa.RecordBatch], shard_bytes: int = SHARD_BYTES) -> int:
    """``write_store`` of rows; how they are cut into ``batches`` doesn't matter."""
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    writer = ShardWriter(temporary, 0, shard_bytes)
    for batch in check_batches(batches, Ascending()):
        writer.write(batch)
    writer.close_or_write_empty()
    publish_state(temporary, write_state(temporary, writer.shards, writer.number))
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    return sum(shard.rows for shard in writer.shards)


def batches_of(tiles: "Iterable[Tile] | TileStore") -> Iterator[pa.RecordBatch]:
    """The rows of ``tiles`` as record batches; those of a store are taken as they are."""
    return tiles.slices() if isinstance(tiles, TileStore) else to_batches(tiles)


@dataclass(frozen=True)
class _OpenShard:
    """A mapped shard: its batches, and the row that each starts at."""

    batches: list[pa.RecordBatch]
    starts: list[int]


class TileStore:
    """Tiles on disk by id, read-only and memory-mapped. Make one with ``TileStore.open``; it can be pickled.

    ``tile_ids`` and every iteration are in ascending order of id, also where an edit left the rows in another order.
    """

    def __init__(self, folder: Path, state: StoreState, tile_ids: TileIds, rows: np.ndarray[Any, Any] | None) -> None:
        self.folder = folder
        self.tile_ids = tile_ids
        self.state = state
        self._rows = rows
        self._starts = [0, *accumulate(shard.rows for shard in state.shards)]
        self._shard = lru_cache(_SHARDS_OPEN)(self._open_shard)

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a store, or the store of a render stage's output folder. Raises InputError if there's none."""
        place = store_place(folder)
        state = read_state(place)
        count = sum(shard.rows for shard in state.shards)
        ids = map_array(place / state.ids, count, f"|S{ID_WIDTH}")
        rows = None if state.rows is None else map_array(place / state.rows, count, "<i8")
        return cls(place, state, TileIds(ids), rows)

    def __reduce__(self) -> tuple[Any, ...]:
        return TileStore.open, (self.folder,)

    def __len__(self) -> int:
        return len(self.tile_ids)

    def __contains__(self, tile_id: object) -> bool:
        return tile_id in self.tile_ids

    def __iter__(self) -> Iterator[Tile]:
        for batch in self.slices():
            for start in range(0, len(batch), _ROWS_AT_ONCE):
                yield from map(to_tile, batch.slice(start, _ROWS_AT_ONCE).to_pylist())

    def iterate_light(self) -> Iterator[Tile]:
        """All tiles with ``image=b""``; the image column isn't read."""
        for batch in self.slices():
            light = batch.select(_LIGHT)
            for start in range(0, len(light), _ROWS_AT_ONCE):
                yield from (to_tile(row | {IMAGE: None}) for row in light.slice(start, _ROWS_AT_ONCE).to_pylist())

    def slices(self) -> Iterator[pa.RecordBatch]:
        """All rows in ascending order of id, as slices of the mapped record batches: nothing is copied."""
        for first in range(0, len(self), _RANKS_AT_ONCE):
            ranks = np.arange(first, min(first + _RANKS_AT_ONCE, len(self)))
            rows = ranks if self._rows is None else self._rows[ranks]
            ends = [*(np.flatnonzero(np.diff(rows) != 1) + 1).tolist(), len(rows)]
            for start, end in zip([0, *ends], ends, strict=False):
                yield from self._run(int(rows[start]), end - start)

    def page_slices(self) -> Iterator[tuple[str, pa.RecordBatch]]:
        """(page_id, some of its rows) in ascending order of id, as ``slices``."""
        for batch in self.slices():
            pages = np.array(batch.column("page_id").to_pylist())
            ends = [*(np.flatnonzero(pages[1:] != pages[:-1]) + 1).tolist(), len(pages)]
            for start, end in zip([0, *ends], ends, strict=False):
                yield str(pages[start]), batch.slice(start, end - start)

    def get(self, tile_id: str) -> Tile:
        """The tile ``tile_id``. Raises InputError if the store has none."""
        batch, row = self._find(tile_id)
        return to_tile(batch.slice(row, 1).to_pylist()[0])

    def light(self, tile_id: str) -> Tile:
        """The tile ``tile_id`` with ``image=b""``; its image isn't read."""
        batch, row = self._find(tile_id)
        return to_tile(batch.select(_LIGHT).slice(row, 1).to_pylist()[0] | {IMAGE: None})

    def size_px(self, tile_id: str) -> tuple[int, int]:
        """Width and height of a tile; nothing else of it is read. Raises InputError if the store has none."""
        batch, row = self._find(tile_id)
        return batch.column("width_px")[row].as_py(), batch.column("height_px")[row].as_py()

    def image_digest(self, tile_id: str) -> str:
        """``image_sha256`` of a tile; nothing else of it is read. Raises InputError if the store has none."""
        batch, row = self._find(tile_id)
        digest: str = batch.column("image_sha256")[row].as_py()
        return digest

    def encoded_image(self, tile_id: str) -> bytes:
        """The encoded image of a tile, b"" if the store was written without. Raises InputError for an unknown id."""
        batch, row = self._find(tile_id)
        return batch.column(IMAGE).field("bytes")[row].as_py() or b""

    def has_image(self, tile_id: str) -> bool:
        """Whether the store holds a tile's image, which isn't read. Raises InputError for an unknown id."""
        batch, row = self._find(tile_id)
        data = batch.column(IMAGE).field("bytes")[row]
        return bool(data.is_valid) and data.as_buffer().size > 0

    def image(self, tile_id: str) -> Image.Image:
        """RGB image of a tile, transparent parts over white.

        Raises InputError for an unknown id, a broken image, and a tile whose image was left out.
        """
        data = self.encoded_image(tile_id)
        if not data:
            raise InputError(
                f"{self.folder}: tile {tile_id} was stored without its image: `tilewright tiles render` makes it"
                " again from its page"
            )
        try:
            return decode_image(data)
        except InputError as error:
            raise InputError(f"{self.folder}: tile {tile_id}: {error}") from error

    def rows_of(self, places: Sequence[int]) -> np.ndarray[Any, Any]:
        """The rows, in the order of shards, that hold the ids at these places."""
        chosen = np.asarray(places, np.int64)
        return chosen if self._rows is None else self._rows[chosen]

    def shard_batches(self, number: int) -> list[pa.RecordBatch]:
        """The mapped record batches of a shard, as they stand."""
        return self._shard(number).batches

    def _find(self, tile_id: str) -> tuple[pa.RecordBatch, int]:
        """A mapped batch and the row in it that holds a tile."""
        place = self.tile_ids.position(tile_id)
        if place is None:
            raise InputError(f"{self.folder}: no tile {tile_id!r} among its {len(self)} tiles")
        batch, row = self._locate(place if self._rows is None else int(self._rows[place]))
        if batch.column("tile_id")[row].as_py() != tile_id:
            raise InputError(f"{self.folder}: tile {tile_id} isn't in its place: was the store changed? Open it again")
        return batch, row

    def _run(self, row: int, count: int) -> Iterator[pa.RecordBatch]:
        """``count`` consecutive rows from ``row`` on."""
        while count > 0:
            batch, start = self._locate(row)
            piece = batch.slice(start, count)
            yield piece
            row, count = row + len(piece), count - len(piece)

    def _locate(self, row: int) -> tuple[pa.RecordBatch, int]:
        number = bisect_right(self._starts, row) - 1
        shard = self._shard(number)
        row -= self._starts[number]
        batch = bisect_right(shard.starts, row) - 1
        return shard.batches[batch], row - shard.starts[batch]

    def _open_shard(self, number: int) -> _OpenShard:
        shard = self.state.shards[number]
        batches = [batch for batch in read_batches(self.folder / shard.name) if len(batch)]
        starts = [0, *accumulate(map(len, batches))]
        if starts[-1] != shard.rows:
            raise InputError(f"{self.folder / shard.name}: wanted {shard.rows} tiles, found {starts[-1]}")
        return _OpenShard(batches, starts[:-1])


def store_place(folder: Path) -> Path:
    """``folder`` or its ``store``, whichever is a tile store. Raises InputError if neither is."""
    place = next((path for path in (folder, folder / "store") if (path / STATE).is_file()), None)
    if place is None:
        raise InputError(f"{folder}: wanted a tile store ({STATE} or store/{STATE} in it): run render_tiles first")
    return place
