"""Stage: train a nano reader on reader rows by the loss of the answer alone: its eyes at low resolution, its pointing.

Writes checkpoint/ (tower/ and scorer) and curve.jsonl. Rows are chosen for validation by page; the weights of the epoch
that answered most of them right are kept, without such rows those of the last. Killed after its tower was trained, it
goes on from there.
"""

import json
import random
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.progress import Progress
from tilewright.configs.stage import Counts, Inputs, Stage, StageError, execution, input_path, log_path, main
from tilewright.data_gen.records import ReaderExample, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.adapters import LoraGroup
from tilewright.train.nano_folder import figures, write_nano
from tilewright.train.nano_reader import SpanScorer
from tilewright.train.nano_reader_checkpoint import TOWER, load_scorer, save_scorer
from tilewright.train.nano_reader_readings import Readings, load_tower
from tilewright.train.nano_reader_tower import TowerSettings, piece_of, train_tower
from tilewright.train.nano_reader_training import (
    Figures,
    Row,
    Settings,
    copy_of,
    figures_of,
    is_held_out,
    normalise,
    row_of,
    train_scorer,
)
from tilewright.train.run_control import torch_threads

CHECKPOINT, CURVE, READINGS = "checkpoint", "curve.jsonl", ".readings"


@dataclass(frozen=True)
class TowerConfig:
    """LoRA ``groups`` ({group: {rank, alpha}}; nano has vit_attn, vit_mlp, heads) on the tower, for ``steps`` of
    ``batch_size`` pieces of tiles at their rows' compressions."""

    steps: int
    batch_size: int
    learning_rate: float
    warmup_steps: int
    groups: dict[str, LoraGroup]

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "steps", "batch_size")
        if not 0 <= self.warmup_steps <= self.steps or not self.learning_rate > 0:
            raise ValueError(
                f"tower: wanted a learning_rate above 0 and 0 to {self.steps} warmup_steps, found"
                f" {self.learning_rate} and {self.warmup_steps}"
            )
        rates = [name for name, group in self.groups.items() if group.learning_rate is not None]
        if rates:
            raise ValueError(f"tower: groups: wanted no learning_rate, there is one for all, found it in {rates}")


@dataclass(frozen=True)
class Config:
    """Train on ``examples`` (folder of make_reader_data; its train.jsonl) with the pictures of ``tiles``.

    ``model``: a nano folder, the eyes to start from; ``reader``: checkpoint/ of a reader trained before, whose scorer
    this one starts from, and which finds the answers' places for ``tower`` (null: the eyes stay as they are).
    ``compression``: at which all rows are read (null: each at its own). ``epochs`` over the rows in batches of
    ``batch_size``, AdamW, cosine after ``warmup_steps``; ``width`` of the scorer. ``held_out_share`` of the pages' rows
    serve to choose the epoch. ``pointing_rows``: so many rows, drawn by seed, are for the scorer, those that choose its
    epoch among them (null: all; the eyes learn from all in any case). ``readings``: a folder that keeps what towers
    read, for other runs.
    """

    out: Path
    compression: float | None
    tower: TowerConfig | None
    width: int
    epochs: int
    batch_size: int
    learning_rate: float
    weight_decay: float
    warmup_steps: int
    held_out_share: float
    seed: int
    threads: int
    model: Path = input_path()
    examples: Path = input_path()
    tiles: Path = input_path()
    reader: Path | None = input_path(default=None)
    pointing_rows: int | None = None
    readings: Path | None = execution(default=None)

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "width", "epochs", "batch_size", "threads", "pointing_rows")
        check_bounds(self, 0, None, "weight_decay", "warmup_steps", "seed")
        check_bounds(self, 0, 1, "held_out_share")
        if not self.learning_rate > 0:
            raise ValueError(f"learning_rate: wanted more than 0, found {self.learning_rate}")
        if self.compression is not None and self.compression < 1:
            raise ValueError(f"compression: wanted at least 1, found {self.compression}")
        if self.tower is not None and self.reader is None:
            raise ValueError("tower: wanted a reader trained before, which finds answers' places: `reader`")

    @property
    def settings(self) -> Settings:
        """Of the scorer's training."""
        return Settings(
            self.epochs, self.batch_size, self.learning_rate, self.weight_decay, self.warmup_steps, self.seed
        )


