"""Stage: ask readers about the rows of make_reader_data at every compression and number of tiles, and report the grid.

Writes metrics.json, table.md, report.html and predictions/{cell}.jsonl (EvalRecord: ``hits`` are the tiles in the
order shown, ``ranks`` say where the gold tile stands among them, 0: absent). Nothing is searched.
"""

import dataclasses
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, DryRunError, Inputs, Stage, execution, input_path, main, write_atomically
from tilewright.data_gen.records import EvalRecord, QAPair, ReaderExample, read_jsonl, write_jsonl
from tilewright.eval.bootstrap import ClusterBootstrap
from tilewright.eval.checkpoints import Checkpoint, check_names, folders_of
from tilewright.eval.grading_cells import JUDGE, GraderName, JudgeOptions, grade_cells
from tilewright.eval.metrics import COMPLETE, RowResult
from tilewright.eval.open_workshop import open_workshop
from tilewright.eval.questions import clusters, subset
from tilewright.eval.reader_cells import Row, answer_rows, cell_of, check_tiles, rows_of, shrunk
from tilewright.eval.reader_metrics import ABSTAINS, CellOf, differences, entry_of, grade_absent, pareto, points_of
from tilewright.eval.reader_report import markdown, render
from tilewright.eval.readers.chat import ChatReader
from tilewright.eval.readers.local import LocalReader
from tilewright.eval.readers.nano import NanoReaderOptions
from tilewright.eval.readers.ocr import OcrReader
from tilewright.eval.readers.string_evidence import StringEvidence
from tilewright.eval.reading import Answers, records_of
from tilewright.eval.registry import Registry
from tilewright.eval.sources import Models, stand_ins
from tilewright.eval.workshop import OcrConfig, Precision, Workshop
from tilewright.train.run_control import torch_threads

ReaderOptions = LocalReader | ChatReader | NanoReaderOptions | StringEvidence | OcrReader


@dataclass(frozen=True)
class Config:
    """Ask ``readers`` about ``examples`` (train.jsonl or validation.jsonl of make_reader_data) over ``tiles``.

    Each example is asked at each of ``compressions``, whatever its own, and with each k of ``ks``: its gold tile, if it
    shows it, and others of its tiles, those for k among those for k + 1; examples with fewer than k tiles are counted
    and left out of that k. So make the rows with k_weights of the largest k alone. ``pairs``: what the examples were
    made from: aliases, pages for intervals, and what would have been right where the gold tile is absent. ``count``: so
    many examples, chosen by digest of their ids (None: all).
    ``reader_checkpoints``: model folders, with an ``adapter`` or without, for readers of kind ``local``, and
    checkpoints of train_nano_reader for ``nano``. ``compare``: pairs of readers [reader, against], for paired
    differences in every cell. ``graders``: columns of accuracy; ``judge``: a model as one more, which then decides;
    else ``alias`` if it is there, or the first. ``ocr``: for the readers that use it. ``max_error_share``: above it a
    cell is marked incomplete. ``cache``: a folder that keeps answers and grades by content, for runs with other readers
    or cells.
    """

    out: Path
    readers: dict[str, ReaderOptions]
    compressions: tuple[float, ...]
    ks: tuple[int, ...]
    compare: tuple[tuple[str, str], ...]
    count: int | None
    max_error_share: float
    resamples: int
    confidence: float
    threads: int
    seed: int
    ocr: OcrConfig
    examples: Path = input_path()
    tiles: Path = input_path()
    pairs: Path | None = input_path(default=None)
    reader_checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    reader_folders: tuple[Path, ...] = input_path(init=False)
    graders: tuple[GraderName, ...] = ("exact", "alias", "token_f1")
    judge: JudgeOptions | None = None
    cache: Path | None = execution(default=None)
    device: str = "auto"
    precision: Precision = "float32"

    def __post_init__(self) -> None:
        object.__setattr__(self, "reader_folders", folders_of(self.reader_checkpoints))
        check_bounds(self, 1, None, "count", "resamples", "threads")
        check_bounds(self, 0, None, "seed")
        check_bounds(self, 0, 1, "max_error_share", "confidence")
        if self.confidence in (0, 1):
            raise ValueError(f"confidence: wanted above 0 and below 1, found {self.confidence}")
        check_names("readers", [*self.readers], ())
        check_names("reader_checkpoints", [*self.reader_checkpoints], ())
        for key, values in (("compressions", self.compressions), ("ks", self.ks)):
            if not values or min(values) < 1 or list(values) != sorted(set(values)):
                raise ValueError(f"{key}: wanted rising numbers of at least 1, found {list(values)}")
        if not self.readers or not self.graders or len(set(self.graders)) < len(self.graders):
            raise ValueError("wanted at least one reader and one grader, each once")
        for name in (name for pair in self.compare for name in pair):
            if name not in self.readers:
                raise ValueError(f"compare: wanted some of {sorted(self.readers)}, found {name!r}")

    @property
    def columns(self) -> tuple[str, ...]:
        """Graders of rows that show their gold tile."""
        return (*self.graders, *([JUDGE] if self.judge is not None else []))

    @property
    def deciding(self) -> str:
        """The grader whose accuracy is broken down and plotted."""
        return next((name for name in (JUDGE, "alias") if name in self.columns), self.columns[0])

    def as_dry_run(self, out: Path) -> "Config":
        """The same, asking no model: it ends with what they would be asked."""
        readers: dict[str, ReaderOptions] = {
            name: dataclasses.replace(reader, llm=dataclasses.replace(reader.llm, dry_run=True))
            for name, reader in self.readers.items()
            if isinstance(reader, ChatReader)
        }
        if not readers:
            raise InputError("readers: none of them asks a served model")
        return dataclasses.replace(self, out=out, readers=readers, compare=())


