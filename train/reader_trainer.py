"""transformers' Trainer for the reader: our batches and loss, exact resumption, validation, stop on SIGTERM."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from tilewright.configs.progress import Progress
from tilewright.configs.stage import StageError
from tilewright.train.adapters import assert_moved
from tilewright.train.distributed import on_any_rank
from tilewright.train.reader import Reader, to_pixel_values
from tilewright.train.reader_batch import ReaderCollator, answer_loss
from tilewright.train.reader_best import BestWeights, best_of, load_trained, save_trained, since_best
from tilewright.train.reader_validation import Validation
from tilewright.train.run_control import StopRequest

WEIGHTS = "trained.safetensors"
COMPLETE = "complete"  # written when a checkpoint folder is whole; one without it is the trace of a kill


class ReaderTrainer(Trainer):  # type: ignore[misc]
    """Trainer whose checkpoints hold only what is trained, under names that must match in full when read back."""

    def __init__(self, reader: Reader, arguments: TrainingArguments, rows: Sequence[Any], collator: ReaderCollator):
        settings = dict(vars(reader.model.config))
        super().__init__(
            model=reader.model,
            args=arguments,
            data_collator=collator,
            train_dataset=rows,
            compute_loss_func=lambda outputs, labels, num_items_in_batch=None: answer_loss(
                outputs.logits, labels, num_items_in_batch
            ),
        )
        vars(reader.model.config).clear()
        vars(reader.model.config).update(settings)  # Trainer writes use_cache into what is saved later
        self.policy = reader.policy

    def _prepare_inputs(self, inputs: dict[str, Any]) -> dict[str, Any]:
        return to_pixel_values(inputs, self.policy, self.args.device, self.model.dtype) | {"use_cache": False}

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Write the trained parameters into a checkpoint folder."""
        if self.args.should_save and output_dir is not None:
            Path(output_dir).mkdir(parents=True, exist_ok=True)
            save_trained(self.model, Path(output_dir) / WEIGHTS)

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        load_trained(self.model, Path(resume_from_checkpoint) / WEIGHTS)


def last_checkpoint(folder: Path, *, prune: bool) -> Path | None:
    """The newest whole checkpoint of a Trainer's folder, None if there is none; ``prune`` deletes torn ones."""
    whole: dict[int, Path] = {}
    for path in sorted(folder.glob("checkpoint-*")):
        if (path / COMPLETE).is_file():
            whole[int(path.name.rpartition("-")[2])] = path
        elif prune:
            shutil.rmtree(path)
    return whole[max(whole)] if whole else None


def is_done(state: TrainerState, patience: int | None) -> bool:
    """Whether all steps are made, or so many validations went by without a better one."""
    return state.global_step >= state.max_steps or (patience is not None and since_best(state.log_history) >= patience)


class Watch(TrainerCallback):  # type: ignore[misc]
    """What happens beside the updates: progress, validation, best weights, checks, and the end, also by signal.

    Validation figures go into the Trainer's log history, so that its checkpoints carry them, and which was the best.
    ``best``: where to keep the weights of the best validation (None: they aren't wanted).
    """

    def __init__(
        self,
        validation: Validation,
        progress: Progress,
        stop: StopRequest,
        best: BestWeights | None,
        *,
        patience: int | None,
        evaluate_every: int,
        check_adapters_at: int | None,
    ):
        self.validation, self.progress, self.stop = validation, progress, stop
        self.best, self.patience = best, patience
        self.evaluate_every, self.check_adapters_at = evaluate_every, check_adapters_at

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """The figures before the first update; a resumed run has them in its history."""
        self.progress.advance(state.global_step)
        if state.global_step == 0:
            self._validate(state)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Validate every so often and at the end; save and stop at the end of patience, or if a signal asked for it."""
        if state.global_step == self.check_adapters_at:
            assert_moved(kwargs["model"])
        if state.global_step % self.evaluate_every == 0 or state.global_step == state.max_steps:
            self._validate(state)
            self._keep_best(state, kwargs["model"])
        if is_done(state, self.patience) or on_any_rank(self.stop.requested, args.device):
            control.should_save = control.should_training_stop = True

    def on_log(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Show the training loss. Raises StageError if it isn't finite."""
        logged = kwargs["logs"]
        if "loss" in logged:
            if not torch.isfinite(torch.tensor(logged["loss"])):
                raise StageError(
                    f"train_reader: loss {logged['loss']} at step {state.global_step}: lower learning_rate"
                )
            self.progress.advance(1, loss=logged["loss"])

    def on_save(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Mark the checkpoint as whole; from now on only the weights of its best validation are needed."""
        args.distributed_state.wait_for_everyone()  # each rank has written its part
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()
            if self.best is not None:
                best = best_of(state.log_history)
                self.best.prune(None if best is None else best["step"])

    def _keep_best(self, state: TrainerState, model: torch.nn.Module) -> None:
        best = best_of(state.log_history)
        is_now = best is not None and best["step"] == state.global_step
        if is_now and self.best is not None and state.is_world_process_zero:
            self.best.save(state.global_step, model)

    def _validate(self, state: TrainerState) -> None:
        figures = self.validation.figures()
        if figures:
            state.log_history.append({"step": state.global_step} | figures)
            self.progress.log(**figures)


def curve_of(state: TrainerState) -> list[dict[str, float]]:
    """One row a step with the loss, gradient norm and learning rate, and validation figures where there are any."""
    kept = ("loss", "grad_norm", "learning_rate", "validation_loss", "validation_exact_match")
    rows: dict[int, dict[str, float]] = {}
    for entry in state.log_history:
        figures = {name: entry[name] for name in kept if name in entry}
        if figures:
            rows.setdefault(entry["step"], {"step": entry["step"]}).update(figures)
    return [rows[step] for step in sorted(rows)]
