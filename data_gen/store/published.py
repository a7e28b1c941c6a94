"""The layout that tile corpora are published in: ``{article}.png.tiles/chunk_{row:04d}_{column:02d}.png``.

It holds pictures, their places in the grid and a name per page; no text, no links. Page addresses are made of a base
URL and the percent-decoded name.
"""

import dataclasses
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image, encode_png
from tilewright.data_gen.records import Page, Tile, write_jsonl
from tilewright.data_gen.store.exchange import (
    MAX_IMAGE_BYTES,
    checked,
    gather,
    new_folder,
    pixels_sha256,
    read_bounded,
    size_px,
    suffix_of,
)
from tilewright.data_gen.store.page_records import copy_records
from tilewright.data_gen.store.shards import SHARD_BYTES
from tilewright.data_gen.tile_store import EVIDENCE_KINDS, TileStore
from tilewright.data_gen.tiles import tile_id
from tilewright.data_gen.urls import canonical_url, page_id

SUFFIX = ".png.tiles"
_FILE = re.compile(r"chunk_([0-9]{4,6})_([0-9]{2,4})\.(?:png|webp|jpe?g)")
_MAX_NAME_BYTES = 200  # of 255 that file systems allow, with room for SUFFIX and a page_id


@dataclass
class Imported:
    """What an import gave: pages and tiles, and the folders that couldn't be used, each with its reason."""

    pages: int = 0
    tiles: int = 0
    skipped: dict[str, str] = field(default_factory=dict)


def export_published(store: TileStore, out: Path, *, base_url: str | None = None) -> int:
    """Write every page as ``out/{article}.png.tiles``; return how many tiles.

    An article's name is its address after ``base_url``, else its title, percent-encoded. Where two pages would have
    one name (upper and lower case apart), the later ones get their page_id after it. A picture that isn't PNG is
    encoded again. Raises InputError for a tile without its image.
    """
    taken: set[str] = set()
    current, folder_name, count = "", "", 0
    with new_folder(out) as folder:
        for tile in checked(store):
            if tile.page_id != current:
                current, folder_name = tile.page_id, _article(tile, base_url, taken)
                (folder / folder_name).mkdir()
            if not tile.image:
                raise InputError(f"{store.folder}: tile {tile.tile_id} was stored without its image")
            data = tile.image
            if suffix_of(data, tile.tile_id) != "png":
                data = encode_png(decode_image(data))
            (folder / folder_name / f"chunk_{tile.row:04d}_{tile.column:02d}.png").write_bytes(data)
            count += 1
        copy_records(store, folder)
    return count


def _article(tile: Tile, base_url: str | None, taken: set[str]) -> str:
    below = base_url is not None and tile.url.startswith(base_url)
    title = unquote(tile.url[len(base_url) :]) if below and base_url else tile.title.replace(" ", "_")
    name = quote(title, safe=" !$&'()+,;=@[]{}~", errors="replace")
    if not name or len(name) > _MAX_NAME_BYTES or name.casefold() in taken:
        name = f"{name[:_MAX_NAME_BYTES].rpartition('%')[0] or name[:100]}-{tile.page_id}"
    taken.add(name.casefold())
    return name + SUFFIX


def import_published(folder: Path, out: Path, *, base_url: str, shard_bytes: int = SHARD_BYTES) -> Imported:
    """Write ``out/store`` and ``out/pages.jsonl`` of all ``*.png.tiles`` folders below ``folder``.

    Rows are stacked and columns set side by side by the pictures' own sizes. A folder that has a gap in its grid, a
    row of unlike heights, a file that is no picture, or the address of another, is skipped and reported. Raises
    InputError if none can be used.
    """
    canonical_url(base_url)  # raises for what is no address
    result = Imported()
    seen: dict[str, str] = {}
    pages: list[Page] = []

    def tiles() -> Iterator[Tile]:
        for path in _article_folders(folder):
            name = path.relative_to(folder).as_posix()
            try:
                found = _read_article(path, base_url, seen)
            except InputError as error:
                result.skipped[name] = str(error)
                continue
            seen[found[0].page_id] = name
            pages.append(_page_of(found))
            yield from found

    with new_folder(out) as partial:
        result.tiles = gather(partial / "store", tiles(), shard_bytes)
        if not pages:
            raise InputError(f"{folder}: no usable *{SUFFIX} folder in it ({len(result.skipped)} were skipped)")
        result.pages = write_jsonl(partial / "pages.jsonl", sorted(pages, key=lambda page: page.page_id))
    return result


