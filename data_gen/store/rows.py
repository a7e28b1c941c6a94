"""Tiles as rows of Arrow record batches: the columns of a tile store, and the working files that gather one."""

import dataclasses
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import accumulate
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

import pyarrow as pa

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Block, Link, Tile, Word

if TYPE_CHECKING:
    from datasets import Features

TILE_ID = re.compile(r"[0-9a-f]{16}-[0-9]{4,}-[0-9]{2,}")
EVIDENCE_KINDS = ("infobox", "table", "list", "paragraph")
ID_WIDTH = 28  # 16 hex, two dashes, ten digits of row and column
IMAGE = "image"
_PIECE_BYTES, _PIECE_ROWS = 16 << 20, 1024
_ITEM_BYTES = 128  # about what a word, block or link takes


@cache
def tile_features() -> "Features":
    """The columns of a store, as ``datasets`` describes them."""
    import datasets  # takes a second: readers of a store do without
    from datasets import Features, List, Value

    box = {name: Value("float64") for name in ("x_px", "y_px", "width_px", "height_px")}
    texts = {name: Value("string") for name in ("tile_id", "page_id", "url", "title")}
    places = {name: Value("int32") for name in ("row", "column", "x_px", "y_px", "width_px", "height_px")}
    block: dict[str, Any] = {"kind": Value("string"), "text": Value("string")}
    block |= {"cells": List(Value("string")), "labels": List(Value("string"))}
    block |= {"section": Value("string"), "caption": Value("string"), "whole": Value("bool")}
    return Features(
        texts
        | places
        | {IMAGE: datasets.Image(), "image_sha256": Value("string"), "text": Value("string")}
        | {"evidence_px": {kind: Value("int64") for kind in EVIDENCE_KINDS}}
        | {"words": List({"text": Value("string")} | box | {"block": Value("int32")}), "blocks": List(block | box)}
        | {"links": List({"href": Value("string"), "anchor": Value("string")} | box)}
    )


@cache
def tile_schema() -> pa.Schema:
    """The Arrow schema of a store's shards; its metadata tell ``datasets`` that ``image`` is a picture."""
    return tile_features().arrow_schema


def check_tile_id(tile_id: str, page_id: str) -> None:
    """Raise InputError unless ``tile_id`` has the form ``{page_id}-{row}-{column}``, its page 16 hex."""
    if len(tile_id) > ID_WIDTH or not TILE_ID.fullmatch(tile_id):
        raise InputError(f"tile_id {tile_id!r}: wanted {{16 hex}}-{{row}}-{{column}}")
    if tile_id.partition("-")[0] != page_id:
        raise InputError(f"tile {tile_id}: wanted the page_id that its id begins with, found {page_id!r}")


def to_batches(tiles: Iterable[Tile]) -> Iterator[pa.RecordBatch]:
    """Record batches of up to about 16 MiB. Raises InputError for an id of another form or odd ``evidence_px``."""
    rows: list[dict[str, Any]] = []
    size = 0
    for tile in tiles:
        rows.append(_to_row(tile))
        size += len(tile.image) + len(tile.text) + _ITEM_BYTES * (len(tile.words) + len(tile.blocks) + len(tile.links))
        if size >= _PIECE_BYTES or len(rows) >= _PIECE_ROWS:
            yield _batch(rows)
            rows, size = [], 0
    if rows:
        yield _batch(rows)


def _batch(rows: list[dict[str, Any]]) -> pa.RecordBatch:
    try:
        schema = tile_schema()
        columns = [_column([row[field.name] for row in rows], field.type) for field in schema]
        return pa.RecordBatch.from_arrays(columns, schema=schema)
    except (pa.ArrowException, OverflowError, UnicodeEncodeError) as error:
        places = f"{rows[0]['tile_id']} to {rows[-1]['tile_id']}"
        raise InputError(f"tiles {places}: values that a tile store can't hold ({error})") from error


def _column(values: list[Any], kind: pa.DataType) -> pa.Array:
    """An Arrow array of ``values``. Lists of records are put together column by column: Arrow's own way is slow."""
    if not (pa.types.is_list(kind) and pa.types.is_struct(kind.value_type)):
        return pa.array(values, kind)
    fields = [kind.value_type.field(number) for number in range(kind.value_type.num_fields)]
    items = [item for value in values for item in value]
    arrays = [_column([item[field.name] for item in items], field.type) for field in fields]
    ends = pa.array([0, *accumulate(map(len, values))], pa.int32())
    return pa.ListArray.from_arrays(ends, pa.StructArray.from_arrays(arrays, fields=fields), type=kind)


