"""Add, replace and remove pages of a tile store without touching the shards of other pages.

New shards get numbers that were never used, ``state.json`` is replaced last: a kill leaves the store as it was before
or as it is after. What a killed edit left is deleted by the next one. ``pages.jsonl`` beside the store goes along.
"""

from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tilewright.configs.errors import InputError
from tilewright.configs.locks import folder_lock
from tilewright.configs.manifest import MANIFEST, read_manifest
from tilewright.data_gen.records import Page, Tile, iterate_jsonl, write_jsonl
from tilewright.data_gen.store.page_records import PAGE_COLUMNS, PAGES, grown_page
from tilewright.data_gen.store.shards import SHARD_BYTES, Ascending, ShardWriter, check_batches
from tilewright.data_gen.store.state import (
    STATE,
    Shard,
    StoreState,
    publish_state,
    read_state,
    remove_leftovers,
    write_state,
)
from tilewright.data_gen.tile_store import TileStore, batches_of, store_place
from tilewright.data_gen.urls import PAGE_ID

OLD_MANIFEST = "manifest.before_edits.json"
Tiles = Iterable[Tile] | TileStore


@dataclass(frozen=True)
class Edited:
    """What an edit did: pages and tiles that came and went, shards that were written."""

    pages_added: int
    pages_removed: int
    tiles_added: int
    tiles_removed: int
    shards_written: int


def add(folder: Path, tiles: Tiles, pages: Iterable[Page] = (), *, shard_bytes: int = SHARD_BYTES) -> Edited:
    """Add the pages of ``tiles``, in ascending order of id, to a store; ``pages``: their records, made up without.

    Raises InputError for a page that is there already (use ``replace``) and for a folder that is a stage's result.
    """
    return _edit(folder, tiles, (), pages, shard_bytes, _refuse_known)


def replace_pages(folder: Path, tiles: Tiles, pages: Iterable[Page] = (), *, shard_bytes: int = SHARD_BYTES) -> Edited:
    """Put the pages of ``tiles``, in ascending order of id, in the place of those of the same ``page_id``.

    Raises InputError for a page that isn't there (use ``add``) and for a folder that is a stage's result.
    """
    return _edit(folder, tiles, (), pages, shard_bytes, _refuse_unknown)


def remove(folder: Path, page_ids: Collection[str]) -> Edited:
    """Remove pages. Raises InputError for one that isn't there and for a folder that is a stage's result."""
    return _edit(folder, (), page_ids, (), SHARD_BYTES, _refuse_unknown)


@contextmanager
def detached(folder: Path) -> Iterator[None]:
    """Make a stage's result a folder of the user's own, which the block may edit: its manifest is put aside.

    If the block fails and the store is as it was, the manifest comes back.
    """
    manifest, aside = folder / MANIFEST, folder / OLD_MANIFEST
    if read_manifest(folder) is None:
        yield
        return
    before = (store_place(folder) / STATE).read_bytes()
    manifest.replace(aside)
    try:
        yield
    except BaseException:
        if (store_place(folder) / STATE).read_bytes() == before:
            aside.replace(manifest)
        raise


def _edit(
    folder: Path,
    tiles: Tiles,
    page_ids: Collection[str],
    pages: Iterable[Page],
    shard_bytes: int,
    check: Callable[[TileStore, Iterable[str]], None],
) -> Edited:
    place = store_place(folder)
    if read_manifest(place.parent) is not None or read_manifest(place) is not None:
        raise InputError(
            f"{place.parent} is the result of a stage, as its {MANIFEST} says: edit a copy (`tilewright tiles merge`),"
            " or detach it first (`--detach`): then it is a folder of your own"
        )
    with folder_lock(place):
        finish_killed_edit(place)
        store = TileStore.open(place)
        check(store, page_ids)
        writer = ShardWriter(place, store.state.next_number, shard_bytes)
        added = _write_added(writer, tiles, lambda page_id: check(store, [page_id]))
        added_shards = writer.shards
        dropped = {*page_ids, *added} if check is _refuse_unknown else set()
        kept, removed = _without(store, dropped, writer)
        shards = [*kept, *added_shards]
        if not shards:
            writer.close_or_write_empty()
            shards = writer.shards
        edit = store.state.next_number
        state = write_state(place, shards, max(writer.number, edit + 1), edit)
        known = {page.page_id: page for page in pages}
        state = _write_pages(
            place, state, {page_id: known.get(page_id, page) for page_id, page in added.items()}, dropped
        )
        publish_state(place, state)
        finish_killed_edit(place)
    fresh = len({shard.name for shard in shards} - {shard.name for shard in store.state.shards})
    return Edited(len(added), len(dropped), sum(page.tile_count for page in added.values()), removed, fresh)


