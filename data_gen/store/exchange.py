"""What the exchange formats share: tiles in any order into a store, bounded reading, folders that appear whole."""

import io
import json
import shutil
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO

from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image, image_sha256
from tilewright.data_gen.records import Tile, from_json, to_json
from tilewright.data_gen.store.rows import to_batches
from tilewright.data_gen.store.shards import SHARD_BYTES, ShardWriter
from tilewright.data_gen.store.state import publish_state, write_state
from tilewright.data_gen.tile_store import TileStore, write_store

SUFFIXES = {"PNG": "png", "WEBP": "webp", "JPEG": "jpg"}
MAX_IMAGE_BYTES = 64 << 20
MAX_JSON_BYTES = 64 << 20
MAX_IMAGE_PX = 64 << 20


@contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """A folder to write into that becomes ``out`` when the block ends well. Raises InputError if ``out`` exists."""
    if out.exists():
        raise InputError(f"{out} exists: wanted the name of a new folder")
    partial = out.with_name(f".{out.name}.tmp")
    shutil.rmtree(partial, ignore_errors=True)
    partial.mkdir(parents=True)
    try:
        yield partial
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        raise
    partial.rename(out)


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


def tile_of_json(text: bytes | str, image: bytes, where: str) -> Tile:
    """The tile of JSON text and its image. Raises InputError naming ``where`` if they don't make one."""
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from error
    if not isinstance(data, dict) or "image" in data:
        raise InputError(f"{where}: wanted a JSON object of a tile without its image")
    if image:
        size_px(image, where)
    return from_json(Tile, data | {"image": image}, where)
