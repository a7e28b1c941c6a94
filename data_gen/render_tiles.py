"""tiles: pages.jsonl and its documents -> screenshot tiles with their DOM text, as a tile store."""

import dataclasses
import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.items import process_items
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.characters import CHARACTERS, write_table
from tilewright.data_gen.fonts import installed_fonts
from tilewright.data_gen.page_pool import PagePool, is_html
from tilewright.data_gen.parts import in_part, part_of
from tilewright.data_gen.profiles import Profile, ProfileName, profile_of
from tilewright.data_gen.records import FAILED, FailedPage, Page, read_jsonl, write_jsonl
from tilewright.data_gen.render_page import Choose, ImageFormat, PageSettings, choose_tiles, digest
from tilewright.data_gen.site import FolderSite, Site
from tilewright.data_gen.store.writer import StoreWriter
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import tile_boxes
from tilewright.data_gen.urls import PAGE_ID

WORK = ".work"
SPARE_WORKERS = 1  # beyond one a core: a page waits for its files and its frames
STORE = "store"
MAX_VIEWPORT_PX = 16_384  # Chromium captures no wider picture


@dataclass(frozen=True)
class Config:
    """What render_tiles does.

    ``profile``: how pages are shown (none, mediawiki, news, docs, or a mapping with the keys of
    tilewright.data_gen.profiles.Profile). ``archive``: the ZIM file that the pages of source zim lie in.
    ``max_tiles``: of the whole store; every page gets an equal share of it (None: all tiles); with fewer tiles than
    pages some get none and are dropped. ``max_tiles_per_page`` bounds a page besides. A sampled page keeps its first
    tile; the others are drawn by a digest of page id and ``seed``. ``shard``: "i/n" renders one of n parts of the pages
    (``tilewright tiles merge`` joins them). ``workers``: pages open at the same time, each in a Chromium of its own
    (None: one a core and one more), which is started anew after ``pages_per_browser`` pages. A page that takes longer
    than ``page_timeout_s`` has failed. ``image_format``: png keeps Chromium's own pictures, which costs nothing;
    lossless webp takes half the space and a quarter more time; jpeg loses a little. ``keep_images: false`` stores
    everything but the pictures: ``tilewright tiles render`` makes them again. ``characters: true`` writes beside the
    store where each character of its words stands (tilewright.data_gen.characters), which ``tilewright tiles merge``
    doesn't carry along; it takes pages of HTML only: a PDF or a picture would be labelled as if nothing stood on it.
    """

    out: Path
    max_tiles: int | None
    max_tiles_per_page: int | None
    pages: Path = input_path()
    archive: Path | None = input_path(default=None)
    profile: ProfileName | Profile = "none"
    viewport_width_px: int = 875
    tile_width_px: int = 875
    tile_height_px: int = 1024
    min_tile_px: int = 32
    image_format: ImageFormat = "png"
    jpeg_quality: int = 90
    keep_images: bool = True
    characters: bool = False
    shard: str | None = None
    seed: int = 0
    page_timeout_s: float = 120.0
    max_page_height_px: int = 2_000_000
    workers: int | None = execution(default=None)
    pages_per_browser: int = execution(default=500)
    max_error_share: float = execution(default=0.02)

    def __post_init__(self) -> None:
        tile_boxes(1, 1, self.tile_width_px, self.tile_height_px, self.min_tile_px)  # refuses sizes that can't be
        if self.page_timeout_s <= 0 or self.min_tile_px < 1 or self.viewport_width_px > MAX_VIEWPORT_PX:
            raise ValueError(
                "wanted page_timeout_s > 0, min_tile_px >= 1 and viewport_width_px up to"
                f" {MAX_VIEWPORT_PX}, found {self.page_timeout_s}, {self.min_tile_px} and {self.viewport_width_px}"
            )
        check_bounds(self, 1, 100, "jpeg_quality")
        counts = ("workers", "max_tiles", "max_tiles_per_page", "viewport_width_px", "pages_per_browser")
        check_bounds(self, 1, None, *counts)
        part_of(self.shard)


