"""The tile store: a folder of Hugging Face ``datasets`` Arrow shards with the encoded images inside.

``datasets.load_from_disk(folder)`` opens it, a hub shows its pictures. Rows are sorted by ``tile_id``; a sorted array
of ids (``tile_ids.npy``) is mapped beside them, so a tile is found in O(log P) and nothing is loaded at opening.
"""

import dataclasses
import json
import re
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Self, overload

import datasets
import numpy as np
import pyarrow as pa
from datasets import Features, List, Value
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image, image_sha256
from tilewright.data_gen.records import Block, Link, Tile, Word

__all__ = ["EVIDENCE_KINDS", "TILE_ID", "TileStore", "decode_image", "image_sha256", "write_store"]

TILE_ID = re.compile(r"[0-9a-f]{16}-[0-9]{4,}-[0-9]{2,}")
EVIDENCE_KINDS = ("infobox", "table", "list", "paragraph")
IDS = "tile_ids.npy"
STATE, INFO = "state.json", "dataset_info.json"  # the names `datasets` gives them
_ID_WIDTH = 28  # 16 hex, two dashes, ten digits of row and column
_BATCH_BYTES = 16 << 20


def _features() -> Features:
    box = {name: Value("float64") for name in ("x_px", "y_px", "width_px", "height_px")}
    texts = {name: Value("string") for name in ("tile_id", "page_id", "url", "title")}
    places = {name: Value("int32") for name in ("row", "column", "x_px", "y_px", "width_px", "height_px")}
    block: dict[str, Any] = {"kind": Value("string"), "text": Value("string")}
    block |= {"cells": List(Value("string")), "labels": List(Value("string"))}
    block |= {"section": Value("string"), "caption": Value("string"), "whole": Value("bool")}
    return Features(
        texts
        | places
        | {"image": datasets.Image(), "image_sha256": Value("string"), "text": Value("string")}
        | {"evidence_px": {kind: Value("int64") for kind in EVIDENCE_KINDS}}
        | {"words": List({"text": Value("string")} | box | {"block": Value("int32")}), "blocks": List(block | box)}
        | {"links": List({"href": Value("string"), "anchor": Value("string")} | box)}
    )


def write_store(folder: Path, tiles: Iterable[Tile], shard_bytes: int = 256 << 20) -> int:
    """Write ``tiles``, sorted by ``tile_id``, as the store ``folder`` (replacing it); return how many there are.

    A shard is closed at about ``shard_bytes``. The bytes written depend on the tiles alone. Raises InputError for an
    id of another form, out of order or given twice.
    """
    temporary = folder.with_name(f".{folder.name}.tmp")
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    ids = bytearray()
    shards: list[str] = []
    features = _features()
    stream = iter(_batches(tiles, ids, features.arrow_schema))
    batch = next(stream, None)
    while batch is not None or not shards:
        shards.append(f"data-{len(shards):05d}.arrow")
        written = 0
        with (
            pa.OSFile(str(temporary / shards[-1]), "wb") as file,
            pa.ipc.new_stream(file, features.arrow_schema) as out,
        ):
            while batch is not None and written < shard_bytes:
                out.write_batch(batch)
                written += batch.nbytes
                batch = next(stream, None)
    count = len(ids) // _ID_WIDTH
    np.save(temporary / IDS, np.frombuffer(bytes(ids), dtype=f"S{_ID_WIDTH}"))
    _write_json(temporary / STATE, _state(shards))
    _write_json(temporary / INFO, {"citation": "", "description": "", "features": features.to_dict(), "license": ""})
    shutil.rmtree(folder, ignore_errors=True)
    temporary.rename(folder)
    return count


def write_tiles(path: Path, tiles: Sequence[Tile]) -> None:
    """Write a few tiles as one Arrow file, atomically; the working format of stages that gather a store."""
    schema = _features().arrow_schema
    temporary = path.with_name(f"{path.name}.tmp")
    with pa.OSFile(str(temporary), "wb") as file, pa.ipc.new_stream(file, schema) as out:
        for batch in _batches(tiles, bytearray(), schema):
            out.write_batch(batch)
    temporary.replace(path)


def read_tiles(path: Path) -> Iterator[Tile]:
    """The tiles of a ``write_tiles`` file."""
    with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:
        for batch in stream:
            yield from (_from_row(row) for row in batch.to_pylist())