def _article_folders(folder: Path) -> Iterator[Path]:
    """Folders named ``*.png.tiles``, in order of path; links aren't followed."""
    for parent, names, _ in os.walk(folder):
        names.sort()
        yield from (Path(parent) / name for name in names if name.endswith(SUFFIX))
        names[:] = [name for name in names if not name.endswith(SUFFIX)]


def _read_article(path: Path, base_url: str, seen: dict[str, str]) -> list[Tile]:
    """The tiles of one article, in order of id. Raises InputError saying why it can't be used."""
    try:
        title = unquote(path.name.removesuffix(SUFFIX), errors="strict")
        title.encode()
    except UnicodeError as error:
        raise InputError(f"{path}: wanted a name that is percent-encoded UTF-8 ({error})") from error
    if not title or path.is_symlink():
        raise InputError(f"{path}: wanted a folder named {{article}}{SUFFIX}")
    url = canonical_url(base_url + quote(title, safe="/:@!$&'()*+,;=~"))
    key = page_id(url)
    if key in seen:
        raise InputError(f"{path}: its address {url} is that of {seen[key]} too")
    blank = Tile(
        tile_id="",
        page_id=key,
        url=url,
        title=title.replace("_", " "),
        row=0,
        column=0,
        x_px=0,
        y_px=0,
        width_px=0,
        height_px=0,
        image=b"",
        image_sha256="",
        text="",
        evidence_px=dict.fromkeys(EVIDENCE_KINDS, 0),
    )
    tiles: list[Tile] = []
    for images in _grid(path):
        tiles += _row_tiles(blank, images, tiles[-1] if tiles else blank, str(path))
    return tiles


def _row_tiles(blank: Tile, images: list[bytes], above: Tile, where: str) -> list[Tile]:
    """The tiles of one row, below the tile ``above``. Raises InputError if they aren't of one height."""
    row = above.row + (above is not blank)
    sizes = [size_px(data, f"{where}: row {row}, column {column}") for column, data in enumerate(images)]
    heights = {height_px for _, height_px in sizes}
    if len(heights) != 1:
        raise InputError(f"{where}: row {row}: wanted tiles of one height, found {sorted(heights)} px")
    return [
        dataclasses.replace(
            blank,
            tile_id=tile_id(blank.page_id, row, column),
            row=row,
            column=column,
            x_px=sum(width_px for width_px, _ in sizes[:column]),
            y_px=above.y_px + above.height_px,
            width_px=sizes[column][0],
            height_px=sizes[column][1],
            image=data,
            image_sha256=pixels_sha256(data, f"{where}: row {row}, column {column}"),
        )
        for column, data in enumerate(images)
    ]


def _grid(path: Path) -> list[list[bytes]]:
    """The encoded images by row and column. Raises InputError for a gap or files of other names."""
    found: dict[tuple[int, int], Path] = {}
    for file in sorted(path.iterdir()):
        match = _FILE.fullmatch(file.name)
        if match is None or file.is_symlink() or not file.is_file():
            raise InputError(f"{file}: wanted plain files named chunk_0000_00.png")
        place = (int(match[1]), int(match[2]))
        if place in found:
            raise InputError(f"{file}: row {place[0]}, column {place[1]} stands twice")
        found[place] = file
    rows: list[list[bytes]] = []
    for row, column in sorted(found):
        if column == 0:
            rows.append([])
        if row != len(rows) - 1 or column != len(rows[-1]):
            raise InputError(f"{path}: row {row}, column {column} follows a gap: tiles before it are missing")
        with found[row, column].open("rb") as data:
            rows[-1].append(read_bounded(data, MAX_IMAGE_BYTES, str(found[row, column])))
    if not rows:
        raise InputError(f"{path}: has no tiles")
    return rows


def _page_of(tiles: list[Tile]) -> Page:
    """The record of an imported page; whether all of it was captured isn't known."""
    first, last = tiles[0], tiles[-1]
    return Page(
        first.page_id,
        first.url,
        first.title,
        html_path="",
        source="published tiles",
        width_px=max(tile.x_px + tile.width_px for tile in tiles),
        height_px=last.y_px + last.height_px,
        tile_count=len(tiles),
    )
