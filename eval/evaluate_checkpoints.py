"""Stage: recall of every checkpoint that a training run kept, on a small corpus: curves, and the one to take.

    tilewright evaluate_checkpoints CONFIG.yaml
    torchrun --nproc_per_node=8 -m tilewright.eval.evaluate_checkpoints CONFIG.yaml    # all ranks embed the tiles

A process of its own: beside a run (each checkpoint once it is written) or after it. Figures on a mini-datastore compare
checkpoints; they are no scores of the whole corpus.
"""

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main, rank_and_world, write_atomically
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.metrics import LEVELS, RowResult, Scorer, as_json
from tilewright.eval.questions import Pool, gold_outside, pair_questions
from tilewright.eval.report.curves import figures_of
from tilewright.eval.report.markup import tag
from tilewright.eval.report.page import plain_page
from tilewright.eval.scoring import Measure
from tilewright.mining.embed_tiles import Config as EmbedConfig
from tilewright.mining.embed_tiles import write_vectors
from tilewright.mining.index import TileIndex
from tilewright.mining.index_source import StoreSource
from tilewright.mining.vector_store import VectorStore
from tilewright.train.distributed import choose_device
from tilewright.train.encoder import load_encoder
from tilewright.train.encoder_io import ENCODER_FILE
from tilewright.train.run_control import torch_threads
from tilewright.train.split_files import read_pairs
from tilewright.train.training_checkpoint import CHECKPOINTS, CURVE, write_curve

_STEP = re.compile(r"step-(\d+)")
VALIDATION, TEST = "validation", "test"


@dataclass(frozen=True)
class Config:
    """``checkpoints``: folders of training runs (all of their ``checkpoints/step-N``), or such folders themselves.

    Each embeds ``tiles`` (of mini_datastore) and is asked the questions ``validation``; the first with the highest
    ``pick`` by ``level`` is picked. ``test``: questions about other pages on the same tiles, for the picked one alone.
    ``base``: the encoder before training, as step 0. ``ks``, ``depth``, ``resamples``, ``confidence``: as of evaluate.
    """

    out: Path
    ks: tuple[int, ...]
    depth: int
    pick: str
    level: Literal["page", "tile"]
    resamples: int
    confidence: float
    seed: int
    threads: int
    checkpoints: tuple[Path, ...] = input_path()
    tiles: Path = input_path()
    validation: Path = input_path()
    test: Path | None = input_path(default=None)
    base: Path | None = input_path(default=None)
    device: str = "auto"
    precision: Literal["float32", "bfloat16", "float16"] = "float32"
    names: tuple[str, ...] = field(init=False, default=())

    def __post_init__(self) -> None:
        named = tuple(folder.name if _STEP.fullmatch(folder.name) else "" for folder in self.checkpoints)
        object.__setattr__(self, "names", named)  # a step's number counts in the request, as content doesn't hold it
        if not self.ks or min(self.ks) < 1 or list(self.ks) != sorted(set(self.ks)) or self.depth < max(self.ks):
            raise ValueError(f"ks: wanted rising ks >= 1 and depth >= the last, found {self.ks} and {self.depth}")
        names = ["mrr", *(f"recall@{k}" for k in self.ks)]
        if self.pick not in names:
            raise ValueError(f"pick: wanted one of {names}, found {self.pick!r}")
        if not 0 < self.confidence < 1:
            raise ValueError(f"confidence: wanted above 0 and below 1, found {self.confidence}")
        check_bounds(self, 1, None, "resamples", "threads")
        check_bounds(self, 0, None, "seed")