def _batches(tiles: Iterable[Tile], ids: bytearray, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Record batches of about _BATCH_BYTES of images; appends each id, checked, to ``ids``."""
    rows: list[dict[str, Any]] = []
    size, last = 0, ""
    for tile in tiles:
        if not TILE_ID.fullmatch(tile.tile_id) or len(tile.tile_id) > _ID_WIDTH:
            raise InputError(f"tile_id {tile.tile_id!r}: wanted {{16 hex}}-{{row}}-{{column}}")
        if tile.tile_id <= last:
            raise InputError(f"tile_id {tile.tile_id!r} after {last!r}: wanted ascending ids, each once")
        last = tile.tile_id
        ids += tile.tile_id.encode().ljust(_ID_WIDTH, b"\0")
        rows.append(_to_row(tile))
        size += len(tile.image)
        if size >= _BATCH_BYTES:
            yield pa.RecordBatch.from_pylist(rows, schema=schema)
            rows, size = [], 0
    if rows:
        yield pa.RecordBatch.from_pylist(rows, schema=schema)


def _to_row(tile: Tile) -> dict[str, Any]:
    if tile.evidence_px.keys() != set(EVIDENCE_KINDS):
        raise InputError(
            f"tile {tile.tile_id}: evidence_px: wanted {list(EVIDENCE_KINDS)}, found {list(tile.evidence_px)}"
        )
    return dataclasses.asdict(tile) | {"image": {"bytes": tile.image, "path": None}}


def _from_row(row: dict[str, Any]) -> Tile:
    image = row.get("image") or {"bytes": b""}
    blocks = tuple(
        Block(**(block | {"cells": tuple(block["cells"]), "labels": tuple(block["labels"])})) for block in row["blocks"]
    )
    nested = {
        "words": tuple(Word(**word) for word in row["words"]),
        "links": tuple(Link(**link) for link in row["links"]),
    }
    return Tile(**(row | nested | {"image": image["bytes"], "blocks": blocks}))


def _state(shards: Sequence[str]) -> dict[str, Any]:
    """What ``datasets.load_from_disk`` wants to know, with a constant fingerprint: bytes depend on tiles alone."""
    formats: dict[str, Any] = {
        "_format_columns": None,
        "_format_kwargs": {},
        "_format_type": None,
        "_output_all_columns": False,
    }
    return {
        "_data_files": [{"filename": name} for name in shards],
        "_fingerprint": "tilewright",
        "_split": None,
    } | formats


def _write_json(path: Path, data: dict[str, Any]) -> None:
    path.write_text(json.dumps(data, indent=1, sort_keys=True) + "\n", encoding="utf-8")


class TileIds(Sequence[str]):
    """The sorted ids of a store, memory-mapped; ``position`` finds one in O(log P)."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [item.decode() for item in self._array[index].tolist()]
        return bytes(self._array[index]).decode()

    def __iter__(self) -> Iterator[str]:
        return (bytes(item).decode() for item in self._array)

    def __contains__(self, tile_id: object) -> bool:
        return isinstance(tile_id, str) and self.position(tile_id) is not None

    def position(self, tile_id: str) -> int | None:
        """The row of ``tile_id``, None if there's no such tile."""
        wanted = tile_id.encode("utf-8", "replace")
        row = int(np.searchsorted(self._array, np.bytes_(wanted)))
        return row if row < len(self._array) and bytes(self._array[row]) == wanted else None


class TileStore:
    """Tiles on disk by id, read-only and memory-mapped. Make one with ``TileStore.open``; it can be pickled."""

    def __init__(self, folder: Path, dataset: datasets.Dataset, tile_ids: TileIds) -> None:
        self.folder = folder
        self.tile_ids = tile_ids
        self._rows = dataset.cast_column("image", datasets.Image(decode=False))
        self._light = dataset.remove_columns("image")
        self._images = self._rows.select_columns(["image"])
        self._sizes = self._rows.select_columns(["width_px", "height_px"])

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a store, or the store of a render stage's output folder. Raises InputError if there's none."""
        place = next((path for path in (folder, folder / "store") if (path / STATE).is_file()), None)
        if place is None:
            raise InputError(f"{folder}: wanted a tile store ({STATE} or store/{STATE} in it): run render_tiles first")
        try:
            dataset = datasets.load_from_disk(str(place), keep_in_memory=False)
            array = np.load(place / IDS, mmap_mode="r" if len(dataset) else None)
        except (OSError, ValueError, KeyError, pa.ArrowInvalid) as error:
            raise InputError(f"{place}: not a readable tile store ({error}); run render_tiles again") from error
        if len(array) != len(dataset):
            raise InputError(f"{place}: {IDS} has {len(array)} ids for {len(dataset)} tiles; run render_tiles again")
        return cls(place, dataset, TileIds(array))

    def __reduce__(self) -> tuple[Any, ...]:
        return TileStore.open, (self.folder,)

    def __len__(self) -> int:
        return len(self.tile_ids)

    def __contains__(self, tile_id: object) -> bool:
        return tile_id in self.tile_ids

    def __iter__(self) -> Iterator[Tile]:
        return (_from_row(row) for row in self._rows)

    def iterate_light(self) -> Iterator[Tile]:
        """All tiles with ``image=b""``; the image column isn't read."""
        return (_from_row(row) for row in self._light)

    def get(self, tile_id: str) -> Tile:
        """The tile ``tile_id``. Raises InputError if the store has none."""
        return _from_row(self._rows[self._position(tile_id)])

    def light(self, tile_id: str) -> Tile:
        """The tile ``tile_id`` with ``image=b""``; its image isn't read."""
        return _from_row(self._light[self._position(tile_id)])

    def size_px(self, tile_id: str) -> tuple[int, int]:
        """Width and height of a tile; nothing else of it is read. Raises InputError if the store has none."""
        row = self._sizes[self._position(tile_id)]
        return row["width_px"], row["height_px"]

    def image(self, tile_id: str) -> Image.Image:
        """RGB image of a tile, transparent parts over white. Raises InputError for an unknown id or a broken image."""
        try:
            return decode_image(self._images[self._position(tile_id)]["image"]["bytes"])
        except InputError as error:
            raise InputError(f"{self.folder}: tile {tile_id}: {error}") from error

    def _position(self, tile_id: str) -> int:
        row = self.tile_ids.position(tile_id)
        if row is None:
            raise InputError(f"{self.folder}: no tile {tile_id!r} among its {len(self)} tiles")
        return row
