"""Train an embedder on (q, p, negatives): examples + tiles + model -> checkpoint/ and curve.jsonl."""

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import torch
from torch import nn

from tilewright.configs.errors import InputError
from tilewright.configs.progress import Progress
from tilewright.configs.stage import Counts, Inputs, Stage, StageError, execution, input_path, log_path, main
from tilewright.train import training_checkpoint
from tilewright.train.adapters import LoraGroup, add_adapters, assert_moved, count_by_group, trainable
from tilewright.train.batch_plan import BatchPlan, digest_of
from tilewright.train.contrastive_step import contrastive_step
from tilewright.train.distributed import average_gradients, choose_device, on_any_rank, process_group, same_everywhere
from tilewright.train.encoder import Encoder, load_encoder, save_encoder
from tilewright.train.objective import LossConfig, Objective
from tilewright.train.run_control import StopRequest, Stopwatch, stop_on_sigterm, torch_threads
from tilewright.train.schedule import learning_rate
from tilewright.train.step_inputs import StepInputMaker, StepInputs, StepStream, TileInputs
from tilewright.train.training_data import TrainingData, load_training_data, pool_counts
from tilewright.train.validation import chance, retrieval_figures

Entry = dict[str, Any]
WAIT_WARNING = 0.1  # share of the time


