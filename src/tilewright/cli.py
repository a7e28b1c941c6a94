"""``tilewright``: one way in to every stage of the line, to recipes, and to the state of a folder of runs."""

import argparse
import importlib
import os
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from tilewright import __version__
from tilewright.configs.errors import UserError, said
from tilewright.configs.load import find_config
from tilewright.configs.recipe import Step, load_recipe, override, run_recipe
from tilewright.configs.stage import Stage, rank_and_world, run_and_show
from tilewright.configs.status import status_of
from tilewright.data_gen import tiles_cli
from tilewright.eval import precision_cli
from tilewright.mining import index_cli
from tilewright.train import encoder_cli

STAGES: dict[str, tuple[str, str]] = {
    "fetch_pages": ("data_gen", "a list of URLs -> a local mirror of the pages and what they show"),
    "make_pages": ("data_gen", "sources (wiki dump, HTML folder, mirror, ZIM, PDFs, pictures) -> pages"),
    "render_tiles": ("data_gen", "pages -> screenshot tiles with their DOM text"),
    "compress_tiles": ("train", "tiles -> the same tiles with smaller pictures"),
    "make_queries": ("data_gen", "tiles -> question, answer and positive tile"),
    "filter_pairs": ("data_gen", "keep self-contained, unique, answerable pairs, offline"),
    "self_contained": ("data_gen", "keep questions that stand by themselves, by a language model"),
    "answerable": ("data_gen", "keep pairs whose tile yields the stored answer, by a vision model"),
    "natural": ("data_gen", "keep questions someone would ask, by a language model"),
    "merge_pairs": ("data_gen", "parts of a sharded stage -> the pairs of one run"),
    "split_pairs": ("data_gen", "pairs -> train, validation, test, by page"),
    "make_digest_pages": ("data_gen", "split pairs -> further pages that restate their facts: true answers elsewhere"),
    "merge_tiles": ("data_gen", "tiles of several folders, or of some splits -> one folder"),
    "find_positives": ("data_gen", "split pairs + tiles -> every further tile that answers each query"),
    "text_pairs": ("data_gen", "page text -> query and passage pairs for a text warm-up"),
    "make_title_tiles": ("data_gen", "nothing -> drawn tiles and questions, a corpus that a tiny model can learn from"),
    "make_word_tiles": ("train", "nothing -> drawn words, asked by place or colour, that a tiny reader can learn"),
    "make_reading_pages": ("data_gen", "documentation and word lists -> pages that a small model learns to read from"),
    "pretrain_nano": ("train", "tiles and where their characters stand -> nano, a small reader of pixels"),
    "make_nano": ("train", "the reader that ships with the package, as a model folder"),
    "make_tiny_model": ("train", "a tiny model of the real architecture, random weights"),
    "embed_tiles": ("mining", "checkpoint + tiles -> vectors"),
    "merge_vectors": ("mining", "parts of a sharded embed_tiles -> the vectors of one run"),
    "train_index": ("mining", "vectors -> a quantiser that the shards of an index share"),
    "build_index": ("mining", "vectors -> FAISS index"),
    "merge_index": ("mining", "shards of an index -> the index of all their vectors"),
    "mine_negatives": ("mining", "index + pairs -> training examples with judged hard negatives"),
    "merge_negatives": ("mining", "parts of a sharded mine_negatives -> the examples of one run"),
    "count_false_negatives": ("mining", "mined negatives + known positives -> how many negatives are true answers"),
    "mini_datastore": ("mining", "index + pairs -> a small corpus for comparing checkpoints"),
    "train_embedder": ("train", "examples -> embedder checkpoint (InfoNCE)"),
    "make_reader_data": ("mining", "index + pairs -> reader examples on compressed tiles"),
    "train_reader": ("train", "reader examples -> reader checkpoint"),
    "train_nano_reader": ("train", "reader examples -> nano reader, small eyes that point at answers"),
    "make_questions": ("eval", "a benchmark's published files -> questions with their gold pages"),
    "evaluate_reader": ("eval", "readers + reader examples -> accuracy by compression and tiles shown"),
    "evaluate": ("eval", "checkpoints -> index -> Recall@k, accuracy, report"),
    "evaluate_checkpoints": ("eval", "a training run's checkpoints + a small corpus -> recall by step, the best one"),
    "evaluate_citations": ("eval", "questions + pages -> sentences cited for them, and what they are worth"),
    "make_results": ("eval", "finished evaluations -> their tables and findings in one file"),
    "evaluate_mteb": ("eval", "checkpoint -> scores on ViDoRe and other tasks of page images, through mteb"),
}


