"""Merge stores of disjoint pages into one: what ``shard=0/n ... n-1/n`` made equals what one run would have made."""

import heapq
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path

import pyarrow as pa

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import FAILED, FailedPage, Page, iterate_jsonl, write_jsonl
from tilewright.data_gen.store.exchange import new_folder
from tilewright.data_gen.store.page_records import PAGES
from tilewright.data_gen.store.shards import SHARD_BYTES
from tilewright.data_gen.tile_store import TileStore, write_store_of


def merge(folders: Sequence[Path], out: Path, *, shard_bytes: int = SHARD_BYTES) -> int:
    """Write the new folder ``out`` as ``write_merged`` does. Raises InputError as that, and if ``out`` exists."""
    with new_folder(out) as partial:
        return write_merged(folders, partial, shard_bytes=shard_bytes)


def write_merged(
    folders: Sequence[Path], out: Path, *, shard_bytes: int = SHARD_BYTES, only: Collection[str] | None = None
) -> int:
    """Write ``out/store`` and, if the folders have them, pages.jsonl and failed.jsonl, in order of page_id.

    Returns the number of tiles. One folder is allowed: its edited store is written anew, in order. Tiles are streamed.
    ``only``: the page_ids to take (None: all). Raises InputError for a page that two folders have, and for folders of
    which only some have a pages.jsonl.
    """
    if not folders:
        raise InputError("nothing to merge: wanted at least one tile store")
    stores = [TileStore.open(folder) for folder in folders]
    records = [store.folder.parent / PAGES for store in stores if store.folder.name == "store"]
    present = [path for path in records if path.is_file()]
    if present and len(present) != len(stores):
        raise InputError(
            f"{len(present)} of {len(stores)} folders have a {PAGES}: wanted all or none (one: {present[0]})"
        )
    rows = (batch for page_id, batch in _merged_rows(stores) if only is None or page_id in only)
    tiles = write_store_of(out / "store", rows, shard_bytes)
    if present:
        merged = (page for page in _merged_pages(present) if only is None or page.page_id in only)
        write_jsonl(out / PAGES, merged)
    failed = [path.with_name(FAILED) for path in present if path.with_name(FAILED).is_file()]
    if failed:
        pages = (page for path in failed for page in iterate_jsonl(path, FailedPage))
        kept = (page for page in pages if only is None or page.page_id in only)
        write_jsonl(out / FAILED, sorted(kept, key=lambda page: page.page_id))
    return tiles


def _merged_rows(stores: Sequence[TileStore]) -> Iterator[tuple[str, pa.RecordBatch]]:
    streams = [_numbered(store, number) for number, store in enumerate(stores)]
    last_page, last_number = "", -1
    for page_id, number, rows in heapq.merge(*streams, key=lambda item: item[0]):
        if page_id == last_page and number != last_number:
            one, other = stores[last_number].folder, stores[number].folder
            raise InputError(f"page {page_id} is in {one} and in {other}: wanted each page once")
        last_page, last_number = page_id, number
        yield page_id, rows


def _numbered(store: TileStore, number: int) -> Iterator[tuple[str, int, pa.RecordBatch]]:
    return ((page_id, number, rows) for page_id, rows in store.page_slices())


def _merged_pages(paths: Sequence[Path]) -> Iterator[Page]:
    last = ""
    for page in heapq.merge(*map(_sorted_pages, paths), key=lambda page: page.page_id):
        if page.page_id == last:
            raise InputError(
                f"{PAGES}: page {last} stands twice in {', '.join(map(str, paths))}: wanted each page once"
            )
        last = page.page_id
        yield page


def _sorted_pages(path: Path) -> Iterator[Page]:
    """The records of a file in order of page_id; one that isn't sorted is held in memory."""
    last, is_sorted = "", True
    for page in iterate_jsonl(path, Page):
        is_sorted, last = is_sorted and page.page_id >= last, page.page_id
    pages = iterate_jsonl(path, Page)
    return pages if is_sorted else iter(sorted(pages, key=lambda page: page.page_id))