def _to_row(tile: Tile) -> dict[str, Any]:
    check_tile_id(tile.tile_id, tile.page_id)
    if tile.evidence_px.keys() != set(EVIDENCE_KINDS):
        raise InputError(
            f"tile {tile.tile_id}: evidence_px: wanted {list(EVIDENCE_KINDS)}, found {list(tile.evidence_px)}"
        )
    # `vars`, not `asdict`: the records are flat, and copying every word of a tile takes longer than all the rest
    nested = {name: [vars(item) for item in getattr(tile, name)] for name in ("words", "blocks", "links")}
    # a null, not an empty picture: `datasets` shows None for it
    return vars(tile) | nested | {IMAGE: {"bytes": tile.image, "path": None} if tile.image else None}


def to_tile(row: dict[str, Any]) -> Tile:
    """The tile of a row as Arrow gives it; ``image=b""`` if the row has none."""
    image = row.get(IMAGE) or {"bytes": b""}
    blocks = tuple(
        Block(**(block | {"cells": tuple(block["cells"]), "labels": tuple(block["labels"])})) for block in row["blocks"]
    )
    nested = {
        "words": tuple(Word(**word) for word in row["words"]),
        "links": tuple(Link(**link) for link in row["links"]),
    }
    return Tile(**(row | nested | {IMAGE: image["bytes"], "blocks": blocks}))


def without_images(batch: pa.RecordBatch) -> pa.RecordBatch:
    """``batch`` with every image null."""
    place = batch.schema.get_field_index(IMAGE)
    return batch.set_column(place, batch.schema.field(place), pa.nulls(len(batch), batch.schema.field(place).type))


def write_tiles(path: Path, tiles: Iterable[Tile]) -> int:
    """Write tiles as one Arrow file, atomically; return how many. The working format of stages that gather a store."""
    with TilesWriter(path) as writer:
        for batch in to_batches(tiles):
            writer.write_batch(batch)
    return writer.count


class TilesWriter:
    """A ``write_tiles`` file written bit by bit; it is there when the block ends without an error."""

    def __init__(self, path: Path) -> None:
        self._path, self._temporary = path, path.with_name(f"{path.name}.tmp")
        self._waiting: list[Tile] = []
        self._size = 0
        self.count = 0

    def __enter__(self) -> Self:
        self._file = pa.OSFile(str(self._temporary), "wb")
        self._stream = pa.ipc.new_stream(self._file, tile_schema())
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._flush()
        self._stream.close()
        self._file.close()
        if error is None:
            self._temporary.replace(self._path)

    def write(self, tile: Tile) -> None:
        """Add a tile; about 16 MiB of them wait in memory."""
        self._waiting.append(tile)
        self._size += len(tile.image)
        if self._size >= _PIECE_BYTES:
            self._flush()

    def write_batch(self, batch: pa.RecordBatch) -> None:
        """Add tiles that are rows already."""
        self._stream.write_batch(batch)
        self.count += len(batch)

    def _flush(self) -> None:
        for batch in to_batches(self._waiting):
            self.write_batch(batch)
        self._waiting, self._size = [], 0


def read_tiles(path: Path) -> Iterator[Tile]:
    """The tiles of a ``write_tiles`` file."""
    for batch in read_batches(path):
        yield from (to_tile(row) for row in batch.to_pylist())


def read_batches(path: Path) -> list[pa.RecordBatch]:
    """The record batches of an Arrow file, memory-mapped. Raises InputError if it is no file of tiles."""
    try:
        with pa.memory_map(str(path)) as file, pa.ipc.open_stream(file) as stream:  # the batches keep the mapping
            batches = list(stream)
            names = stream.schema.names
    except (OSError, pa.ArrowException) as error:
        raise InputError(f"{path}: not a readable file of tiles ({error})") from error
    if names != COLUMNS:
        raise InputError(f"{path}: wanted the columns {COLUMNS}, found {names}")
    return batches


COLUMNS = [field.name for field in dataclasses.fields(Tile)]