def find_stage(name: str) -> Stage[Any]:
    """The stage of that name; its module is imported now, not at start-up."""
    package, _ = STAGES[name]
    stage: Stage[Any] = importlib.import_module(f"tilewright.{package}.{name}").STAGE
    return stage


def main(arguments: Sequence[str] | None = None) -> None:
    """Console script. Exit status 2 for a wrong call, 1 for an error the user can mend, 130 after Ctrl-C."""
    arguments = list(sys.argv[1:] if arguments is None else arguments)
    name = arguments[0].replace("-", "_") if arguments else ""
    try:
        if name in STAGES:
            run_and_show(find_stage(name), arguments[1:])
        else:
            options = _parser().parse_args(arguments)
            options.action(options)
    except UserError as error:
        raise SystemExit(f"tilewright {arguments[0]}: error: {error}") from None
    except BrokenPipeError:  # whoever read our output has seen enough
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        raise SystemExit(1) from None
    except OSError as error:
        raise SystemExit(f"tilewright {arguments[0]}: error: {said(error)}") from error
    except KeyboardInterrupt:
        print(f"\ntilewright {arguments[0]}: interrupted; the same command goes on where it was", file=sys.stderr)
        raise SystemExit(130) from None


def _parser() -> argparse.ArgumentParser:
    width = max(map(len, STAGES)) + 2
    line = "\n".join(f"  {name:<{width}}{about}" for name, (_, about) in STAGES.items())
    parser = argparse.ArgumentParser(
        "tilewright",
        description="Train and evaluate visual embedders and low-resolution readers over screenshot tiles.",
        usage="tilewright <stage> CONFIG.yaml [key=value ...] | tilewright COMMAND ...",
        epilog=f"stages, in the order of the line:\n{line}\n\n`tilewright <stage> --help` lists a stage's keys.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=__version__)
    commands = parser.add_subparsers(required=True, metavar="COMMAND", title="commands beside the stages")
    recipe = commands.add_parser("run", help="run a recipe: a YAML list of stages, resumable as a whole")
    recipe.add_argument("recipe", type=Path, metavar="LIST.yaml")
    recipe.add_argument(
        "overrides", nargs="*", metavar="key=value", help="for every stage of the list whose YAML has the key"
    )
    recipe.set_defaults(action=_run)
    tiles_cli.add_parser(commands)
    tiles_cli.add_gallery(commands)
    precision_cli.add_parser(commands)
    encoder_cli.add_encoder(commands)
    encoder_cli.add_export(commands)
    index_cli.add_parser(commands)
    status = commands.add_parser("status", help="what is complete, partial or stale in a folder of runs")
    status.add_argument("folder", type=Path)
    status.add_argument(
        "--verify", action="store_true", help="hash every output file (default: those whose time of change is another)"
    )
    status.set_defaults(action=_status)
    return parser


def _run(options: argparse.Namespace) -> None:
    steps = override(load_recipe(find_config(options.recipe), list(STAGES)), options.overrides)

    def announce(number: int, step: Step, out: Path) -> None:
        if rank_and_world()[0] == 0:
            print(f"[{number}/{len(steps)}] {step.stage} -> {out}", file=sys.stderr, flush=True)

    folders = run_recipe(steps, find_stage, announce)
    show = find_stage(steps[-1].stage).show
    if show is not None and rank_and_world()[0] == 0:
        show(folders[-1])


def _status(options: argparse.Namespace) -> None:
    if not options.folder.is_dir():
        raise UserError(f"{options.folder} is no folder")
    statuses = status_of(options.folder, verify=options.verify)
    table = Table("folder", "stage", "state", "why")
    for status in statuses:
        table.add_row(str(status.folder.relative_to(options.folder)), status.stage, status.state, status.why)
    Console().print(table if statuses else f"no stage has run in {options.folder}")


if __name__ == "__main__":
    main()
