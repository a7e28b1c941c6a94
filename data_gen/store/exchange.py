"""What the exchange formats share: tiles in any order into a store, bounded reading, folders that appear whole."""

import io
import json
import math
import shutil
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.locks import LOCK, folder_lock
from tilewright.data_gen.images import decode_image, image_sha256
from tilewright.data_gen.records import Tile, from_json, to_json
from tilewright.data_gen.store.rows import check_tile_id, to_batches
from tilewright.data_gen.store.shards import SHARD_BYTES, ShardWriter
from tilewright.data_gen.store.state import publish_state, write_state
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.data_gen.tiles import tile_id

SUFFIXES = {"PNG": "png", "WEBP": "webp", "JPEG": "jpg"}
MAX_IMAGE_BYTES = 64 << 20
MAX_JSON_BYTES = 64 << 20
MAX_IMAGE_PX = 64 << 20


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to write into that becomes ``out`` when the block ends well.

    Raises InputError if ``out`` exists, FolderBusyError if another process is writing it.
    """
    partial = out.with_name(f".{out.name}.tmp")
    _refuse_taken(out)
    partial.mkdir(parents=True, exist_ok=True)
    with folder_lock(partial):
        try:
            _refuse_taken(out)  # by another process, just now
            for entry in partial.iterdir():  # what a killed run left
                if entry.name != LOCK:
                    shutil.rmtree(entry) if entry.is_dir() and not entry.is_symlink() else entry.unlink()
            yield partial
        except BaseException:
            shutil.rmtree(partial, ignore_errors=True)
            raise
        partial.rename(out)  # our lock in it: nobody else can take the folder before
        (out / LOCK).unlink()


def _refuse_taken(out: Path) -> None:
    if out.exists() or out.is_symlink():
        raise InputError(f"{out} exists: wanted the name of a new folder")


def gather(store: Path, tiles: Iterable[Tile], shard_bytes: int = SHARD_BYTES) -> int:
    """Write tiles, given in any order, as ``store``; return how many. Nothing but their ids is held in memory.

    The bytes are those of ``write_store`` of the same tiles in order. Raises InputError for an id given twice.
    """
    unsorted = store.with_name(f".{store.name}.unsorted")
    shutil.rmtree(unsorted, ignore_errors=True)
    unsorted.mkdir(parents=True)
    writer = ShardWriter(unsorted, 0, shard_bytes)
    for batch in to_batches(tiles):
        writer.write(batch)
    writer.close_or_write_empty()
    state = write_state(unsorted, writer.shards, writer.number)
    publish_state(unsorted, state)
    if state.rows is None:
        shutil.rmtree(store, ignore_errors=True)
        unsorted.rename(store)
        return len(TileStore.open(store))
    count = write_store(store, TileStore.open(unsorted), shard_bytes)
    shutil.rmtree(unsorted)
    return count


def suffix_of(data: bytes, where: str) -> str:
    """``png``, ``webp`` or ``jpg``, by the bytes themselves. Raises InputError for anything else."""
    kind, _ = _head(data, where)
    return SUFFIXES[kind]


def size_px(data: bytes, where: str) -> tuple[int, int]:
    """Width and height of an encoded image, not decoded. Raises InputError for no image, or one too large."""
    return _head(data, where)[1]


def _head(data: bytes, where: str) -> tuple[str, tuple[int, int]]:
    try:
        with Image.open(io.BytesIO(data), formats=list(SUFFIXES)) as image:
            kind, size = str(image.format), image.size
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise InputError(f"{where}: wanted a PNG, WebP or JPEG image, found {len(data)} bytes ({error})") from error
    if size[0] * size[1] > MAX_IMAGE_PX:
        raise InputError(f"{where}: wanted an image of up to {MAX_IMAGE_PX} px, found {size[0]} x {size[1]} px")
    return kind, size


def pixels_sha256(data: bytes, where: str) -> str:
    """The hash of an encoded image's pixels. Raises InputError if it can't be decoded."""
    size_px(data, where)
    try:
        return image_sha256(decode_image(data))
    except Exception as error:  # a decoder raises anything on bad data
        raise InputError(f"{where}: can't be decoded ({error})") from error


def read_bounded(file: IO[bytes], limit_bytes: int, where: str) -> bytes:
    """All of a file. Raises InputError if it has more than ``limit_bytes``."""
    data = file.read(limit_bytes + 1)
    if len(data) > limit_bytes:
        raise InputError(f"{where}: wanted up to {limit_bytes} bytes, found more")
    return data


def tile_json(tile: Tile) -> dict[str, object]:
    """A tile as JSON values, without its image."""
    return {name: value for name, value in to_json(tile).items() if name != "image"}


def tile_text(tile: Tile, more: Mapping[str, object] | None = None, *, sort_keys: bool = False) -> str:
    """A tile as one line of JSON, without its image. Raises InputError for numbers that JSON doesn't have."""
    try:
        return json.dumps(tile_json(tile) | dict(more or {}), ensure_ascii=False, sort_keys=sort_keys, allow_nan=False)
    except ValueError as error:
        raise InputError(f"tile {tile.tile_id}: can't be written as JSON ({error})") from error


def checked(store: TileStore) -> Iterator[Tile]:
    """The tiles of a store. Raises InputError for one whose id isn't that of its place: files are named by it."""
    for tile in store:
        _check_place(tile, str(store.folder))
        yield tile


def _check_place(tile: Tile, where: str) -> None:
    check_tile_id(tile.tile_id, tile.page_id)
    expected = tile_id(tile.page_id, tile.row, tile.column)
    if tile.tile_id != expected:
        raise InputError(f"{where}: tile {tile.tile_id}: wanted {expected}, by its row and column")
    if min(tile.width_px, tile.height_px) < 1 or min(tile.x_px, tile.y_px) < 0:
        place = (tile.x_px, tile.y_px, tile.width_px, tile.height_px)
        raise InputError(f"{where}: tile {tile.tile_id}: wanted x, y >= 0 and width, height >= 1 px, found {place}")


def tile_of_json(text: bytes | str, image: bytes, where: str) -> Tile:
    """The tile of JSON text and its image. Raises InputError naming ``where`` if they don't make one."""
    try:
        data = json.loads(text, parse_constant=_finite, parse_float=_finite)
        if not isinstance(data, dict) or "image" in data:
            raise InputError(f"{where}: wanted a JSON object of a tile without its image")
        tile = from_json(Tile, data | {"image": image}, where)
    except InputError:
        raise
    except (ValueError, RecursionError, OverflowError) as error:
        raise InputError(f"{where}: not JSON of a tile ({error})") from error
    _check_place(tile, where)
    size = (tile.width_px, tile.height_px)
    if image and size_px(image, where) != size:
        raise InputError(f"{where}: its image is {size_px(image, where)} px, wanted {size}")
    return tile


def _finite(number: str) -> float:
    value = float(number)
    if not math.isfinite(value):
        raise ValueError(f"{number} is no finite number")
    return value
