"""Make tiles again from their pages: pictures needn't be kept; a stored hash says whether they came out the same."""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.load import build
from tilewright.configs.manifest import read_manifest
from tilewright.data_gen.page_pool import PagePool
from tilewright.data_gen.records import Page, Tile, read_jsonl
from tilewright.data_gen.render_page import Choose
from tilewright.data_gen.render_tiles import STAGE, Config, settings_of, site_of
from tilewright.data_gen.store.rows import read_tiles
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import working_file


@dataclass(frozen=True)
class Source:
    """Where the tiles of a render stage came from: its settings, the folder of pages, the archive if there is one."""

    config: Config
    inputs: dict[str, Path]


def source_of(tiles: Path, pages: Path | None = None, archive: Path | None = None) -> Source:
    """The source of ``tiles``, the folder of a finished render stage; ``pages`` and ``archive`` if they have moved.

    Raises InputError if ``tiles`` is no such folder or its pages aren't there.
    """
    manifest = read_manifest(tiles)
    if manifest is None or manifest["request"]["stage"] != STAGE.name:
        raise InputError(f"{tiles}: wanted the folder of a finished render_tiles stage")
    recorded = manifest["provenance"]["inputs"]
    inputs = {name: (tiles / path).resolve() for name, path in recorded.items()}
    inputs |= {name: path for name, path in (("pages", pages), ("archive", archive)) if path is not None}
    for name, path in inputs.items():
        if not path.exists():
            raise InputError(f"{path}: the {name} that {tiles} was rendered from; say where it lies now")
    settings: dict[str, Any] = dict(manifest["request"]["config"])
    return Source(build(Config, settings | {"out": tiles, "workers": 1} | inputs, str(tiles)), inputs)


def render_again(tiles: Path, tile_ids: Sequence[str], source: Source) -> Iterator[Tile]:
    """The tiles ``tile_ids`` of the render stage's folder ``tiles``, with pictures, page by page.

    Raises InputError for an unknown id, a page that can't be rendered, and a picture whose hash isn't the stored one:
    another browser or other fonts draw other pixels.
    """
    store = TileStore.open(tiles)
    wanted: dict[str, dict[str, Tile]] = {}
    for tile_id in tile_ids:
        tile = store.light(tile_id)
        wanted.setdefault(tile.page_id, {})[tile_id] = tile
    pages = [page for page in read_jsonl(source.inputs["pages"] / "pages.jsonl", Page) if page.page_id in wanted]
    missing = wanted.keys() - {page.page_id for page in pages}
    if missing:
        raise InputError(f"{source.inputs['pages']}: has no page {sorted(missing)[0]}")

    def choosing(page: Page) -> Choose:
        places = {(tile.row, tile.column) for tile in wanted[page.page_id].values()}
        return lambda boxes: [box for box in boxes if (box.row, box.column) in places]

    with tempfile.TemporaryDirectory() as work:
        settings = settings_of(source.config)
        pool = PagePool(site_of(source.inputs), source.inputs["pages"], Path(work), settings, 1, len(pages))
        for page, result in pool.run(pages, choosing):
            if isinstance(result, ItemError):
                raise InputError(str(result))
            yield from _checked(
                tiles, wanted[page.page_id], list(read_tiles(working_file(Path(work), page.page_id, "arrow"))), result
            )


def _checked(folder: Path, wanted: dict[str, Tile], made: Sequence[Tile], facts: dict[str, Any]) -> Iterator[Tile]:
    found = {tile.tile_id: tile for tile in made}
    for tile_id, stored in wanted.items():
        tile = found.get(tile_id)
        if tile is None or tile.image_sha256 != stored.image_sha256:
            what = "isn't on the page any more" if tile is None else "has other pixels"
            raise InputError(
                f"{folder}: tile {tile_id} {what}: rendered again with Chromium {facts['chromium']}; the manifest names"
                " the browser and fonts that it was made with"
            )
        yield tile
