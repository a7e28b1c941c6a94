"""Stage: teach nano to read. Rendered pages with the place of every character -> a reader for each phase."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.progress import Progress
from tilewright.configs.stage import Counts, Inputs, Stage, StageError, input_path, log_path, main
from tilewright.data_gen.characters import CharacterTable
from tilewright.data_gen.tile_store import TileStore
from tilewright.train import training_checkpoint
from tilewright.train.adapters import trainable
from tilewright.train.distributed import on_any_rank, process_group, same_everywhere
from tilewright.train.nano import VISION, NanoConfig, NanoModel, Reading
from tilewright.train.nano_characters import BLANK, CLASSES, inverse_document_frequency
from tilewright.train.nano_data import WindowBatch, WindowSettings, WindowStream, patches_of
from tilewright.train.nano_folder import write_nano
from tilewright.train.nano_scores import score_store
from tilewright.train.optimizer import make_optimizer
from tilewright.train.parallel import Replicated, load_saved_state, saved_state
from tilewright.train.run_control import StopRequest, Stopwatch, stop_on_sigterm, torch_threads
from tilewright.train.schedule import rate_share

BETAS = (0.9, 0.98)
BLANK_WEIGHT, CONTEXT_WEIGHT, START_WEIGHT = 0.3, 0.5, 0.2


@dataclass(frozen=True)
class Phase:
    """``steps`` with a learning rate of its own, after which the reader is written under ``name``.

    ``compressions``: how much a page is compressed before it is enlarged back, drawn evenly (1: not at all).
    """

    name: str
    steps: int
    learning_rate: float
    warmup_steps: int
    compressions: tuple[float, ...] = (1.0,)

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "steps")
        if not self.compressions or min(self.compressions) < 1 or not 0 <= self.warmup_steps <= self.steps:
            raise ValueError(
                f"phase {self.name}: wanted compressions of at least 1 and 0 to {self.steps} warmup_steps, found"
                f" {self.compressions} and {self.warmup_steps}"
            )
        if not self.name or Path(self.name).name != self.name:
            raise ValueError(f"phase: wanted a name that can name a folder, found {self.name!r}")


@dataclass(frozen=True)
class Config:
    """How nano learns to read.

    ``tiles``: render_tiles' output with ``characters: true``, to learn from; ``held_out``: another one, of which
    ``held_out_tiles`` are read every ``validate_every`` steps and after each phase, only to report. A step sees
    ``batch_windows`` windows of at most ``window_rows`` x ``window_columns`` patches of 16 px. ``precision``: of the
    tower's forward pass. Several processes (torchrun) share a step's windows.
    """

    out: Path
    seed: int
    phases: tuple[Phase, ...]
    batch_windows: int
    weight_decay: float
    max_grad_norm: float
    validate_every: int
    save_every: int
    held_out_tiles: int
    threads: int | None
    tiles: Path = input_path()
    held_out: Path = input_path()
    precision: str = "bfloat16"
    depth: int = 5
    width: int = 192
    inner_width: int = 576
    heads: int = 3
    dimension: int = 2048
    window_rows: int = 18
    window_columns: int = 30

    def __post_init__(self) -> None:
        names = [phase.name for phase in self.phases]
        if not names or len(set(names)) < len(names):
            raise ValueError(f"phases: wanted at least one, each with a name of its own, found {names}")
        if self.precision not in ("bfloat16", "float32"):
            raise ValueError(f"precision: wanted bfloat16 or float32, found {self.precision!r}")
        check_bounds(self, 1, None, "batch_windows", "validate_every", "save_every", "held_out_tiles")

    @property
    def steps(self) -> int:
        """Of all phases."""
        return sum(phase.steps for phase in self.phases)

    def model(self) -> NanoConfig:
        """The model's configuration."""
        sizes = {"depth": self.depth, "hidden_size": self.width, "intermediate_size": self.inner_width}
        return NanoConfig(
            vision_config=VISION | sizes | {"num_heads": self.heads, "out_hidden_size": self.width},
            dimension=self.dimension,
            window_rows=self.window_rows,
            window_columns=self.window_columns,
        )