def _refuse_known(store: TileStore, page_ids: Iterable[str]) -> None:
    for page_id in page_ids:
        if store.tile_ids.of_page(page_id):
            raise InputError(f"{store.folder}: page {page_id} is there already: replace it, or remove it first")


def _refuse_unknown(store: TileStore, page_ids: Iterable[str]) -> None:
    for page_id in page_ids:
        if not PAGE_ID.fullmatch(page_id) or not store.tile_ids.of_page(page_id):
            raise InputError(f"{store.folder}: has no page {page_id!r} among its {len(store)} tiles")


def _write_added(writer: ShardWriter, tiles: Tiles, check: Callable[[str], None]) -> dict[str, Page]:
    """Write the tiles as new shards; the pages they are of, with what their tiles say of them."""
    added: dict[str, Page] = {}
    for batch in check_batches(batches_of(tiles), Ascending()):
        for row in batch.select(PAGE_COLUMNS).to_pylist():
            if row["page_id"] not in added:
                check(row["page_id"])
            added[row["page_id"]] = grown_page(added.get(row["page_id"]), row)
        writer.write(batch)
    writer.close()
    return added


def _without(store: TileStore, page_ids: Collection[str], writer: ShardWriter) -> tuple[list[Shard], int]:
    """The store's shards without some pages, and how many tiles those had; only shards that hold one are rewritten."""
    ranks = [rank for page_id in page_ids for rank in store.tile_ids.of_page(page_id)]
    shards = store.state.shards
    starts = np.cumsum([0, *(shard.rows for shard in shards)])
    affected = set((np.searchsorted(starts, store.rows_of(ranks), side="right") - 1).tolist())
    kept: list[Shard] = []
    for number, shard in enumerate(shards):
        if number not in affected:
            kept += [shard] if shard.rows else []
            continue
        rewriter = ShardWriter(store.folder, writer.number, 1 << 62)  # what is left of a shard stays one
        for batch in _rows_without(store, number, page_ids):
            rewriter.write(batch)
        rewriter.close()
        kept += rewriter.shards
        writer.number = rewriter.number
    return kept, len(ranks)


def _rows_without(store: TileStore, number: int, page_ids: Collection[str]) -> Iterator[pa.RecordBatch]:
    dropped = pa.array(sorted(page_ids), pa.string())
    for batch in store.shard_batches(number):
        yield batch.filter(pc.invert(pc.is_in(batch.column("page_id"), dropped)))


def _write_pages(place: Path, state: StoreState, added: dict[str, Page], dropped: Collection[str]) -> StoreState:
    """Write the new pages.jsonl inside the store, if there is one beside it; ``finish_killed_edit`` moves it there."""
    beside = place.parent / PAGES
    if place.name != "store" or not beside.is_file():
        return state
    kept = [page for page in iterate_jsonl(beside, Page) if page.page_id not in dropped and page.page_id not in added]
    name = f"pages-{state.next_number:05d}.jsonl"
    write_jsonl(place / name, sorted([*kept, *added.values()], key=lambda page: page.page_id))
    return replace(state, pages=name)


def finish_killed_edit(place: Path) -> None:
    """Do what an edit that was killed had left to do, and delete what it left undone. The store is locked by us."""
    state = read_state(place)
    if state.pages is not None:
        with suppress(FileNotFoundError):  # it was moved already
            (place / state.pages).replace(place.parent / PAGES)
        state = replace(state, pages=None)
        publish_state(place, state)
    remove_leftovers(place, state)
