"""Stage: rebuild the tile index from each checkpoint, search the test questions, and report every row.

Writes metrics.json, runs/{row}.trec, qrels_tiles.trec, qrels_pages.trec, records/{row}.jsonl and report.html.
"""

import dataclasses
import json
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import LOGS
from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main, write_atomically
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.checkpoints import Checkpoint, check_names, folders_of, runs_of
from tilewright.eval.metrics import INCOMPLETE, LEVELS, NOT_RUN, RowResult, Scorer
from tilewright.eval.outputs import write_rankings
from tilewright.eval.questions import Pool, clusters, subset
from tilewright.eval.reader_grid import NO_GRID, Asked, Grid, ReaderConfig, read_grid
from tilewright.eval.readers import GOLD
from tilewright.eval.report.build import shown_question, write_report
from tilewright.eval.report.curves import figures_of
from tilewright.eval.rows import TEXT_ROWS, OcrConfig, Precision, RowContext, rows_of
from tilewright.eval.show_results import show
from tilewright.eval.sources import describe, nano_lines, training_runs
from tilewright.eval.tools import MissingToolError
from tilewright.train.reader import load_reader
from tilewright.train.run_control import torch_threads
from tilewright.train.split_files import read_pairs


@dataclass(frozen=True)
class Config:
    """Evaluate embedder ``checkpoints`` and readers on the questions ``pairs`` over all ``tiles``.

    ``rows``: the retrievers, by name of a checkpoint or of tilewright.eval.rows.TEXT_ROWS; ``compare``: pairs [row,
    against] for paired differences. ``rendered``: the tiles as they were rendered, where ``tiles`` holds smaller
    pictures of them: readers are given those, and they say what corpus is searched.
    ``ks``: cut-offs of recall; ``depth``: hits kept per question, cut-off of MRR. ``missing_tool``: whether a row whose
    tool isn't installed is an error or is shown as not run. ``max_error_share``: above it a row is marked incomplete.
    ``resamples`` and ``confidence`` of the cluster bootstrap. ``splits`` (folder with pages.json) is checked for
    questions on training pages; ``memorise_run``, ``reader_run`` and each checkpoint's ``run`` are folders of training
    stages whose curves are shown; ``before`` are stages named in the report. ``device``: auto takes the accelerator if
    there is one.
    """

    out: Path
    rows: tuple[str, ...]
    compare: tuple[tuple[str, str], ...]
    ks: tuple[int, ...]
    depth: int
    readers: ReaderConfig | None
    ocr: OcrConfig
    missing_tool: Literal["error", "not_run"]
    max_error_share: float
    resamples: int
    confidence: float
    shown_questions: int
    shown_hits: int
    threads: int
    seed: int
    tiles: Path = input_path()
    pairs: Path = input_path()
    splits: Path | None = input_path(default=None)
    rendered: Path | None = input_path(default=None)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    checkpoint_folders: tuple[Path, ...] = input_path(init=False)
    reader_base: Path | None = input_path(default=None)
    reader_trained: Path | None = input_path(default=None)
    memorise_run: Path | None = input_path(default=None)
    reader_run: Path | None = input_path(default=None)
    before: tuple[Path, ...] = input_path(default=())
    device: str = "auto"
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "checkpoint_folders", folders_of(self.checkpoints))
        _check_rows(self)
        if not self.ks or min(self.ks) < 1 or list(self.ks) != sorted(set(self.ks)) or self.depth < max(self.ks):
            raise ValueError(f"ks: wanted rising ks >= 1 and depth >= the last, found {self.ks} and {self.depth}")
        check_bounds(self, 1, None, "threads", "shown_hits", "resamples")
        check_bounds(self, 0, None, "shown_questions", "seed")
        check_bounds(self, 0, 1, "max_error_share", "confidence")
        if self.confidence in (0, 1):
            raise ValueError(f"confidence: wanted above 0 and below 1, found {self.confidence}")


