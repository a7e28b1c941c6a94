"""Stage: search the questions with every retriever, ask every reader, and report every row.

Writes metrics.json, table.md, table.tex, runs/{row}.trec, qrels_tiles.trec, qrels_pages.trec, records/{row}.jsonl,
report.html and report_pictures/. All but the latencies in metrics.json and report.html are the same for equal requests.
"""

import dataclasses
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import LOGS
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main, write_atomically
from tilewright.data_gen.records import write_jsonl
from tilewright.eval.agent.options import Agent, check_agents
from tilewright.eval.agent.outputs import copy_agent_steps
from tilewright.eval.checkpoints import Checkpoint, check_names, folders_of, runs_of
from tilewright.eval.dry_run import report_cost
from tilewright.eval.evaluation import Evaluation, Plan
from tilewright.eval.evidence_judge import RULES_JUDGE, EvidenceJudge, GroundedEvidence, dry
from tilewright.eval.grading_cells import GraderName, JudgeOptions
from tilewright.eval.metrics import INCOMPLETE, NOT_RUN
from tilewright.eval.open_workshop import open_workshop
from tilewright.eval.outputs import write_rankings
from tilewright.eval.questions import benchmark_questions, pair_questions, subset, widened, with_kinds
from tilewright.eval.readers.chat import ChatReader
from tilewright.eval.registry import (
    BUILT_IN_DELIVERIES,
    BUILT_IN_RETRIEVERS,
    DeliveryOptions,
    ReaderOptions,
    Registry,
    RetrieverOptions,
    check_hybrids,
)
from tilewright.eval.report.build import write_report
from tilewright.eval.rows import RowSpec, cells_of, listed, specs_of
from tilewright.eval.scoring import Measure
from tilewright.eval.seed_arms import SeedArms
from tilewright.eval.show_results import show
from tilewright.eval.sources import Models, TrainingRun, describe, nano_lines, training_runs
from tilewright.eval.workshop import OcrConfig, Precision, Workshop
from tilewright.train.run_control import torch_threads
from tilewright.train.split_files import read_pairs