def render_tiles(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write pages.jsonl (sizes, tile counts, what was captured), failed.jsonl, store/, and characters/ if wanted.

    Raises InputError without pages, and if characters are wanted of PDFs or pictures.
    """
    path = inputs["pages"] / "pages.jsonl"
    if not path.is_file():
        raise InputError(f"{path}: wanted the pages of make_pages, found no such file")
    all_pages = read_jsonl(path, Page, unique="page_id")
    _check(all_pages, path, config.characters)
    ids = [page.page_id for page in all_pages]
    shares = tile_shares(ids, config.max_tiles, config.max_tiles_per_page, config.seed)
    part = part_of(config.shard)
    mine = (page for page in all_pages if in_part(page.page_id, part))
    pages = sorted(mine, key=lambda page: page.page_id)  # the store's order: few finished pages wait for their place
    work = out / WORK
    work.mkdir(exist_ok=True)
    store = StoreWriter(out / STORE, work, [page.page_id for page in pages], keep_images=config.keep_images)
    workers = config.workers or (os.cpu_count() or 1) + SPARE_WORKERS
    pool = PagePool(site_of(inputs), inputs["pages"], work, settings_of(config), workers, config.pages_per_browser)

    def choosing(page: Page) -> Choose:
        share = shares[page.page_id]
        return lambda boxes: choose_tiles(boxes, page.page_id, share, config.seed)

    def tell(page: Page, facts: dict[str, Any]) -> None:
        store.finish_page(page.page_id) if facts["tiles"] else store.skip_page(page.page_id)

    finished = process_items(
        "render_tiles",
        pages,
        lambda page: page.page_id,
        lambda todo: pool.run(todo, choosing),
        out,
        max_error_share=config.max_error_share,
        finished=tell,
    )
    kept = [page for page in pages if finished.get(page.page_id, {}).get("tiles")]
    if not kept and part[1] == 1:
        raise InputError(f"{path}: none of its {len(pages)} pages gave a tile (pages of no height, or all failed)")
    failed = [FailedPage(page.page_id, page.url, why) for page, why in pool.failed(pages)]
    for page in failed:
        store.skip_page(page.page_id)
    counts = _counts(pages, finished, store.close())
    if config.characters:
        counts["characters"] = write_table(out / CHARACTERS, TileStore.open(out / STORE), work)
    write_jsonl(out / "pages.jsonl", [with_facts(page, finished[page.page_id]) for page in kept])
    write_jsonl(out / FAILED, failed)
    return counts


def settings_of(config: Config) -> PageSettings:
    """The part of a config that says how a page is laid out and cut."""
    names = [entry.name for entry in dataclasses.fields(PageSettings) if entry.name != "profile"]
    return PageSettings(profile_of(config.profile), **{name: getattr(config, name) for name in names})


def site_of(inputs: Inputs) -> Site:
    if "archive" not in inputs:
        return FolderSite(inputs["pages"])
    from tilewright.data_gen.zim_site import ZimSite  # of an extra that other sources do without

    return ZimSite(inputs["archive"])


def _check(pages: Sequence[Page], path: Path, characters: bool) -> None:
    if not pages:
        raise InputError(f"{path}: no pages in this corpus; wanted at least one")
    for page in pages:
        if not PAGE_ID.fullmatch(page.page_id):
            raise InputError(f"{path}: page_id {page.page_id!r}: wanted 16 hex characters")
    others = [page.url for page in pages if not is_html(page)]
    if characters and others:
        raise InputError(
            f"{path}: characters: wanted pages of HTML only, found {len(others)} PDFs or pictures (first: {others[0]});"
            " leave them out or set characters: false"
        )


def with_facts(page: Page, facts: dict[str, Any]) -> Page:
    """``page`` with what rendering measured."""
    measured = {key: facts[key] for key in ("width_px", "height_px", "complete", "images_failed", "fonts_missing")}
    return dataclasses.replace(page, html_path="", tile_count=facts["tiles"], **measured)


def _counts(pages: Sequence[Page], finished: dict[str, Any], tiles: int) -> Counts:
    values = list(finished.values())
    return {
        "pages": sum(value["tiles"] > 0 for value in values),
        "tiles": tiles,
        "tiles_of_whole_corpus": sum(value["tiles_of_page"] for value in values),
        "pages_complete": sum(value["complete"] for value in values),
        "pages_whose_height_changed": sum(not value["stable"] for value in values),
        "pages_whose_words_changed": sum(value.get("words_changed", False) for value in values),
        "pages_with_clipped_parts": sum(value["clipped"] > 0 for value in values),
        "images_failed": sum(value["images_failed"] for value in values),
        "fonts_missing": sum(value["fonts_missing"] for value in values),
        "dropped_zero_height": sum(value["tiles_of_page"] == 0 for value in values),
        "dropped_no_share_of_max_tiles": sum(value["tiles_of_page"] > 0 == value["tiles"] for value in values),
        "failed": len(pages) - len(values),
        "requests_refused": sum(value["requests_refused"] for value in values),
        "chromium": sorted({value["chromium"] for value in values} - {""}),
        "fonts": installed_fonts(),
    }


def tile_shares(
    page_ids: Sequence[str], max_tiles: int | None, max_tiles_per_page: int | None, seed: int
) -> dict[str, int | None]:
    """How many tiles each page may keep (None: all): equal shares of ``max_tiles``, the odd ones by digest."""
    if max_tiles is None:
        return dict.fromkeys(page_ids, max_tiles_per_page)
    share, odd = divmod(max_tiles, max(1, len(page_ids)))
    lucky = set(sorted(page_ids, key=lambda page_id: digest(seed, page_id))[:odd])
    most = max_tiles if max_tiles_per_page is None else max_tiles_per_page
    return {page_id: min(most, share + (page_id in lucky)) for page_id in page_ids}


STAGE = Stage("render_tiles", Config, render_tiles, schema=4)

if __name__ == "__main__":
    main(STAGE)