def pretrain_nano(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write a model folder a phase, and curve.jsonl; goes on from a partial run in ``out``.

    Raises InputError for tiles without characters, StageError if the loss isn't finite, SystemExit after SIGTERM.
    """
    device = torch.device("cpu")
    with torch_threads(config.threads), process_group(device) as (rank, world), stop_on_sigterm() as stop:
        if config.batch_windows % world:
            raise InputError(f"batch_windows: wanted a multiple of {world} processes, found {config.batch_windows}")
        run = Run(config, inputs, out, rank, world)
        run.train(stop)
        return run.counts()


class Run:
    """A pretraining run on one rank."""

    def __init__(self, config: Config, inputs: Inputs, out: Path, rank: int, world: int) -> None:
        self.config, self.out, self.rank, self.world = config, out, rank, world
        self.store, self.held_out = TileStore.open(inputs["tiles"]), TileStore.open(inputs["held_out"])
        self.table = CharacterTable.open(inputs["tiles"], self.store)
        self.held_out_table = CharacterTable.open(inputs["held_out"], self.held_out)
        torch.manual_seed(config.seed)
        self.model = NanoModel(config.model())
        texts = (tile.text for tile in self.store.iterate_light())
        self.model.binding.weights.copy_(torch.from_numpy(inverse_document_frequency(texts)))
        weights = trainable(self.model)
        same_everywhere(weights.values())
        optimizer = make_optimizer(weights, {}, weight_decay=config.weight_decay, betas=BETAS)
        self.parallel = Replicated(weights, optimizer, config.max_grad_norm)
        self.position, self.curve, saved = training_checkpoint.load_resume(out)
        if saved is not None:
            load_saved_state(self.parallel, saved)

    def train(self, stop: StopRequest) -> None:
        """All phases from where the run stands."""
        quiet = self.rank != 0
        with Progress("pretrain_nano", self.config.steps, log_path(self.out), quiet=quiet) as progress:
            progress.advance(self.position.step)
            first = 0
            for number, phase in enumerate(self.config.phases):
                if self.position.step < first + phase.steps:
                    self._phase(number, phase, first, progress, stop)
                first += phase.steps

    def _phase(self, number: int, phase: Phase, first: int, progress: Progress, stop: StopRequest) -> None:
        config = self.config
        settings = WindowSettings(
            config.batch_windows,
            config.window_rows,
            config.window_columns,
            phase.compressions,
            config.seed + number,
        )
        stream = WindowStream(self.store, self.table, settings, self.rank, self.world)
        watch = Stopwatch(lambda: stream.wait_s)
        for batch in stream.batches(self.position.step - first, phase.steps):
            step = self.position.step - first
            rate = phase.learning_rate * rate_share(step, phase.steps, phase.warmup_steps, 0.0, "cosine")
            figures = self.update(batch, rate)
            self.position = self.position.after_update()
            entry: dict[str, Any] = {"step": self.position.step, "phase": phase.name, "learning_rate": rate} | figures
            ends = step + 1 == phase.steps
            if ends or self.position.step % config.validate_every == 0:
                entry |= self.validation()
            if ends:
                self._write(phase)
            self.record(entry)
            timings = watch.lap(len(batch.pixels) * self.world, batch.characters[..., 0].numel())
            watch.restart()
            progress.advance(1, **{name: entry[name] for name in ("loss", "accuracy") if name in entry}, **timings)
            stopping = on_any_rank(stop.requested, torch.device("cpu"))
            if ends or stopping or self.position.step % config.save_every == 0:
                self.save()
            if stopping and not ends:
                stream.close()
                raise SystemExit(f"pretrain_nano: stopped after step {self.position.step}; run it again to go on")
        stream.close()

    def update(self, batch: WindowBatch, rate: float) -> dict[str, float]:
        """One update of the weights; loss and the share of characters read right."""
        self.model.train()
        with torch.autocast("cpu", torch.bfloat16, enabled=self.config.precision == "bfloat16"):
            reading = self.model.read(self.model.states(patches_of(batch.pixels)))
        loss, accuracy = reading_loss(reading, batch)
        self.parallel.backward(loss, True)
        groups = self.parallel.optimizer.param_groups
        norm = self.parallel.update({group["name"]: rate for group in groups})
        if not torch.isfinite(loss) or not torch.isfinite(norm):
            raise StageError(
                f"step {self.position.step + 1}: loss {loss.item()}, gradient norm {norm.item()}: lower learning_rate"
            )
        return {"loss": loss.item(), "accuracy": accuracy, "grad_norm": norm.item()}

    def validation(self) -> dict[str, float]:
        """What is read of held-out tiles; every rank reads its share, as they are and at half the sides."""
        self.model.eval()
        figures: dict[str, float] = {}
        count = min(self.config.held_out_tiles, len(self.held_out))
        chosen = np.linspace(0, len(self.held_out) - 1, count).astype(int)
        for compression in (1.0, 4.0):
            score = score_store(
                self.model,
                self.held_out,
                self.held_out_table,
                chosen[self.rank :: self.world].tolist(),
                compression,
                bfloat16=self.config.precision == "bfloat16",
            ).summed_over_ranks()
            figures |= {f"{name}@{compression:g}": round(value, 4) for name, value in score.figures().items()}
        return figures

    def _write(self, phase: Phase) -> None:
        if self.rank == 0:
            card = f"Pretrained by Tilewright's pretrain_nano: phase {phase.name}, compressions {phase.compressions}."
            write_nano(self.model, self.out / phase.name, name=phase.name, card=card)

    def record(self, entry: dict[str, Any]) -> None:
        """One more line of the curve."""
        self.curve.append(entry)
        if self.rank == 0:
            with (self.out / training_checkpoint.CURVE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, allow_nan=False) + "\n")

    def save(self) -> None:
        """What a resumed run goes on from."""
        if self.rank == 0:
            training_checkpoint.save_resume(self.out, self.position, saved_state(self.parallel), self.curve)

    def counts(self) -> Counts:
        """Sizes, and what each phase's reader reads of held-out tiles."""
        ends = {entry["phase"]: entry for entry in self.curve}
        return {
            "tiles": len(self.store),
            "held_out_tiles": min(self.config.held_out_tiles, len(self.held_out)),
            "parameters": sum(parameter.numel() for parameter in self.model.parameters()),
            "phases": {
                name: {key: value for key, value in entry.items() if "@" in key} for name, entry in ends.items()
            },
        }


def reading_loss(reading: Reading, batch: WindowBatch) -> tuple[Tensor, float]:
    """(loss, share of characters read right): cross-entropies of characters, of their neighbours, of word starts."""
    weight = torch.ones(CLASSES, device=reading.characters.device)
    weight[BLANK] = BLANK_WEIGHT
    characters = reading.characters.flatten(0, -2)
    wanted = batch.characters.flatten()
    loss = F.cross_entropy(characters, wanted, weight)
    filled = (wanted != BLANK).nonzero()[:, 0]
    if not len(filled):
        return loss, 0.0
    for logits, labels in ((reading.before, batch.before), (reading.after, batch.after)):
        loss = loss + CONTEXT_WEIGHT * F.cross_entropy(logits.flatten(0, -2)[filled], labels.flatten()[filled])
    starts = batch.starts.flatten()[filled]
    loss = loss + START_WEIGHT * F.binary_cross_entropy_with_logits(reading.starts.flatten()[filled], starts.float())
    right = (characters[filled].argmax(-1) == wanted[filled]).float().mean()
    return loss, float(right)


STAGE = Stage("pretrain_nano", Config, pretrain_nano, schema=1, distributed=True)

if __name__ == "__main__":
    main(STAGE)
