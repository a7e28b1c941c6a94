"""The training loop of an embedder: updates, searches, what is kept, where it goes on after a kill."""

import dataclasses
import json
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tilewright.configs.progress import Progress
from tilewright.configs.stage import Counts, StageError, log_path
from tilewright.train import training_checkpoint
from tilewright.train.batch_plan import BatchPlan
from tilewright.train.distributed import on_any_rank
from tilewright.train.embedder_config import Config
from tilewright.train.encoder import BrokenVectorsError, Encoder, save_encoder
from tilewright.train.learner import Learner
from tilewright.train.run_control import StopRequest, Stopwatch
from tilewright.train.step_inputs import StepInputMaker, StepInputs, TileInputs
from tilewright.train.step_stream import StepStream
from tilewright.train.text_plan import Plan, TextPlan, WarmupPlan
from tilewright.train.trackers import open_trackers
from tilewright.train.training_data import TrainingData, pool_counts
from tilewright.train.validation import Pool, chance, retrieval_figures

Entry = dict[str, Any]
WAIT_WARNING = 0.1  # share of the time


class Run:
    """A training run: model, optimiser, plan and where it stands."""

    def __init__(self, config: Config, data: TrainingData, encoder: Encoder, out: Path, rank: int, world: int) -> None:
        self.config, self.data, self.encoder, self.out, self.rank, self.world = config, data, encoder, out, rank, world
        self.learner = Learner(config, encoder, rank)
        self.tiles = TileInputs(encoder.batcher, data.store, config.cache_mib << 20)
        self.images = BatchPlan(
            data.examples,
            batch_size=config.batch_size,
            seed=config.seed,
            hard_negatives=config.hard_negatives,
            random_tiles=config.random_tiles,
            pool=data.training_tiles,
            extra_positives=config.extra_positives,
        )
        self.plan: Plan = self.images
        if data.text_pairs is not None:
            texts = TextPlan(data.text_pairs, batch_size=config.batch_size, seed=config.seed)
            self.plan = WarmupPlan(texts, config.text_steps, self.images)
        self.position, self.curve, saved = training_checkpoint.load_resume(out)
        if saved is not None:
            self.learner.load_state(saved)
            if self._keeps_best():  # not only at the end, when it is needed
                training_checkpoint.check_best(out, self.position.best_step)
        if rank == 0:
            training_checkpoint.drop_best_after(out, self.position.step)
            training_checkpoint.write_curve(out / training_checkpoint.CURVE, self.curve)

    def train(self, stop: StopRequest) -> None:
        """All updates from where the run stands."""
        config = self.config
        if self.position.step == 0 and not self.curve:
            self.record({"step": 0} | self.searches(0))
        make = StepInputMaker(self.plan, self.tiles, self.rank, self.world)
        stream = StepStream(make, self.position.step, config.steps, workers=config.workers)
        quiet = self.rank != 0
        with (
            Progress("train_embedder", config.steps, log_path(self.out), quiet=quiet) as progress,
            open_trackers(config.trackers, log_path(self.out).parent, dataclasses.asdict(config), quiet=quiet) as told,
        ):
            progress.advance(self.position.step)
            if self.position.step == 0:
                told.log(self.curve[0], 0)  # the searches before the first update
            watch = Stopwatch(lambda: stream.wait_s)
            for inputs in () if self.is_done() else stream:
                entry = self.update(inputs)
                timings = watch.lap(inputs.examples, inputs.visual_tokens)
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
                    f"train_embedder: {share} of the steps' time was waiting for tiles: raise workers or cache_mib",
                    file=sys.stderr,
                )

    def update(self, inputs: StepInputs) -> Entry:
        """One update of the weights; its line of the curve."""
        figures = self.learner.update(self.position.step, inputs)
        self.position = self.position.after_update()
        return {"step": self.position.step} | figures

    def searches(self, step: int) -> Entry:
        """The searches that are due after ``step`` updates; keeps the weights if their validation is the best yet."""
        config, last = self.config, step == self.config.steps
        entry: Entry = {}
        if last or step % config.validate_every == 0:
            entry |= self._searched("validation", self.data.validation)
            if entry and step > 0:
                self.position = self.position.after_validation(step, entry[f"validation_{config.validation_metric}"])
                if self.position.best_step == step and config.keep == "best":
                    self._keep_best(step)
        ends = self.is_done()  # also by patience, known only after the validation
        if config.train_recall_every and (ends or step % config.train_recall_every == 0):
            entry |= self._searched("train", self.data.training)
        return entry

    @contextmanager
    def _searching(self) -> Iterator[None]:
        """``Learner.searching``; vectors that training broke are told with the step."""
        try:
            with self.learner.searching():
                yield
        except BrokenVectorsError as error:
            if self.position.step == 0:
                raise
            raise StageError(f"step {self.position.step}: {error}: lower learning_rate or max_grad_norm") from error

    def _searched(self, name: str, pool: Pool) -> Entry:
        with self._searching():
            figures = retrieval_figures(self.encoder, self.tiles, pool, self.rank, self.world)
        return {f"{name}_{figure}": value for figure, value in figures.items()}

    def _keep_best(self, step: int) -> None:
        with self._searching():
            weights = self.learner.weights()
            if self.rank == 0:
                training_checkpoint.save_best(self.out, step, weights)

    def _keeps_best(self) -> bool:
        return self.config.keep == "best" and self.position.best_step > 0

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
        """What a resumed run goes on from; a checkpoint that stays, if that is wanted."""
        step, count = self.position.step, self.config.keep_last
        if count and step % self.config.save_every == 0:
            with self._searching():
                if self.rank == 0:
                    training_checkpoint.keep_last(self.out, step, count, lambda path: save_encoder(self.encoder, path))
        state = self.learner.state()
        if self.rank == 0:
            training_checkpoint.save_resume(self.out, self.position, state, self.curve)

    def finish(self) -> Counts:
        """Write the checkpoint of the kept weights; the manifest's counts."""
        counts = self.counts()
        if counts["kept_step"] != self.position.step:
            self.learner.load_weights(training_checkpoint.load_best(self.out, counts["kept_step"]))
        with self._searching():
            if self.rank == 0:
                save_encoder(self.encoder, self.out / "checkpoint")
        on_any_rank(False, self.encoder.device)  # rank 0 moves the folder next: all have read what they need of it
        return counts

    def counts(self) -> Counts:
        """Sizes and figures; timings are in the logs."""
        kept = self.position.best_step if self._keeps_best() else self.position.step
        by_group = self.learner.parameters_by_group
        before, after = figures_of(self.curve, 0), figures_of(self.curve, kept)
        chosen_by = f"validation_{self.config.validation_metric}"
        return {
            "examples": len(self.data.examples),
            "steps": self.position.step,
            "steps_per_epoch": self.images.steps_per_epoch,
            "waiting_per_epoch": self.images.waiting_per_epoch,
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
