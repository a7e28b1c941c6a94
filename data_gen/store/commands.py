"""What ``tilewright tiles VERB`` does: check, show, exchange, edit and merge tile stores."""

import argparse
import dataclasses
import json
import sys
from collections.abc import Callable, Iterator
from contextlib import nullcontext

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Tile, to_json
from tilewright.data_gen.store import edit
from tilewright.data_gen.store.card import write_card
from tilewright.data_gen.store.exchange import new_folder, suffix_of, tile_json
from tilewright.data_gen.store.image_folder import export_images, import_images
from tilewright.data_gen.store.merge import merge
from tilewright.data_gen.store.page_records import pages_of, write_pages
from tilewright.data_gen.store.published import export_published, import_published
from tilewright.data_gen.store.verify import verify
from tilewright.data_gen.store.webdataset import export_webdataset, import_webdataset
from tilewright.data_gen.tile_store import TileStore

_SHOWN = 50


def verify_store(options: argparse.Namespace) -> None:
    """Print counts and problems. Exit status 1 if there are problems."""
    report = verify(options.folder, images=not options.no_images, threads=max(1, options.threads))
    if options.json:
        print(json.dumps(dataclasses.asdict(report), ensure_ascii=False, sort_keys=True))
    else:
        print(_counts(report.counts))
        for problem in report.problems:
            print(f"{problem.where}: {problem.what}")
    if report.problems:
        raise SystemExit(1)


def show_store(options: argparse.Namespace) -> None:
    """Print a store's pages, or one tile without its lists."""
    store = TileStore.open(options.folder)
    if options.tile_id is None:
        size_bytes = sum(shard.size_bytes for shard in store.state.shards)
        print(_counts({"tiles": len(store), "shards": len(store.state.shards), "bytes": size_bytes}))
        for page in pages_of(store):
            print(f"{page.page_id}  {page.tile_count:4d} tiles  {page.width_px} x {page.height_px} px  {page.url}")
        return
    tile = store.get(options.tile_id)
    if options.save:
        if not tile.image:
            raise InputError(f"tile {tile.tile_id} was stored without its image")
        options.save.write_bytes(tile.image)
    shown = tile_json(tile) | {name: len(getattr(tile, name)) for name in ("words", "blocks", "links", "image")}
    print(json.dumps(shown, ensure_ascii=False, indent=1))


def render_tiles_again(options: argparse.Namespace) -> None:
    """Write the images of some tiles, made again from their pages."""
    from tilewright.data_gen.render_again import render_again, source_of

    source = source_of(options.folder, options.pages, options.archive)
    options.out.mkdir(parents=True, exist_ok=True)
    for tile in render_again(options.folder, options.tile_ids, source):
        path = options.out / f"{tile.tile_id}.{suffix_of(tile.image, tile.tile_id)}"
        path.write_bytes(tile.image)
        print(f"{path}: as stored, image_sha256 {tile.image_sha256}")


def export_store(options: argparse.Namespace) -> None:
    """Write a store in another layout, pages.jsonl beside it."""
    store = TileStore.open(options.folder)
    if options.format == "published":
        count = export_published(store, options.out, base_url=options.base_url)
    else:
        count = (export_webdataset if options.format == "webdataset" else export_images)(store, options.out)
    print(f"{count} tiles -> {options.out}")


def import_store(options: argparse.Namespace) -> None:
    """Make a store of another layout, with its pages.jsonl. Exit status 1 if folders were skipped."""
    if options.format == "published":
        if not options.base_url:
            raise InputError("import published: wanted --base-url, such as https://en.wikipedia.org/wiki/")
        result = import_published(options.folder, options.out, base_url=options.base_url)
        print(f"{result.tiles} tiles of {result.pages} pages -> {options.out}; {len(result.skipped)} folders skipped")
        for name, reason in result.skipped.items():
            print(f"{name}: {reason}", file=sys.stderr)
        if result.skipped:
            raise SystemExit(1)
        return
    with new_folder(options.out) as partial:
        read = import_webdataset if options.format == "webdataset" else import_images
        count = read(options.folder, partial / "store")
        write_pages(TileStore.open(partial / "store"), options.folder)
    print(f"{count} tiles -> {options.out}")


def add_pages(options: argparse.Namespace) -> None:
    """Add pages of another store."""
    _edit(options, edit.add)


def replace_pages(options: argparse.Namespace) -> None:
    """Take pages from another store in the place of the same ones."""
    _edit(options, edit.replace_pages)


def _edit(options: argparse.Namespace, action: Callable[..., edit.Edited]) -> None:
    other = TileStore.open(options.other)
    tiles: TileStore | Iterator[Tile] = other
    if options.pages:
        unknown = [page_id for page_id in options.pages if not other.tile_ids.of_page(page_id)]
        if unknown:
            raise InputError(f"{other.folder}: has no pages {', '.join(unknown[:_SHOWN])}")
        tiles = _tiles_of(other, sorted(set(options.pages)))
    with edit.detached(options.folder) if options.detach else nullcontext():
        done = action(options.folder, tiles, pages_of(other, options.pages and set(options.pages)))
    print(_counts(to_json(done)))


def _tiles_of(store: TileStore, page_ids: list[str]) -> Iterator[Tile]:
    return (store.get(store.tile_ids[place]) for page_id in page_ids for place in store.tile_ids.of_page(page_id))


def remove_pages(options: argparse.Namespace) -> None:
    """Remove pages."""
    with edit.detached(options.folder) if options.detach else nullcontext():
        done = edit.remove(options.folder, options.page_ids)
    print(_counts(to_json(done)))


def merge_stores(options: argparse.Namespace) -> None:
    """Write several stores as one."""
    print(f"{merge(options.folders, options.out)} tiles -> {options.out}")


def write_store_card(options: argparse.Namespace) -> None:
    """Write the dataset card."""
    print(write_card(options.folder, name=options.name, license_id=options.license))


def _counts(counts: dict[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())


COMMANDS: dict[str, Callable[[argparse.Namespace], None]] = {
    "verify": verify_store,
    "show": show_store,
    "render": render_tiles_again,
    "export": export_store,
    "import": import_store,
    "add": add_pages,
    "replace": replace_pages,
    "remove": remove_pages,
    "merge": merge_stores,
    "card": write_store_card,
}
