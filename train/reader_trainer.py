"""transformers' Trainer for the reader: our batches and loss, exact resumption, validation, stop on SIGTERM."""

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from transformers import Trainer, TrainerCallback, TrainerControl, TrainerState, TrainingArguments

from tilewright.configs.errors import InputError
from tilewright.configs.progress import Progress
from tilewright.configs.stage import StageError
from tilewright.train.adapters import assert_moved, trainable
from tilewright.train.reader import Reader, to_pixel_values
from tilewright.train.reader_batch import ReaderCollator, answer_loss
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
            tensors = {name: value.detach().cpu().contiguous() for name, value in trainable(self.model).items()}
            save_file(tensors, str(Path(output_dir) / WEIGHTS))

    def _load_from_checkpoint(self, resume_from_checkpoint: str, model: Any = None) -> None:
        load_trained(self.model, Path(resume_from_checkpoint))


def load_trained(model: torch.nn.Module, folder: Path) -> None:
    """Read trained parameters back into ``model``. Raises InputError unless all names and shapes match."""
    stored, wanted = load_file(str(folder / WEIGHTS)), trainable(model)
    wrong = stored.keys() ^ wanted.keys()
    wrong |= {name for name in stored.keys() & wanted.keys() if stored[name].shape != wanted[name].shape}
    if wrong:
        raise InputError(f"{folder / WEIGHTS}: {len(wrong)} parameters don't match the model (first: {min(wrong)})")
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(stored[name])


def last_checkpoint(folder: Path, *, prune: bool) -> Path | None:
    """The newest whole checkpoint of a Trainer's folder, None if there is none; ``prune`` deletes torn ones."""
    whole: dict[int, Path] = {}
    for path in sorted(folder.glob("checkpoint-*")):
        if (path / COMPLETE).is_file():
            whole[int(path.name.rpartition("-")[2])] = path
        elif prune:
            shutil.rmtree(path)
    return whole[max(whole)] if whole else None


class Watch(TrainerCallback):  # type: ignore[misc]
    """What happens beside the updates: progress, validation, checks, and the end by signal.

    Validation figures go into the Trainer's log history, so that its checkpoints carry them.
    """

    def __init__(
        self,
        validation: Validation,
        progress: Progress,
        stop: StopRequest,
        *,
        evaluate_every: int,
        check_adapters_at: int | None,
    ):
        self.validation, self.progress, self.stop = validation, progress, stop
        self.evaluate_every, self.check_adapters_at = evaluate_every, check_adapters_at

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """The figures before the first update; a resumed run has them in its history."""
        self.progress.advance(state.global_step)
        if state.global_step == 0:
            self._validate(state)

    def on_step_end(self, args: Any, state: TrainerState, control: TrainerControl, **kwargs: Any) -> None:
        """Validate every so often and at the end; save and stop if a signal asked for it."""
        if state.global_step == self.check_adapters_at:
            assert_moved(kwargs["model"])
        if state.global_step % self.evaluate_every == 0 or state.global_step == state.max_steps:
            self._validate(state)
        if self.stop.requested:
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
        """Mark the checkpoint as whole."""
        if state.is_world_process_zero:
            (Path(args.output_dir) / f"checkpoint-{state.global_step}" / COMPLETE).touch()

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
