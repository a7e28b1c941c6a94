"""``tilewright index info|add|remove``: the arguments; what they do is imported when it is run."""

import argparse
import json
from pathlib import Path


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``index`` and its verbs to the commands of the console script."""
    index = commands.add_parser("index", help="show an index of tiles, add tiles to it, remove some")
    verbs = index.add_subparsers(required=True, metavar="VERB")
    info = verbs.add_parser("info", help="kind, sizes, parameters, recall, as JSON")
    info.add_argument("folder", type=Path, help="an index, as build_index writes it")
    info.set_defaults(action=_info)
    add = verbs.add_parser("add", help="add the tiles of folders of vectors, as a new segment each")
    add.add_argument("folder", type=Path)
    add.add_argument("vectors", type=Path, nargs="+", metavar="VECTORS", help="a folder that embed_tiles wrote")
    add.set_defaults(action=_add)
    remove = verbs.add_parser("remove", help="remove tiles by id, or all tiles of pages")
    remove.add_argument("folder", type=Path)
    remove.add_argument("tile_ids", nargs="*", metavar="TILE_ID")
    remove.add_argument("--pages", nargs="+", default=[], metavar="PAGE_ID", help="all tiles of these pages too")
    remove.set_defaults(action=_remove)
    for verb in (add, remove):
        verb.add_argument("--detach", action="store_true", help="edit a stage's result; its manifest is put aside")


def _info(options: argparse.Namespace) -> None:
    from tilewright.mining.index import TileIndex

    print(json.dumps(TileIndex.load(options.folder).info(), indent=1))


def _add(options: argparse.Namespace) -> None:
    from tilewright.mining.index import TileIndex
    from tilewright.mining.index_folder import detached
    from tilewright.mining.index_source import StoreSource
    from tilewright.mining.vector_store import VectorStore

    index = TileIndex.load(options.folder)
    before = len(index)
    stores = [VectorStore.open(folder) for folder in options.vectors]
    with detached(options.folder, options.detach):
        for store in stores:
            index.add_from(StoreSource([store]), store.encoder_hash)
    print(f"{options.folder}: {len(index) - before} tiles added, {len(index)} now")


def _remove(options: argparse.Namespace) -> None:
    from tilewright.configs.errors import InputError
    from tilewright.mining.index import TileIndex
    from tilewright.mining.index_folder import detached

    index = TileIndex.load(options.folder)
    before = len(index)
    tile_ids = {*options.tile_ids, *index.tiles_of(options.pages)}
    if not tile_ids:
        raise InputError("wanted tile ids, or --pages with tiles in the index; found none")
    with detached(options.folder, options.detach):
        index.remove(tile_ids)
    print(f"{options.folder}: {before - len(index)} tiles removed, {len(index)} now")