def train_nano_reader(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Raises InputError for rows, tiles or folders that don't belong together, StageError for an infinite loss."""
    path = inputs["examples"] / "train.jsonl"
    examples = read_jsonl(path, ReaderExample, unique="query_id")
    store = TileStore.open(inputs["tiles"])
    for example in examples:
        missing = next((tile_id for tile_id in example.tile_ids if tile_id not in store), None)
        if missing is not None:
            raise InputError(f"{path}: {example.query_id}: tile {missing} is not in {store.folder}")
        gold, shown = example.gold_position, len(example.tile_ids)
        if gold is not None and not 0 <= gold < shown:
            raise InputError(f"{path}: {example.query_id}: gold_position: wanted one of {shown} tiles, found {gold}")
    if "reader" in inputs and (width := load_scorer(inputs["reader"]).width) != config.width:
        raise InputError(f"width: wanted {width}, that of the scorer of {inputs['reader']}, found {config.width}")
    run = Run(config, inputs, out, store, examples)
    with torch_threads(config.threads):
        return run.counts(run.eyes(), run.pointing())


class Run:
    """A training: first the eyes, then pointing at what they read."""

    def __init__(
        self, config: Config, inputs: Inputs, out: Path, store: TileStore, examples: list[ReaderExample]
    ) -> None:
        self.config, self.inputs, self.out, self.store, self.examples = config, inputs, out, store, examples
        self.kept = config.readings or out / READINGS
        self.tower = out / CHECKPOINT / TOWER
        self.curve: list[dict[str, Any]] = []

    def rows(self, folder: Path, compression: float | None, examples: list[ReaderExample]) -> list[Row]:
        """``examples`` as the tower of ``folder`` reads them."""
        readings, found = Readings(folder, self.kept), []
        with Progress("train_nano_reader: reading", len(examples), log_path(self.out)) as progress:
            for example in examples:
                found.append(row_of(example, self.store, readings, compression))
                progress.advance()
        return found

    def held_out(self, row: Row) -> bool:
        """Whether the row serves to choose only."""
        return is_held_out(row.example, self.config.held_out_share, self.config.seed)

    def eyes(self) -> dict[str, Any]:
        """Write the tower; what its training counts."""
        if (self.tower / "config.json").is_file():
            return self._counted()
        unfinished = self.out / ".tower"
        shutil.rmtree(unfinished, ignore_errors=True)
        counted: dict[str, Any] = {}
        if self.config.tower is None:
            shutil.copytree(self.inputs["model"], unfinished)
        else:
            counted = self._train_eyes(self.config.tower, unfinished)
        (self.out / ".counted.json").write_text(json.dumps([counted, self.curve]), encoding="utf-8")
        self.tower.parent.mkdir(exist_ok=True)
        unfinished.rename(self.tower)
        return counted

    def _counted(self) -> dict[str, Any]:
        counted, self.curve = json.loads((self.out / ".counted.json").read_text(encoding="utf-8"))
        return counted  # type: ignore[no-any-return]

    def _train_eyes(self, tower: TowerConfig, folder: Path) -> dict[str, Any]:
        config, scorer = self.config, load_scorer(self.inputs["reader"])
        rows = [row for row in self.rows(self.inputs["model"], 1.0, self.examples) if not self.held_out(row)]
        pieces = [piece for row in rows if (piece := piece_of(row, scorer)) is not None]
        if not pieces:
            raise InputError(f"{self.inputs['examples']}: no row's answer was read on its uncompressed tiles")
        settings = TowerSettings(
            tower.steps, tower.batch_size, tower.learning_rate, tower.warmup_steps, dict(tower.groups)
        )
        with Progress("train_nano_reader: eyes", tower.steps, log_path(self.out)) as progress:

            def after_step(step: int, loss: float) -> None:
                self.record({"part": "eyes", "step": step + 1, "loss": round(loss, 4)}, loss)
                progress.advance(loss=loss)

            model = load_tower(self.inputs["model"])
            model = train_tower(model, scorer, pieces, self.store, settings, config.seed, after_step)
        card = f"{figures(self.inputs['model'])}\n\nAdapted by Tilewright's train_nano_reader, from answers alone."
        write_nano(model, folder, name="nano-reader", card=card, dtype=torch.float32)
        return {"pieces": len(pieces), "rows_without_piece": sum(not row.absent for row in rows) - len(pieces)}

    def pointing(self) -> dict[str, Any]:
        """Train and write the scorer; figures of the rows held out."""
        config = self.config
        chosen = self.examples
        if config.pointing_rows is not None and config.pointing_rows < len(chosen):
            chosen = random.Random(f"{config.seed}/pointing").sample(chosen, config.pointing_rows)
        rows = self.rows(self.tower, config.compression, chosen)
        held_out = [row for row in rows if self.held_out(row)]
        training = [row for row in rows if not self.held_out(row)]
        usable = [row for row in training if row.usable]
        if not usable:
            raise InputError(f"{self.inputs['examples']}: none of {len(training)} rows can be learnt from")
        torch.manual_seed(config.seed)
        if "reader" in self.inputs:
            scorer = load_scorer(self.inputs["reader"])
        else:
            scorer = SpanScorer(config.width)
            normalise(scorer, usable)
        best = (-1.0, copy_of(scorer))
        with Progress("train_nano_reader: pointing", config.epochs, log_path(self.out)) as progress:

            def after_epoch(epoch: int, loss: float) -> None:
                nonlocal best
                found = figures_of(scorer, held_out)
                self.record({"part": "pointing", "epoch": epoch + 1, "loss": round(loss, 4)} | found.as_dict(), loss)
                if found.right > best[0] or not held_out:
                    best = (found.right, copy_of(scorer))
                progress.advance(loss=loss, exact=found.as_dict()["exact"])

            train_scorer(scorer, usable, config.settings, after_epoch)
        scorer.load_state_dict(best[1])
        save_scorer(scorer, self.out / CHECKPOINT)
        lines = [json.dumps(entry, allow_nan=False) + "\n" for entry in self.curve]
        (self.out / CURVE).write_text("".join(lines), encoding="utf-8")
        return {
            "training_rows": len(training),
            "rows_whose_answer_was_not_read": len(training) - len(usable),
            "parameters": sum(parameter.numel() for parameter in scorer.parameters()),
            "held_out": {"all": figures_of(scorer, held_out).as_dict()} | self._by_compression(scorer, held_out),
        }

    def _by_compression(self, scorer: SpanScorer, rows: list[Row]) -> dict[str, dict[str, float]]:
        if self.config.compression is not None:
            return {}
        factors = sorted({row.example.compression for row in rows})
        found: dict[str, Figures] = {
            f"{factor:g}": figures_of(scorer, [row for row in rows if row.example.compression == factor])
            for factor in factors
        }
        return {factor: figures.as_dict() for factor, figures in found.items()}

    def record(self, entry: dict[str, Any], loss: float) -> None:
        """One more line of the curve. Raises StageError for an infinite loss."""
        if not torch.isfinite(torch.tensor(loss)):
            raise StageError(f"{entry['part']}: loss {loss}: lower learning_rate")
        self.curve.append(entry)

    def counts(self, eyes: dict[str, Any], pointing: dict[str, Any]) -> Counts:
        """Of the manifest."""
        return {"examples": len(self.examples), "eyes": eyes} | pointing


STAGE = Stage("train_nano_reader", Config, train_nano_reader, schema=1)

if __name__ == "__main__":
    main(STAGE)