class Grid:
    """All cells of a run: what each question is shown by k, the readers, their answers and grades."""

    def __init__(self, config: Config, workshop: Workshop, rows: Sequence[Row]) -> None:
        self.config, self.workshop = config, workshop
        kept = {k: [shrunk(row, k, config.seed) for row in rows] for k in config.ks}
        self.rows = {k: [row for row in found if row is not None] for k, found in kept.items()}
        for k, found in self.rows.items():
            if not found:
                raise InputError(f"ks: {k}: none of the {len(rows)} examples has so many tiles: wanted smaller ones")
        registry = Registry(workshop, {}, {}, config.readers)
        self.readers = {name: registry.reader(name) for name in config.readers}
        self.bootstraps = {k: self._bootstrap(found) for k, found in self.rows.items()}

    def _bootstrap(self, rows: Sequence[Row]) -> ClusterBootstrap:
        config, pages = self.config, clusters([row.question for row in rows])
        return ClusterBootstrap(pages, resamples=config.resamples, seed=config.seed, confidence=config.confidence)

    def cells(self) -> list[CellOf]:
        """Every cell, answered and graded; raises DryRunError with the calls of all if none may be asked."""
        return [of for k in self.config.ks for of in self._cells_of(k)]

    def answers(self, k: int) -> list[tuple[float, Answers]]:
        """(compression, answers) of every reader and compression at k."""
        item_of, cache, rows = self.workshop.tile_item, self.workshop.cache, self.rows[k]
        return [
            (factor, answer_rows(cell_of(name, factor, k), factor, reader, rows, item_of, cache))
            for name, reader in self.readers.items()
            for factor in self.config.compressions
        ]

    def _cells_of(self, k: int) -> list[CellOf]:
        config, rows, found = self.config, self.rows[k], self.answers(k)
        shown = [row.question for row in rows if row.shows_gold]
        every = [answers for _, answers in found]
        graded = grade_cells(every, shown, config.graders, config.judge, self.workshop.cache, config.max_error_share)
        return [
            CellOf(answers.cell.reader, factor, k, rows, self._records(answers, rows, graded[answers.cell.name]))
            for factor, answers in found
        ]

    def _records(self, answers: Answers, rows: Sequence[Row], graded: Any) -> list[EvalRecord]:
        """One record a row, in the order of the rows."""
        result = RowResult(
            {row.question.query_id: [(tile_id, 0.0) for tile_id in row.tile_ids] for row in rows},
            {},
            {},
            page_of=self.workshop.pool.page_of,
        )
        absent = [row for row in rows if not row.shows_gold]
        sorts = (
            ([row.question for row in rows if row.shows_gold], graded, self.config.deciding),
            ([row.question for row in absent], {ABSTAINS: grade_absent(answers, absent)}, ABSTAINS),
        )
        cost, urls = self.readers[answers.cell.reader].cost, self.workshop.urls
        records = {
            record.query_id: record
            for questions, outcomes, deciding in sorts
            for record in records_of(answers, result, questions, outcomes, deciding, cost, urls)
        }
        return [records[row.question.query_id] for row in rows]