@dataclass(frozen=True)
class Config:
    """Evaluate ``rows`` on ``pairs``, or on a benchmark's ``questions`` (of make_questions), over all ``tiles``.

    ``rows``: names of retrievers (recall alone), or RowSpec: Retriever x Delivery x Reader and k. Retrievers are the
    ``checkpoints``, what ``retrievers`` declares, and bm25, ocr, gold, none; ``deliveries`` besides as_is; ``readers``.
    ``compare``: pairs [row, against] of retrievers or cells for paired differences. ``seeds``: {arm: rows that differ
    by their training seed alone}, averaged; ``compare_seeds``: pairs of arms. ``rendered``: the tiles as they were
    rendered, where ``tiles`` holds smaller pictures of them: readers are given those. ``pages``: the documents behind
    them, for rows of text; ``dump``: the MediaWiki dump they came from, for wikitext. ``redirects``: JSON {address:
    address}, pages that count as one in recall; ``positives`` (of find_positives): further tiles that count as found.
    ``ks``: cut-offs of recall; ``depth``: hits kept per question, cut-off of MRR. ``read_questions``: how many readers
    are asked, chosen by digest of their ids (None: all). ``graders``: columns of accuracy; ``judge``: a model as one
    more, which then decides; ``evidence_judge``: who judges the hits, for evidence recall besides that by string.
    ``missing_tool``: whether a row whose tool isn't installed is an error or is shown as not run. ``max_error_share``:
    above it a row is marked incomplete.
    ``cache``: a folder that keeps hits, texts, predictions and grades by content: a run with one row more (into another
    ``out``) works out that row alone. ``resamples``, ``confidence``: of the cluster bootstrap. ``splits`` (folder with
    pages.json) is checked for questions on training pages; ``memorise_run`` and each checkpoint's ``run`` are training
    stages whose curves are shown; ``before``: stages named in the report. ``shown_questions`` have their pictures in
    the report, at most ``shown_hits`` a row; those of all others lie beside it if ``all_pictures``.
    """

    out: Path
    rows: tuple[str | RowSpec, ...]
    compare: tuple[tuple[str, str], ...]
    ks: tuple[int, ...]
    depth: int
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
    pairs: Path | None = input_path(default=None)
    questions: Path | None = input_path(default=None)
    splits: Path | None = input_path(default=None)
    rendered: Path | None = input_path(default=None)
    pages: Path | None = input_path(default=None)
    dump: Path | None = input_path(default=None)
    redirects: Path | None = input_path(default=None)
    positives: Path | None = input_path(default=None)
    checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    reader_checkpoints: dict[str, Checkpoint] = field(default_factory=dict)
    checkpoint_folders: tuple[Path, ...] = input_path(init=False)
    reader_folders: tuple[Path, ...] = input_path(init=False)
    seeds: dict[str, tuple[str, ...]] = field(default_factory=dict)
    compare_seeds: tuple[tuple[str, str], ...] = ()
    retrievers: dict[str, RetrieverOptions] = field(default_factory=dict)
    deliveries: dict[str, DeliveryOptions] = field(default_factory=dict)
    readers: dict[str, ReaderOptions] = field(default_factory=dict)
    read_questions: int | None = None
    graders: tuple[GraderName, ...] = ("exact", "alias", "token_f1")
    judge: JudgeOptions | None = None
    evidence_judge: EvidenceJudge | None = None
    cache: Path | None = execution(default=None)
    memorise_run: Path | None = input_path(default=None)
    before: tuple[Path, ...] = input_path(default=())
    all_pictures: bool = False
    device: str = "auto"
    precision: Precision = "float32"
    dry_run: bool = execution(default=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "checkpoint_folders", folders_of(self.checkpoints))
        object.__setattr__(self, "reader_folders", folders_of(self.reader_checkpoints))
        if not self.ks or min(self.ks) < 1 or list(self.ks) != sorted(set(self.ks)) or self.depth < max(self.ks):
            raise ValueError(f"ks: wanted rising ks >= 1 and depth >= the last, found {self.ks} and {self.depth}")
        check_bounds(self, 1, None, "threads", "shown_hits", "resamples", "read_questions")
        check_bounds(self, 0, None, "shown_questions", "seed")
        check_bounds(self, 0, 1, "max_error_share", "confidence")
        if self.confidence in (0, 1):
            raise ValueError(f"confidence: wanted above 0 and below 1, found {self.confidence}")
        if not self.graders or len(set(self.graders)) < len(self.graders):
            raise ValueError(f"graders: wanted at least one, each once, found {list(self.graders)}")
        if (self.pairs is None) == (self.questions is None):
            raise ValueError("pairs: wanted them, or `questions` (of make_questions) instead, found both or none")
        _check_rows(self)

    def as_dry_run(self, out: Path) -> "Config":
        """The same, asking no model: it ends with what they would be asked."""
        readers = {
            name: dataclasses.replace(reader, llm=dataclasses.replace(reader.llm, dry_run=True))
            if isinstance(reader, ChatReader | Agent)
            else reader
            for name, reader in self.readers.items()
        }
        judge = self.judge and dataclasses.replace(self.judge, llm=dataclasses.replace(self.judge.llm, dry_run=True))
        evidence = self.evidence_judge and dry(self.evidence_judge)
        return dataclasses.replace(self, out=out, readers=readers, judge=judge, evidence_judge=evidence, dry_run=True)


def _check_rows(config: Config) -> None:
    """Raise ValueError for a name that nothing has, or one that can't be part of a row's."""
    check_names("checkpoints", [*config.checkpoints, *config.retrievers], tuple(BUILT_IN_RETRIEVERS))
    check_names("deliveries", list(config.deliveries), tuple(BUILT_IN_DELIVERIES))
    check_names("readers", [*config.readers], ())
    check_names("reader_checkpoints", [*config.reader_checkpoints], ())
    specs = specs_of(config.rows)
    known = {
        "retriever": [*config.checkpoints, *config.retrievers, *BUILT_IN_RETRIEVERS],
        "delivery": [*config.deliveries, *BUILT_IN_DELIVERIES],
        "reader": list(config.readers),
    }
    if len(set(known["retriever"])) < len(known["retriever"]):
        raise ValueError(f"retrievers: wanted other names than those of checkpoints, found {known['retriever']}")
    check_hybrids(config.retrievers, dict.fromkeys(known["retriever"]))
    if not specs or len(set(config.rows)) < len(config.rows):
        raise ValueError(f"rows: wanted at least one, each once, found {list(config.rows)}")
    for spec in specs:
        for part, names in known.items():
            for name in listed(getattr(spec, part)):
                if name not in names:
                    raise ValueError(f"rows: no {part} {name!r}; there are {names}")
        if max(spec.k) > config.depth and any(True for _ in spec.cells()):
            raise ValueError(f"rows: wanted k of at most depth {config.depth}, found {spec.k}")
    check_agents(cells_of(specs), config.readers, {**BUILT_IN_RETRIEVERS, **config.retrievers})
    searched, cells = [name for spec in specs for name in spec.retrievers], [cell.name for cell in cells_of(specs)]
    SeedArms(config.seeds, config.compare_seeds).check(searched, cells)
    rows = [*searched, *cells]
    for pair in config.compare:
        for name in pair:
            if name not in rows:
                raise ValueError(f"compare: wanted rows of this run ({list(dict.fromkeys(rows))}), found {name!r}")