def _check_rows(config: Config) -> None:
    used = [("compare", name) for pair in config.compare for name in pair]
    used += [("readers.tiles_from", name) for name in (config.readers.retrievers if config.readers else ())]
    if len(set(config.rows)) != len(config.rows) or not config.rows:
        raise ValueError(f"rows: wanted at least one, each once, found {list(config.rows)}")
    check_names(config.checkpoints, (*TEXT_ROWS, GOLD))
    for name in config.rows:
        if name not in TEXT_ROWS and name not in config.checkpoints:
            raise ValueError(
                f"rows: no row {name!r}; there are {list(TEXT_ROWS)}, and of checkpoints {list(config.checkpoints)}"
            )
    for key, name in used:
        if name not in config.rows:
            raise ValueError(f"{key}: wanted rows of this run ({list(config.rows)}), found {name!r}")


def evaluate(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Score every row and reader; raise InputError for questions, tiles or runs that can't be evaluated."""
    store = TileStore.open(inputs["tiles"])
    pairs, pool = read_pairs(inputs["pairs"]), Pool.of(store)
    rendered = _rendered(inputs, store)
    runs = training_runs(inputs, runs_of(config.checkpoints))
    folders = {name: checkpoint.folder for name, checkpoint in config.checkpoints.items()}
    sources = describe(inputs, folders, config.before, pairs, pool, runs)
    titles, urls = _titles_and_urls(store)
    rows = rows_of(config.checkpoints)
    context = RowContext(store, pool, pairs, out, config.depth, folders, config.ocr, config.device, config.precision)
    with torch_threads(config.threads):
        missing = _missing_tools(config, context)
        results = {}
        for name in config.rows:
            if name not in missing:
                with _timed(out, name):
                    results[name] = rows[name].run(context)
        with _timed(out, "readers"):
            grid = _read(config, inputs, context, rendered, results, urls)
    metrics = {
        "schema": STAGE.schema,
        "settings": _settings(config),
        **sources,
        "stand_ins": [*sources["stand_ins"], *nano_lines(results)],
        **_score(config, pairs, pool, results, missing),
        "readers": list(grid.summaries),
        "costs": dict(grid.costs),
    }
    write_rankings(out, pairs, pool, urls, results, config.depth)
    write_atomically(out / "metrics.json", json.dumps(metrics, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    shown = [
        shown_question(pair, pool, titles, results, grid.of(pair), pictured=config.shown_hits)
        for pair in subset(pairs, config.shown_questions, config.seed, "shown")
    ]
    figures = [figure for run in runs for figure in figures_of(run.title, run.curve, run.counts)]
    write_report(out / "report.html", metrics, shown, figures, store)
    return _counts(metrics)


def _titles_and_urls(store: TileStore) -> tuple[dict[str, str], dict[str, str]]:
    """({page_id: title}, {page_id: url}) of the pages in a store."""
    titles, urls = {}, {}
    for tile in store.iterate_light():
        titles[tile.page_id], urls[tile.page_id] = tile.title, tile.url
    return titles, urls


def _rendered(inputs: Inputs, store: TileStore) -> TileStore:
    """The tiles that readers are given. Raises InputError for a searched tile that isn't among them."""
    if "rendered" not in inputs:
        return store
    rendered = TileStore.open(inputs["rendered"])
    missing = next((tile_id for tile_id in store.tile_ids if tile_id not in rendered), None)
    if missing is not None:
        raise InputError(f"rendered: tile {missing} of {store.folder} is not in {rendered.folder}: other tiles?")
    return rendered


def _missing_tools(config: Config, context: RowContext) -> dict[str, str]:
    """{row: reason} of the rows that can't run. Raises MissingToolError instead if the config says so."""
    missing, rows = {}, rows_of(config.checkpoints)
    for name in config.rows:
        try:
            rows[name].require(context)
        except MissingToolError as error:
            if config.missing_tool == "error":
                raise MissingToolError(
                    f"row {name!r}: {error}; or take the row out, or set missing_tool: not_run to show it as not run"
                ) from error
            missing[name] = str(error)
    return missing


def _read(
    config: Config,
    inputs: Inputs,
    context: RowContext,
    rendered: TileStore,
    results: Mapping[str, RowResult],
    urls: Mapping[str, str],
) -> Grid:
    folders = {name: inputs[f"reader_{name}"] for name in ("base", "trained") if f"reader_{name}" in inputs}
    if config.readers is None or not folders:
        return NO_GRID
    readers = {name: load_reader(folder, device=context.place, dtype=context.dtype) for name, folder in folders.items()}
    asked = Asked(
        context.pairs,
        rendered,
        results,
        urls,
        seed=config.seed,
        resamples=config.resamples,
        confidence=config.confidence,
        max_error_share=config.max_error_share,
    )
    return read_grid(config.readers, readers, asked, context.out)


def _score(
    config: Config, pairs: Sequence[QAPair], pool: Pool, results: Mapping[str, RowResult], missing: Mapping[str, str]
) -> dict[str, Any]:
    """Chance, rows and paired differences of metrics.json. A difference needs both of its rows."""
    bootstrap = ClusterBootstrap(
        clusters(pairs), resamples=config.resamples, seed=config.seed, confidence=config.confidence
    )
    scorer = Scorer(pairs, pool, bootstrap, ks=config.ks, depth=config.depth)
    measured = {name: scorer.measure(result) for name, result in results.items()}
    rows, titles = {}, {name: row.title for name, row in rows_of(config.checkpoints).items()}
    for name in config.rows:
        title = {"title": titles[name]}
        if name in missing:
            rows[name] = title | {"status": NOT_RUN, "reason": missing[name]}
        else:
            rows[name] = title | scorer.summary(results[name], measured[name], config.max_error_share)
    differences = [
        {"row": row, "against": against} | scorer.difference(measured[row], measured[against])
        for row, against in config.compare
        if row in measured and against in measured
    ]
    return {"chance": scorer.chance, "rows": rows, "differences": differences}


def _settings(config: Config) -> dict[str, Any]:
    """What the report says about how figures were made."""
    names = ("ks", "depth", "confidence", "resamples", "seed", "max_error_share")
    settings = {name: getattr(config, name) for name in names}
    if config.readers is not None:
        settings["readers"] = dataclasses.asdict(config.readers)
    return settings


def _counts(metrics: Mapping[str, Any]) -> Counts:
    rows, readers = metrics["rows"], metrics["readers"]
    statuses = [row["status"] for row in [*rows.values(), *readers]]
    return {
        "questions": metrics["questions"]["n_questions"],
        "tiles": metrics["pool"]["n_tiles"],
        "rows": len(rows),
        "rows_not_run": statuses.count(NOT_RUN),
        "reader_cells": len(readers),
        "incomplete": statuses.count(INCOMPLETE),
        "errors": sum(row.get("n_errors", 0) for row in [*rows.values(), *readers]),
        "recall": {
            name: {level: {key: value["value"] for key, value in row[level].items()} for level in LEVELS}
            for name, row in rows.items()
            if row["status"] != NOT_RUN
        },
    }


@contextmanager
def _timed(out: Path, part: str) -> Iterator[None]:
    """Add a line to logs/timings.jsonl: how long a part of this run took (a resumed one skips what was finished)."""
    started = time.monotonic()
    yield
    path = out / LOGS / "timings.jsonl"
    path.parent.mkdir(exist_ok=True)
    with path.open("a", encoding="utf-8") as file:
        file.write(json.dumps({"part": part, "seconds": round(time.monotonic() - started, 3)}) + "\n")


STAGE = Stage("evaluate", Config, evaluate, schema=2, show=show)

if __name__ == "__main__":
    main(STAGE)