@dataclass(frozen=True)
class Config:
    """How to train an embedder.

    model: folder of the encoder to start from; examples: examples.jsonl of mine_negatives; validation: validation.jsonl
    and splits: folder of split_pairs. ``trainable``: `full`, or `adapters` with the LoRA groups in ``adapters``.
    ``hard_negatives`` of each example's negatives (hardest first) and ``random_tiles`` more training tiles join each
    batch as candidates. ``keep``: the weights of the best validation
    (by ``validation_metric``, of trained weights only: `best_beats_start` in the counts tells whether they beat the
    untrained) or the last ones; ``patience``: stop after so many validations without a better one.
    ``train_recall_every``: steps between searches of ``train_recall_queries`` training queries among all tiles of
    training pages. ``cache_mib``: patches of tiles kept in memory. ``threads``: of torch (none: its default); a
    resumed run is byte-identical on the same number. ``precision``: of frozen weights; adapters are float32 always.
    """

    out: Path
    seed: int
    trainable: Literal["full", "adapters"]
    loss: LossConfig
    steps: int
    batch_size: int
    hard_negatives: int
    random_tiles: int
    learning_rate: float
    warmup_steps: int
    weight_decay: float
    max_grad_norm: float
    validate_every: int
    save_every: int
    keep: Literal["best", "last"]
    validation_metric: Literal["recall_at_1", "recall_at_3", "recall_at_10", "mrr"]
    validation_queries: int
    train_recall_every: int | None
    threads: int | None
    cache_mib: int = execution()
    model: Path = input_path()
    examples: Path = input_path()
    tiles: Path = input_path()
    validation: Path = input_path()
    splits: Path = input_path()
    adapters: dict[str, LoraGroup] = field(default_factory=dict)
    train_recall_queries: int = 64
    limit_examples: int | None = None
    patience: int | None = None
    precision: Literal["float32", "bfloat16"] = "float32"

    def __post_init__(self) -> None:
        positive = ("steps", "batch_size", "validate_every", "save_every", "validation_queries", "train_recall_queries")
        for name in (*positive, "hard_negatives", "random_tiles"):
            if getattr(self, name) < (name in positive):
                raise ValueError(f"{name}: wanted at least {int(name in positive)}, found {getattr(self, name)}")
        for name in ("learning_rate", "max_grad_norm"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}: wanted more than 0, found {getattr(self, name)}")
        for name in ("limit_examples", "patience", "threads"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: wanted at least 1, or null, found {value}")
        if self.weight_decay < 0 or self.cache_mib < 0:
            raise ValueError("weight_decay and cache_mib: wanted at least 0")
        if not 0 <= self.warmup_steps <= self.steps:
            raise ValueError(f"warmup_steps: wanted 0 to steps ({self.steps}), found {self.warmup_steps}")
        if (self.trainable == "adapters") != bool(self.adapters):
            raise ValueError("adapters: wanted LoRA groups with `trainable: adapters`, and none with `trainable: full`")
        if (self.trainable, self.precision) == ("full", "bfloat16"):
            raise ValueError("precision: wanted float32 with `trainable: full`: updates get lost in bfloat16 weights")


def train_embedder(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``checkpoint/`` (for load_encoder) and ``curve.jsonl``; goes on from a partial run in ``out``.

    Raises InputError for unusable inputs, StageError if the loss isn't finite, SystemExit after SIGTERM (saved).
    """
    device = choose_device()
    with torch_threads(config.threads), process_group(device) as (rank, world), stop_on_sigterm() as stop:
        data = load_training_data(
            inputs,
            seed=config.seed,
            limit_examples=config.limit_examples,
            validation_queries=config.validation_queries,
            train_recall_queries=config.train_recall_queries,
        )
        if config.keep == "best" and not data.validation.queries:
            raise InputError(f"{inputs['validation']}: no validation questions: wanted some, or `keep: last`")
        encoder = load_encoder(inputs["model"], device=device, dtype=getattr(torch, config.precision))
        run = Run(config, data, encoder, out, rank, world)
        run.train(stop)
        return run.finish()


class Run:
    """A training run: model, optimiser, plan and where it stands."""

    def __init__(self, config: Config, data: TrainingData, encoder: Encoder, out: Path, rank: int, world: int) -> None:
        self.config, self.data, self.encoder, self.out, self.rank, self.world = config, data, encoder, out, rank, world
        if config.trainable == "adapters":
            encoder.model = add_adapters(encoder.model, config.adapters, seed=config.seed)
        self.objective = Objective(config.loss).to(encoder.device)
        self.weights = trainable(nn.ModuleDict({"encoder": encoder.model, "objective": self.objective}))
        same_everywhere(self.weights.values())
        self.optimizer = make_optimizer(self.weights, config.weight_decay)
        self.tiles = TileInputs(encoder, data.store, config.cache_mib << 20)
        self.plan = BatchPlan(
            data.examples,
            batch_size=config.batch_size,
            seed=config.seed,
            hard_negatives=config.hard_negatives,
            random_tiles=config.random_tiles,
            pool=data.training_tiles,
        )
        self.position, self.curve = training_checkpoint.load_resume(out, self.weights, self.optimizer)
        if rank == 0:
            training_checkpoint.drop_best_after(out, self.position.step)
            training_checkpoint.write_curve(out / training_checkpoint.CURVE, self.curve)

    def train(self, stop: StopRequest) -> None:
        """All updates from where the run stands."""
        config = self.config
        if self.position.step == 0 and not self.curve:
            self.record({"step": 0} | self.searches(0))
        make = StepInputMaker(self.plan, self.tiles, self.rank, self.world)
        stream = StepStream(make, self.position.step, config.steps)
        with Progress("train_embedder", config.steps, log_path(self.out), quiet=self.rank != 0) as progress:
            progress.advance(self.position.step)
            watch = Stopwatch(lambda: stream.wait_s)
            for inputs in () if self.is_done() else stream:
                entry = self.update(inputs)
                timings = watch.lap(len(inputs.planned.examples))
                self.record(entry | self.searches(entry["step"]))
                progress.advance(1, **shown(self.curve[-1]), **timings)
                watch.restart()
                stopping = on_any_rank(stop.requested, self.encoder.device)
                if stopping or self.is_done() or self.position.step % config.save_every == 0:
                    self.save()
                if self.is_done():
                    break
                if stopping:
                    raise SystemExit(f"train_embedder: stopped after step {self.position.step}; run it again to go on")
            if watch.data_wait_share > WAIT_WARNING and self.rank == 0:
                share = f"{watch.data_wait_share:.0%}"
                print(
                    f"train_embedder: {share} of the steps' time was waiting for tiles: raise cache_mib",
                    file=sys.stderr,
                )

    def update(self, inputs: StepInputs) -> Entry:
        """One update of the weights; its line of the curve."""
        config, step = self.config, self.position.step
        torch.manual_seed(digest_of(config.seed, "step", step, self.rank) % 2**63)
        rate = learning_rate(step, config.steps, config.learning_rate, config.warmup_steps)
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        self.encoder.model.train()
        self.optimizer.zero_grad(set_to_none=True)
        loss, stats = contrastive_step(self.encoder, self.objective, inputs)
        average_gradients(self.weights.values())
        norm = nn.utils.clip_grad_norm_(self.weights.values(), config.max_grad_norm)
        if not torch.isfinite(loss) or not torch.isfinite(norm):
            raise StageError(
                f"step {step + 1}: loss {loss.item()}, gradient norm {norm.item()}: wanted finite ones; lower"
                " learning_rate or max_grad_norm"
            )
        self.optimizer.step()
        self.objective.clamp()
        if step == 0:
            assert_moved(self.encoder.model)
        self.position = self.position.after_update()
        figures = {name: value.item() for name, value in stats.items()}
        return {"step": step + 1, "loss": loss.item(), "learning_rate": rate, "grad_norm": norm.item()} | figures

    def searches(self, step: int) -> Entry:
        """The searches that are due after ``step`` updates; keeps the weights if their validation is the best yet."""
        config, last = self.config, step == self.config.steps
        entry: Entry = {}
        if last or step % config.validate_every == 0:
            figures = retrieval_figures(self.encoder, self.tiles, self.data.validation, self.rank, self.world)
            entry |= {f"validation_{name}": value for name, value in figures.items()}
            if figures and step > 0:
                self.position = self.position.after_validation(step, figures[config.validation_metric])
                if self.position.best_step == step and config.keep == "best" and self.rank == 0:
                    training_checkpoint.save_best(self.out, step, self.weights)
        ends = self.is_done()  # also by patience, known only after the validation
        if config.train_recall_every and (ends or step % config.train_recall_every == 0):
            figures = retrieval_figures(self.encoder, self.tiles, self.data.training, self.rank, self.world)
            entry |= {f"train_{name}": value for name, value in figures.items()}
        return entry

    def is_done(self) -> bool:
        """Whether all steps are made, or patience is at its end."""
        patience = self.config.patience
        return self.position.step >= self.config.steps or (
            patience is not None and self.position.since_best >= patience
        )

    def record(self, entry: Entry) -> None:
        """One more line of the curve."""
        self.curve.append(entry)
        if self.rank == 0:
            with (self.out / training_checkpoint.CURVE).open("a", encoding="utf-8") as file:
                file.write(json.dumps(entry, allow_nan=False) + "\n")

    def save(self) -> None:
        """What a resumed run goes on from."""
        if self.rank == 0:
            training_checkpoint.save_resume(self.out, self.position, self.weights, self.optimizer, self.curve)

    def finish(self) -> Counts:
        """Write the checkpoint of the kept weights; the manifest's counts."""
        counts = self.counts()
        if self.rank == 0:
            if counts["kept_step"] != self.position.step:
                training_checkpoint.load_best(self.out, counts["kept_step"], self.weights)
            save_encoder(self.encoder, self.out / "checkpoint")
        return counts

    def counts(self) -> Counts:
        """Sizes and figures; timings are in the logs."""
        keep_best = self.config.keep == "best" and self.position.best_step > 0
        kept = self.position.best_step if keep_best else self.position.step
        by_group = count_by_group(self.encoder.model)
        before, after = figures_of(self.curve, 0), figures_of(self.curve, kept)
        chosen_by = f"validation_{self.config.validation_metric}"
        return {
            "examples": len(self.data.examples),
            "steps": self.position.step,
            "steps_per_epoch": self.plan.steps_per_epoch,
            "waiting_per_epoch": self.plan.waiting_per_epoch,
            "kept_step": kept,
            "trainable_parameters": sum(by_group.values()),
            "trainable_by_group": by_group,
            "validation_pool": pool_counts(self.data.validation),
            "validation_chance_at_1": chance(self.data.validation, 1),
            "train_recall_pool": pool_counts(self.data.training),
            "train_chance_at_1": chance(self.data.training, 1),
            "before": before,
            "kept": after,
            "best_beats_start": after[chosen_by] > before[chosen_by] if chosen_by in after else None,
            **{name: value for name, value in figures_of(self.curve, self.position.step).items() if "train_" in name},
        }


def figures_of(curve: list[Entry], step: int) -> dict[str, float]:
    """The search figures of a step's line of the curve."""
    return {
        name: value
        for entry in curve
        if entry["step"] == step
        for name, value in entry.items()
        if name.startswith(("validation_", "train_"))
    }


def shown(entry: Entry) -> dict[str, float]:
    """What of a curve's line stands behind the progress bar."""
    names = ("loss", "accuracy", "validation_recall_at_1", "train_recall_at_1")
    return {name: entry[name] for name in names if name in entry}


def make_optimizer(weights: dict[str, nn.Parameter], weight_decay: float) -> torch.optim.AdamW:
    """AdamW; vectors and scalars (biases, norms, the temperature) aren't decayed."""
    decayed = [parameter for parameter in weights.values() if parameter.dim() >= 2]
    others = [parameter for parameter in weights.values() if parameter.dim() < 2]
    groups = [{"params": decayed, "weight_decay": weight_decay}, {"params": others, "weight_decay": 0.0}]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=0.0)


STAGE = Stage("train_embedder", Config, train_embedder, schema=1, distributed=True)

if __name__ == "__main__":
    main(STAGE)
