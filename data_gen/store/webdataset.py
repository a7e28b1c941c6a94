"""WebDataset tars of tiles: ``{tile_id}.png`` (or ``.webp``, ``.jpg``) beside ``{tile_id}.json``.

Tars are read as streams and nothing of them is unpacked by name. Their bytes depend on the tiles alone.
"""

import io
import re
import tarfile
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

_MEMBER = re.compile(r"(?:\./)?([0-9a-f]{16}-[0-9]{4,}-[0-9]{2,})\.(png|webp|jpe?g|json)")


def export_webdataset(store: TileStore, out: Path, *, shard_bytes: int = SHARD_BYTES) -> int:
    """Write the tiles as ``out/tiles-000000.tar`` ..., each closed at about ``shard_bytes``; return how many tiles."""
    with new_folder(out) as folder:
        tiles = checked(store)
        tile, number, count = next(tiles, None), 0, 0
        while tile is not None or number == 0:
            path = folder / f"tiles-{number:06d}.tar"
            with path.open("wb") as file, tarfile.open(fileobj=file, mode="w", format=tarfile.USTAR_FORMAT) as tar:
                while tile is not None and file.tell() < shard_bytes:
                    _write(tar, tile)
                    tile, count = next(tiles, None), count + 1
            number += 1
        copy_records(store, folder)
    return count


def _write(tar: tarfile.TarFile, tile: Tile) -> None:
    parts = [("json", tile_text(tile, sort_keys=True).encode("utf-8"))]
    if tile.image:
        parts.insert(0, (suffix_of(tile.image, tile.tile_id), tile.image))
    for suffix, data in parts:
        member = tarfile.TarInfo(f"{tile.tile_id}.{suffix}")  # its owner and time are 0
        member.size = len(data)
        tar.addfile(member, io.BytesIO(data))


def import_webdataset(folder: Path, store: Path, *, shard_bytes: int = SHARD_BYTES) -> int:
    """Write the tiles of all ``*.tar`` in ``folder`` as ``store``; return how many.

    Raises InputError for a member that is no part of a tile, a part without the other, or one larger than allowed.
    """
    paths = sorted(path for path in folder.glob("*.tar") if path.is_file())
    if not paths:
        raise InputError(f"{folder}: wanted *.tar files, found none")
    return gather(store, (tile for path in paths for tile in _tiles(path)), shard_bytes)


def _tiles(path: Path) -> Iterator[Tile]:
    """The tiles of one tar; the parts of a tile follow each other."""
    current, parts = "", dict[str, bytes]()
    try:
        with tarfile.open(path, mode="r|") as tar:
            for member in iter(tar.next, None):
                tar.members.clear()  # type: ignore[attr-defined]  # else it keeps every head
                if member.isdir():
                    continue
                tile_id, suffix = _name(path, member)
                if tile_id != current and parts:
                    yield _tile(path, current, parts)
                    parts = {}
                current = tile_id
                kind = "json" if suffix == "json" else "image"
                if kind in parts:
                    raise InputError(f"{path}: {member.name}: a second {kind} of this tile")
                file = tar.extractfile(member)
                if file is None:
                    raise InputError(f"{path}: {member.name}: wanted a plain file")
                limit_bytes = MAX_JSON_BYTES if kind == "json" else MAX_IMAGE_BYTES
                parts[kind] = read_bounded(file, limit_bytes, f"{path}: {member.name}")
    except InputError:
        raise
    except (tarfile.TarError, EOFError, OSError, ValueError, LookupError, ArithmeticError) as error:  # of odd heads
        raise InputError(f"{path}: not a readable tar ({error})") from error
    if parts:
        yield _tile(path, current, parts)


def _name(path: Path, member: tarfile.TarInfo) -> tuple[str, str]:
    match = _MEMBER.fullmatch(member.name)
    if match is None or not member.isreg():
        raise InputError(f"{path}: member {member.name!r}: wanted a plain file {{tile_id}}.png, .webp, .jpg or .json")
    return match[1], match[2]


def _tile(path: Path, tile_id: str, parts: dict[str, bytes]) -> Tile:
    where = f"{path}: {tile_id}"
    if "json" not in parts:
        raise InputError(f"{where}: has an image, but no {tile_id}.json")
    tile = tile_of_json(parts["json"], parts.get("image", b""), where)
    if tile.tile_id != tile_id:
        raise InputError(f"{where}: its JSON is of tile {tile.tile_id!r}")
    return tile
