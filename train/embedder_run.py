"""The training loop of an embedder: updates, searches, what is kept, where it goes on after a kill."""

import dataclasses
import json
import sys
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tilewright.configs.progress import Progress
from tilewright.configs.stage import Counts, StageError, log_path
from tilewright.train import training_checkpoint
from tilewright.train.adapters import add_adapters, assert_moved, count_by_group, trainable
from tilewright.train.batch import Batch
from tilewright.train.batch_plan import BatchPlan, digest_of
from tilewright.train.contrastive_step import ContrastiveStep
from tilewright.train.distributed import on_any_rank, same_everywhere
from tilewright.train.embedder_config import Config
from tilewright.train.encoder import Encoder, save_encoder
from tilewright.train.objective import Objective
from tilewright.train.parallel import Replicated
from tilewright.train.run_control import StopRequest, Stopwatch
from tilewright.train.schedule import learning_rate
from tilewright.train.step_inputs import StepInputMaker, StepInputs, StepStream, TileInputs
from tilewright.train.trackers import open_trackers
from tilewright.train.training_data import TrainingData, pool_counts
from tilewright.train.validation import chance, retrieval_figures

Entry = dict[str, Any]
WAIT_WARNING = 0.1  # share of the time


class Run:
    """A training run: model, optimiser, plan and where it stands."""

    def __init__(self, config: Config, data: TrainingData, encoder: Encoder, out: Path, rank: int, world: int) -> None:
        self.config, self.data, self.encoder, self.out, self.rank, self.world = config, data, encoder, out, rank, world
        if config.trainable == "adapters":
            encoder.model = add_adapters(encoder.model, config.adapters, seed=config.seed)
        if config.gradient_checkpointing:
            encoder.model.gradient_checkpointing_enable({"use_reentrant": False})  # type: ignore[operator]
        self.objective = Objective(config.loss).to(encoder.device)
        self.weights = trainable(nn.ModuleDict({"encoder": encoder.model, "objective": self.objective}))
        same_everywhere(self.weights.values())
        self.optimizer = make_optimizer(self.weights, config.weight_decay)
        self.parallel = Replicated(self.weights, self.optimizer, config.max_grad_norm)
        self.contrastive_step = ContrastiveStep(
            encoder.model,
            self.embed,
            self.objective,
            encoder.dimension,
            chunking=config.chunking,
            backward=self.parallel.backward,
            equal_passes=self.parallel.equal_passes,
        )
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

    def embed(self, batch: Batch) -> Tensor:
        """[B, D] float32 vectors with gradient, in the run's precision."""
        wanted = self.config.precision == "bfloat16"
        with torch.autocast(self.encoder.device.type, torch.bfloat16, enabled=wanted):
            return self.encoder.forward(batch)

    def train(self, stop: StopRequest) -> None:
        """All updates from where the run stands."""
        config = self.config
        if self.position.step == 0 and not self.curve:
            self.record({"step": 0} | self.searches(0))
        make = StepInputMaker(self.plan, self.tiles, self.rank, self.world)
        stream = StepStream(make, self.position.step, config.steps)
        quiet = self.rank != 0
        with (
            Progress("train_embedder", config.steps, log_path(self.out), quiet=quiet) as progress,
            open_trackers(config.trackers, log_path(self.out).parent, dataclasses.asdict(config), quiet=quiet) as told,
        ):
            progress.advance(self.position.step)
            watch = Stopwatch(lambda: stream.wait_s)
            for inputs in () if self.is_done() else stream:
                entry = self.update(inputs)
                timings = watch.lap(len(inputs.planned.examples))
                self.record(entry | self.searches(entry["step"]))
                told.log(self.curve[-1] | timings, self.curve[-1]["step"])
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
        self.encoder.model.train()
        loss, stats = self.contrastive_step(inputs)
        norm = self.parallel.update({"decay": rate, "no_decay": rate})
        if not torch.isfinite(loss) or not torch.isfinite(norm):
            raise StageError(
                f"step {step + 1}: loss {loss.item()}, gradient norm {norm.item()}: wanted finite ones; lower"
                " learning_rate or max_grad_norm"
            )
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
            if self.config.keep_last and self.position.step % self.config.save_every == 0:
                step, save = self.position.step, lambda folder: save_encoder(self.encoder, folder)
                training_checkpoint.keep_last(self.out, step, self.config.keep_last, save)
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
    groups = [
        {"name": "decay", "params": decayed, "weight_decay": weight_decay},
        {"name": "no_decay", "params": others, "weight_decay": 0.0},
    ]
    return torch.optim.AdamW([group for group in groups if group["params"]], lr=0.0)
