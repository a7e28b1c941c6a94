"""The records of pages beside a store: pages.jsonl, or what the tiles themselves say of their pages."""

import shutil
from collections.abc import Collection, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from tilewright.data_gen.records import FAILED, FailedPage, Page, iterate_jsonl, write_jsonl
from tilewright.data_gen.tile_store import TileStore

PAGES = "pages.jsonl"
PAGE_COLUMNS = ["page_id", "url", "title", "x_px", "y_px", "width_px", "height_px"]


def grown_page(page: Page | None, row: dict[str, Any]) -> Page:
    """The record of a page with one more of its tiles; whether all of it was captured isn't known."""
    if page is None:
        page = Page(row["page_id"], row["url"], row["title"], "", "its tiles")
    return replace(
        page,
        width_px=max(page.width_px, row["x_px"] + row["width_px"]),
        height_px=max(page.height_px, row["y_px"] + row["height_px"]),
        tile_count=page.tile_count + 1,
    )


def pages_path(store: TileStore) -> Path | None:
    """The pages.jsonl beside a store, None if there's none."""
    path = store.folder.parent / PAGES
    return path if store.folder.name == "store" and path.is_file() else None


def pages_of(store: TileStore, page_ids: Collection[str] | None = None) -> Iterator[Page]:
    """The records of a store's pages (of ``page_ids`` only): those beside it, or what its tiles say."""
    path = pages_path(store)
    pages = _seen_pages(store) if path is None else iterate_jsonl(path, Page)
    return (page for page in pages if page_ids is None or page.page_id in page_ids)


def copy_records(store: TileStore, folder: Path) -> None:
    """Copy what stands beside a store, pages.jsonl and failed.jsonl, into ``folder``."""
    if pages_path(store) is not None:
        for name in (PAGES, FAILED):
            if (store.folder.parent / name).is_file():
                shutil.copyfile(store.folder.parent / name, folder / name)


def write_pages(store: TileStore, source: Path) -> int:
    """Write pages.jsonl beside a store: the one in the folder ``source`` if it has one, else made of the tiles.

    A failed.jsonl goes along.
    """
    if (source / FAILED).is_file():
        write_jsonl(store.folder.parent / FAILED, iterate_jsonl(source / FAILED, FailedPage))
    path = source / PAGES
    pages = iterate_jsonl(path, Page) if path.is_file() else _seen_pages(store)
    return write_jsonl(store.folder.parent / PAGES, pages)


def _seen_pages(store: TileStore) -> Iterator[Page]:
    page: Page | None = None
    for page_id, batch in store.page_slices():
        if page is not None and page.page_id != page_id:
            yield page
            page = None
        for row in batch.select(PAGE_COLUMNS).to_pylist():
            page = grown_page(page, row)
    if page is not None:
        yield page