def evaluate(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Score every row; raise InputError for questions, tiles or runs that can't be evaluated."""
    pairs = read_pairs(inputs["pairs"]) if "pairs" in inputs else []
    asked = pair_questions(pairs) if pairs else benchmark_questions(inputs["questions"])
    workshop = open_workshop(config, inputs, out, config.checkpoints)
    found = widened(asked, workshop.urls, inputs.get("redirects"), inputs.get("positives"))
    questions = with_kinds(found, workshop.kinds)
    workshop = dataclasses.replace(workshop, questions=questions)
    readers = runs_of(config.reader_checkpoints)
    runs = training_runs(inputs, runs_of(config.checkpoints), readers)
    models = Models(_folders(config.checkpoints), _folders(config.reader_checkpoints))
    annotators = {pair.annotator for pair in pairs}
    sources = describe(inputs, models, config.before, questions, annotators, workshop.pool, runs)
    registry = Registry(workshop, config.retrievers, config.deliveries, config.readers)
    evaluation = Evaluation(registry, _plan(config, workshop))
    if config.dry_run:
        report_cost(evaluation)
    with torch_threads(config.threads), workshop.cache.locked():
        evaluation.run()
        metrics = {"schema": STAGE.schema, "settings": _settings(config), **sources, **evaluation.metrics()}
        metrics["stand_ins"] = [*sources["stand_ins"], *nano_lines(evaluation.results), *_stand_ins(evaluation)]
        metrics["latency"] = evaluation.latencies().table()
        _write(config, evaluation, metrics, out, runs)
    return _counts(metrics)


def _folders(checkpoints: Mapping[str, Checkpoint]) -> dict[str, Path]:
    return {name: checkpoint.folder for name, checkpoint in checkpoints.items()}


def _plan(config: Config, workshop: Workshop) -> Plan:
    count = len(workshop.questions) if config.read_questions is None else config.read_questions
    return Plan(
        specs=specs_of(config.rows),
        measure=Measure(
            config.ks, config.depth, config.resamples, config.seed, config.confidence, config.max_error_share
        ),
        compare=config.compare,
        graders=config.graders,
        judge=config.judge,
        read=subset(workshop.questions, count, config.seed, "readers"),
        missing_is_error=config.missing_tool == "error",
        seeds=SeedArms(config.seeds, config.compare_seeds),
        evidence_judge=config.evidence_judge,
    )


def _stand_ins(evaluation: Evaluation) -> list[str]:
    readers = {cell.reader: evaluation.registry.reader(cell.reader) for cell in evaluation.records}
    said = [f"Reader {name}: {reader.stand_in}" for name, reader in readers.items() if reader.stand_in]
    return said + ([RULES_JUDGE] if isinstance(evaluation.plan.evidence_judge, GroundedEvidence) else [])


def _write(
    config: Config, evaluation: Evaluation, metrics: Mapping[str, Any], out: Path, runs: list[TrainingRun]
) -> None:
    workshop = evaluation.registry.workshop
    write_rankings(out, workshop.questions, workshop.pool, workshop.urls, evaluation.results)
    for cell, records in evaluation.records.items():
        write_jsonl(out / "records" / f"{cell.name}.jsonl", records)
    copy_agent_steps(evaluation.registry, evaluation.answers, evaluation.plan.read, out)
    write_atomically(out / "metrics.json", json.dumps(metrics, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    write_report(out, metrics, evaluation, runs, config)
    (out / LOGS).mkdir(exist_ok=True)
    timings = [{"part": part, "seconds": round(seconds, 3)} for part, seconds in evaluation.seconds.items()]
    (out / LOGS / "timings.jsonl").write_text("".join(json.dumps(line) + "\n" for line in timings), encoding="utf-8")


def _settings(config: Config) -> dict[str, Any]:
    """What the report says about how figures were made."""
    names = ("ks", "depth", "confidence", "resamples", "seed", "max_error_share", "read_questions")
    return {name: getattr(config, name) for name in names}


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
            name: {
                level: {key: value["value"] for key, value in row[level].items()}
                for level in ("page", "tile")
                if level in row
            }
            for name, row in rows.items()
            if row["status"] != NOT_RUN
        },
    }


STAGE = Stage("evaluate", Config, evaluate, schema=4, show=show)

if __name__ == "__main__":
    main(STAGE)
