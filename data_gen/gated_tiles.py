"""The tiles that a stage asks about: each tile looked at by all gates, near-duplicates kept once."""

import functools
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.items import process_items
from tilewright.data_gen.gates import NEAR_DUPLICATE, Gate, GateConfig, first_failed, gates
from tilewright.data_gen.near_duplicates import near_duplicates, perceptual_hash
from tilewright.data_gen.records import Page, Tile, read_jsonl
from tilewright.data_gen.tile_store import TileStore

GATED = "gates:"  # a tile's key in the journal before it is asked about


def read_pages(tiles: Path) -> dict[str, Page]:
    """{page_id: Page} of a folder of render_tiles. Raises InputError if it has no pages.jsonl."""
    path = tiles / "pages.jsonl"
    if not path.is_file():
        raise InputError(f"{path} is missing: wanted the output folder of render_tiles")
    return {page.page_id: page for page in read_jsonl(path, Page)}


def gate_tiles(
    store: TileStore, pages: dict[str, Page], config: GateConfig, out: Path, *, needs_text: bool
) -> dict[str, dict[str, Any]]:
    """{tile_id: {"gate": which stopped it} or {"skip": reason}, or neither: it passed}; resumes tile by tile.

    ``needs_text``: a tile without DOM text is a skip. To be called with all tiles, also for a part of them: of
    near-duplicates one is kept in the whole corpus.
    """
    bits = config.near_duplicate_bits

    def work(tile_ids: Sequence[str]) -> Iterator[tuple[str, Any]]:
        all_gates = gates(config)
        for tile_id in tile_ids:
            load = functools.cache(functools.partial(store.image, tile_id))
            tile = store.light(tile_id)
            yield tile_id, look(pages, tile, all_gates, load, hashing=bits is not None, needs_text=needs_text)

    found = process_items("gates", list(store.tile_ids), lambda tile_id: f"{GATED}{tile_id}", work, out)
    looked = {key.removeprefix(GATED): value for key, value in found.items()}
    if bits is None:
        return looked
    hashed = {tile_id: value for tile_id, value in looked.items() if "hash" in value}
    hashes, sizes = [value["hash"] for value in hashed.values()], [value["size_px"] for value in hashed.values()]
    dropped = near_duplicates(list(hashed), hashes, sizes, bits)
    return looked | {tile_id: {"gate": NEAR_DUPLICATE} for tile_id in dropped}


def look(
    pages: dict[str, Page],
    tile: Tile,
    all_gates: Sequence[Gate],
    load: Callable[[], Image.Image],
    *,
    hashing: bool,
    needs_text: bool = True,
) -> dict[str, Any]:
    """What stops a tile by itself; of one that passes its perceptual hash and size, if ``hashing``."""
    page = pages.get(tile.page_id)
    if page is None:
        raise InputError(f"tile {tile.tile_id}: its page {tile.page_id} isn't in pages.jsonl: run render_tiles again")
    if needs_text and not tile.text.strip():
        return {"skip": "no_text"}
    stopped = first_failed(all_gates, page, tile, load)
    if stopped is not None:
        return {"gate": stopped}
    return {"hash": perceptual_hash(load()), "size_px": [tile.width_px, tile.height_px]} if hashing else {}
