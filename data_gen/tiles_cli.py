"""``tilewright tiles ...`` and ``gallery``: the arguments; what they do is imported when it is run."""

import argparse
import importlib
from collections.abc import Callable
from pathlib import Path

FORMATS = ("webdataset", "images", "published")


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``tiles`` and its verbs to the commands of the console script."""
    tiles = commands.add_parser("tiles", help="check, show, export, import, edit and merge tile stores")
    verbs = tiles.add_subparsers(required=True, metavar="VERB")
    check = _verb(verbs, "verify", "check pictures, hashes, ids and geometry; exit status 1 for problems")
    check.add_argument("--no-images", action="store_true", help="leave the pictures undecoded")
    check.add_argument("--threads", type=int, default=2)
    check.add_argument("--json", action="store_true", help="the whole report as JSON")
    show = _verb(verbs, "show", "what is in a store, or in one tile of it")
    show.add_argument("tile_id", nargs="?")
    show.add_argument("--save", type=Path, metavar="FILE", help="write the tile's encoded image")
    again = _verb(verbs, "render", "make tiles again from their pages, checked against their stored hashes")
    again.add_argument("tile_ids", nargs="+", metavar="TILE_ID")
    again.add_argument("--out", type=Path, required=True, help="folder for the images")
    again.add_argument("--pages", type=Path, help="the pages folder, if it has moved since")
    again.add_argument("--archive", type=Path, help="the ZIM archive, if it has moved since")
    _add_exchange(verbs)
    for name, about in (("add", "add the pages of another store"), ("replace", "take pages from another store")):
        verb = _verb(verbs, name, about)
        verb.add_argument("other", type=Path, help="the folder of the other store")
        verb.add_argument("--pages", nargs="+", metavar="PAGE_ID", help="these only (default: all of it)")
        verb.add_argument("--detach", action="store_true", help="edit a stage's result; its manifest is put aside")
    remove = _verb(verbs, "remove", "remove pages")
    remove.add_argument("page_ids", nargs="+", metavar="PAGE_ID")
    remove.add_argument("--detach", action="store_true", help="edit a stage's result; its manifest is put aside")
    merged = verbs.add_parser("merge", help="write several stores as one: shards of a run, or an edited store anew")
    merged.add_argument("folders", nargs="+", type=Path, metavar="FOLDER")
    merged.add_argument("--out", type=Path, required=True)
    merged.set_defaults(action=_later("merge"))
    card = _verb(verbs, "card", "write the dataset card (README.md) of a store")
    card.add_argument("--name", required=True, help="the data set's name, for people")
    card.add_argument("--license", default="unknown", help="its identifier on a hub, such as cc-by-sa-4.0")


def add_gallery(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``gallery`` to the commands of the console script."""
    about = "an HTML page of the tiles that the gates keep and drop, to judge the thresholds"
    parser = commands.add_parser("gallery", help=about, description=about)
    parser.add_argument("tiles", type=Path, help="the output folder of render_tiles")
    gates_help = "a config of make_queries, and what differs from it, such as gates.min_ink=0.01"
    parser.add_argument("--gates", required=True, nargs="+", metavar=("CONFIG.yaml", "KEY=VALUE"), help=gates_help)
    parser.add_argument("--out", type=Path, default=Path("gallery.html"), metavar="FILE.html")
    parser.add_argument("--per-gate", type=int, default=12, metavar="N", help="tiles shown a gate (default: 12)")
    parser.add_argument("--max-tiles", type=int, default=5000, metavar="N", help="of a larger store a sample")

    def run(options: argparse.Namespace) -> None:
        from tilewright.data_gen.gallery import run_gallery

        run_gallery(options)

    parser.set_defaults(action=run)


def _verb(
    verbs: "argparse._SubParsersAction[argparse.ArgumentParser]",
    name: str,
    about: str,
) -> argparse.ArgumentParser:
    parser = verbs.add_parser(name, help=about)
    parser.add_argument("folder", type=Path, help="a tile store, or a folder with one in store/")
    parser.set_defaults(action=_later(name))
    return parser


def _add_exchange(verbs: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    for name, about in (
        ("export", "write a store as WebDataset tars, a folder of images, or the published layout"),
        ("import", "make a store of one of those"),
    ):
        verb = verbs.add_parser(name, help=about)
        verb.add_argument("format", choices=FORMATS)
        verb.add_argument("folder", type=Path)
        verb.add_argument("out", type=Path, help="a new folder")
        verb.add_argument("--base-url", help="published: page addresses are this and the article's name")
        verb.set_defaults(action=_later(name))


def _later(name: str) -> Callable[[argparse.Namespace], None]:
    """The command of that name; its module is imported when it is run, not at start-up."""

    def run(options: argparse.Namespace) -> None:
        importlib.import_module("tilewright.data_gen.store.commands").COMMANDS[name](options)

    return run