def evaluate_checkpoints(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write curve.jsonl (a line a step), metrics.json and curves.html; on every rank, each with a part of the tiles.

    Raises InputError for no checkpoints, two of one step, and questions that can't be asked of these tiles.
    """
    rank, world = rank_and_world()
    folders = checkpoints_of(config.checkpoints, config.base)
    with torch_threads(config.threads):
        if rank:
            for step, folder in folders.items():
                _vectors(config, inputs, out, step, folder, rank, world)
            return {}
        asked = _Asked(config, inputs)
        found = {step: asked.of(folder, _vectors(config, inputs, out, step, folder, 0, world), VALIDATION)
                 for step, folder in folders.items()}  # fmt: skip
        picked = max(found, key=lambda step: (found[step][config.level][config.pick]["value"], -step))
        metrics: dict[str, Any] = {
            "schema": STAGE.schema,
            "tiles": len(asked.pool),
            "picked": {"step": picked, "by": f"{config.pick} by {config.level}, {VALIDATION}"},
            "chance": asked.scorers[VALIDATION].chance,
            VALIDATION: {str(step): figures for step, figures in found.items()},
        }
        if TEST in asked.scorers:
            vectors = _vectors(config, inputs, out, picked, folders[picked], 0, world)
            metrics[TEST] = asked.of(folders[picked], vectors, TEST)
    return _write(config, metrics, found, out)


def checkpoints_of(folders: Sequence[Path], base: Path | None) -> dict[int, Path]:
    """{step: folder} in rising order, ``base`` as step 0. Raises InputError for none, or two of one step."""
    found: dict[int, Path] = {} if base is None else {0: base}
    for folder in folders:
        named = [folder] if _STEP.fullmatch(folder.name) else sorted((folder / CHECKPOINTS).glob("step-*"))
        steps = {int(match[1]): one for one in named if (match := _STEP.fullmatch(one.name))}
        if not steps:
            raise InputError(
                f"checkpoints: wanted step-N, or a run with {CHECKPOINTS}/step-N (train_embedder keeps them with"
                f" keep_last above 0), found {folder}"
            )
        for step, one in steps.items():
            if step in found:
                raise InputError(f"checkpoints: wanted each step once, found step {step} in {found[step]} and {one}")
            found[step] = one
    return dict(sorted(found.items()))


def _vectors(config: Config, inputs: Inputs, out: Path, step: int, checkpoint: Path, rank: int, world: int) -> Path:
    """The folder of a checkpoint's vectors, hidden: gone when the stage ends. A rerun takes a finished one over."""
    folder = out / ".vectors" / f"step-{step}"
    if not (folder / ENCODER_FILE).is_file():  # written last, by rank 0
        folder.mkdir(parents=True, exist_ok=True)
        settings = EmbedConfig(folder, checkpoint, inputs["tiles"], model_dtype=config.precision, device=config.device)
        write_vectors(settings, {"checkpoint": checkpoint, "tiles": inputs["tiles"]}, folder, rank, world)
    return folder


class _Asked:
    """The questions of every split, and what scores them."""

    def __init__(self, config: Config, inputs: Inputs) -> None:
        self.config = config
        self.pool = Pool.of(TileStore.open(inputs["tiles"]))
        pairs = {name: read_pairs(inputs[name]) for name in (VALIDATION, TEST) if name in inputs}
        both = {pair.page_id for pair in pairs[VALIDATION]} & {pair.page_id for pair in pairs.get(TEST, ())}
        if both:
            raise InputError(
                f"test: wanted pages that no question of `validation` is about (it picks the checkpoint), found"
                f" {len(both)} of both (first: {min(both)})"
            )
        measure = Measure(config.ks, config.depth, config.resamples, config.seed, config.confidence, 0.0)
        self.scorers: dict[str, Scorer] = {}
        for name, asked in pairs.items():
            questions = pair_questions(asked)
            outside = gold_outside(questions, self.pool)
            if outside:
                raise InputError(
                    f"{name}: wanted the gold of every question among the {len(self.pool)} tiles, found"
                    f" {len(outside)} questions without (first: {outside[0]!r}): make the store with mini_datastore"
                )
            bootstrap = measure.bootstrap(questions)
            self.scorers[name] = Scorer(questions, self.pool, bootstrap, ks=config.ks, depth=config.depth)

    def of(self, checkpoint: Path, vectors: Path, split: str) -> dict[str, Any]:
        """{level: {measure: estimate}} of a checkpoint: exact search of its own vectors."""
        config, scorer = self.config, self.scorers[split]
        encoder = load_encoder(checkpoint, device=choose_device(config.device))
        source = StoreSource([VectorStore.open(vectors)])
        index = TileIndex.build_from(source, encoder_hash=source.encoder_hash)
        index.check_encoder(encoder.hash)
        queries = encoder.encode_queries([question.query for question in scorer.questions])
        hits = index.search(queries, config.depth)
        names = [question.query_id for question in scorer.questions]
        measured = scorer.measure(RowResult(dict(zip(names, hits, strict=True)), {}, {}))
        return {
            level: {name: as_json(scorer.bootstrap.mean(values)) for name, values in measured[level].items()}
            for level in LEVELS
        }


def _write(config: Config, metrics: Mapping[str, Any], found: Mapping[int, Mapping[str, Any]], out: Path) -> Counts:
    curve = [
        {"step": step}
        | {
            f"{level}_{name.replace('@', '_at_')}": estimate["value"]
            for level in LEVELS
            for name, estimate in figures[level].items()
        }
        for step, figures in found.items()
    ]
    chances = {f"{level}_chance_at_1": metrics["chance"][level].get("recall@1") for level in LEVELS}
    write_curve(out / CURVE, curve)
    write_atomically(out / "metrics.json", json.dumps(metrics, indent=1, allow_nan=False) + "\n")
    picked = metrics["picked"]["step"]
    title = f"{VALIDATION.capitalize()}, step {picked} picked ({metrics['picked']['by']})"
    figures = tag("div", *figures_of(title, curve, chances), class_="plots")
    write_atomically(out / "curves.html", plain_page("Checkpoints of a run", [figures]))
    best = found[picked][config.level][config.pick]
    counts: Counts = {"checkpoints": len(found), "tiles": metrics["tiles"], "picked_step": picked, "best": best}
    return counts | {"questions": best["n_questions"], "test": metrics.get(TEST)}


STAGE = Stage("evaluate_checkpoints", Config, evaluate_checkpoints, schema=1, distributed=True)

if __name__ == "__main__":
    main(STAGE)
