"""A folder of image files and ``tiles.jsonl``: a line a tile, with its image's path relative to that file."""

import json
from collections.abc import Iterator
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Tile
from tilewright.data_gen.store.exchange import (
    MAX_IMAGE_BYTES,
    MAX_JSON_BYTES,
    checked,
    gather,
    new_folder,
    read_bounded,
    suffix_of,
    tile_of_json,
    tile_text,
)
from tilewright.data_gen.store.page_records import copy_records
from tilewright.data_gen.store.shards import SHARD_BYTES
from tilewright.data_gen.tile_store import TileStore

TILES, FILE = "tiles.jsonl", "file"


def export_images(store: TileStore, out: Path) -> int:
    """Write ``out/tiles.jsonl`` and ``out/images/{2 hex}/{tile_id}.png`` (or ``.webp``, ``.jpg``); return how many."""
    count = 0
    with new_folder(out) as folder, (folder / TILES).open("w", encoding="utf-8") as lines:
        for tile in checked(store):
            name = None
            if tile.image:
                name = f"images/{tile.page_id[:2]}/{tile.tile_id}.{suffix_of(tile.image, tile.tile_id)}"
                (folder / name).parent.mkdir(parents=True, exist_ok=True)
                (folder / name).write_bytes(tile.image)
            lines.write(tile_text(tile, {FILE: name}) + "\n")
            count += 1
        copy_records(store, folder)
    return count


def import_images(folder: Path, store: Path, *, shard_bytes: int = SHARD_BYTES) -> int:
    """Write the tiles of ``folder/tiles.jsonl`` as ``store``; return how many.

    Raises InputError, with the line, for what is no tile and for a file that is outside the folder, gone or too large.
    """
    if not (folder / TILES).is_file():
        raise InputError(f"{folder / TILES}: wanted a line a tile, found no such file")
    return gather(store, _tiles(folder), shard_bytes)


def _tiles(folder: Path) -> Iterator[Tile]:
    with (folder / TILES).open("rb") as lines:
        for number, line in enumerate(iter(lambda: lines.readline(MAX_JSON_BYTES + 1), b""), start=1):
            where = f"{folder / TILES}:{number}"
            if len(line) > MAX_JSON_BYTES:
                raise InputError(f"{where}: wanted up to {MAX_JSON_BYTES} bytes, found more")
            try:
                data = json.loads(line)
                name = data.pop(FILE)
            except (ValueError, RecursionError, KeyError, TypeError, AttributeError) as error:
                raise InputError(f"{where}: wanted a JSON object with {FILE!r} ({error!r})") from error
            image = b"" if name is None else _image(folder, name, where)
            yield tile_of_json(json.dumps(data), image, where)


def _image(folder: Path, name: object, where: str) -> bytes:
    try:
        path = (folder / str(name)).resolve()
        inside = path.is_relative_to(folder.resolve()) and path.is_file()
    except (OSError, ValueError):  # a name too long, or with a null byte
        inside = False
    if not inside:
        raise InputError(f"{where}: {FILE} {str(name)[:200]!r}: wanted a file inside {folder}")
    with path.open("rb") as file:
        return read_bounded(file, MAX_IMAGE_BYTES, where)