def evaluate_reader(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Raises InputError for examples, pairs, tiles or checkpoints that don't belong together."""
    pairs = read_jsonl(inputs["pairs"], QAPair, unique="query_id") if "pairs" in inputs else None
    examples = read_jsonl(inputs["examples"], ReaderExample, unique="query_id")
    where = str(inputs["examples"])
    rows = rows_of(examples, None if pairs is None else {pair.query_id: pair for pair in pairs}, where)
    if not rows:
        raise InputError(f"{where}: wanted at least one example, found none")
    chosen = subset([row.question for row in rows], config.count or len(rows), config.seed, "reader grid")
    wanted = {question.query_id for question in chosen}
    rows = [row for row in rows if row.question.query_id in wanted]
    workshop = open_workshop(config, inputs, out)
    check_tiles(rows, workshop.store, where)
    grid = Grid(config, workshop, rows)
    with torch_threads(config.threads), workshop.cache.locked():
        _report_cost(grid)
        cells = grid.cells()
        annotators = {pair.annotator for pair in pairs or () if pair.query_id in wanted}
        metrics = _metrics(config, grid, cells, len(rows), annotators)
    (out / "predictions").mkdir(exist_ok=True)
    for of in cells:
        write_jsonl(out / "predictions" / f"{of.name}.jsonl", of.records)
    write_atomically(out / "metrics.json", json.dumps(metrics, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_atomically(out / "table.md", markdown(metrics))
    write_atomically(out / "report.html", render(metrics))
    return {
        "examples": len(rows),
        "gold_absent": sum(not row.shows_gold for row in rows),
        "cells": len(cells),
        "cells_not_complete": sum(entry["status"] != COMPLETE for entry in metrics["grid"]),
        "errors": sum(entry["n_errors"] for entry in metrics["grid"]),
        "fewer_tiles": {str(k): len(rows) - len(found) for k, found in grid.rows.items()},
    }


def _report_cost(grid: Grid) -> None:
    """Of a dry run: raise DryRunError with the calls of all cells; a judge's aren't counted."""
    readers = [options for options in grid.config.readers.values() if isinstance(options, ChatReader)]
    if not any(options.llm.dry_run for options in readers):
        return
    lines, counts = [], dict[str, Mapping[str, float]]()
    for name, reader in grid.readers.items():
        for factor in grid.config.compressions:
            for k, rows in grid.rows.items():
                cell = cell_of(name, factor, k)
                try:
                    answer_rows(cell, factor, reader, rows, grid.workshop.tile_item, grid.workshop.cache)
                except DryRunError as error:
                    lines.append(f"{cell.name}: {error}")
                    counts |= {f"{cell.name}/{purpose}": sums for purpose, sums in error.counts.items()}
    raise DryRunError("\n".join(lines), counts)


def _metrics(
    config: Config, grid: Grid, cells: Sequence[CellOf], examples: int, annotators: set[str]
) -> dict[str, Any]:
    entries = [
        entry_of(of, config.columns, config.deciding, grid.bootstraps[of.k], config.max_error_share) for of in cells
    ]
    models = Models({}, {name: checkpoint.folder for name, checkpoint in config.reader_checkpoints.items()})
    lines = [f"Reader {name}: {reader.stand_in}" for name, reader in grid.readers.items() if reader.stand_in]
    names = ("compressions", "ks", "count", "confidence", "resamples", "seed", "max_error_share", "precision")
    return {
        "schema": STAGE.schema,
        "settings": {name: getattr(config, name) for name in names},
        "graders": {"columns": list(config.columns), "deciding": config.deciding},
        "readers": {name: reader.title for name, reader in grid.readers.items()},
        "stand_ins": [*stand_ins(annotators, models, ()), *lines],
        "n_examples": examples,
        "fewer_tiles": {str(k): examples - len(rows) for k, rows in grid.rows.items()},
        "grid": entries,
        "differences": differences(cells, config.compare, config.columns, grid.bootstraps),
        "pareto": pareto(points_of(entries, config.deciding)),
    }


STAGE = Stage("evaluate_reader", Config, evaluate_reader, schema=1)

if __name__ == "__main__":
    main(STAGE)
