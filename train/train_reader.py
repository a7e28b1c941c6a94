"""Stage: train a reader on compressed tiles by cross-entropy of the answer tokens (transformers' Trainer).

Resumable to the bit on a CPU with a fixed number of threads: the order of the examples is a function of seed and
step, and a checkpoint holds parameters, optimiser, schedule and random states.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import TrainingArguments
from transformers.trainer_callback import PrinterCallback, TrainerState

from tilewright.configs.errors import InputError
from tilewright.configs.progress import Progress
from tilewright.configs.stage import (
    Counts,
    Inputs,
    Stage,
    StageError,
    log_path,
    main,
    rank_and_world,
)
from tilewright.data_gen.records import ReaderExample, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.adapters import add_adapters, count_by_group
from tilewright.train.distributed import choose_device
from tilewright.train.reader import Reader, load_reader, merged, save_reader, save_reader_adapter
from tilewright.train.reader_batch import ReaderCollator
from tilewright.train.reader_best import ACCURACY, LOSS, BestWeights, best_of, load_trained
from tilewright.train.reader_config import Config
from tilewright.train.reader_cost import check_context, mean, row_cost
from tilewright.train.reader_launch import check_launch
from tilewright.train.reader_trainer import (
    WEIGHTS,
    ReaderTrainer,
    Watch,
    curve_of,
    is_done,
    last_checkpoint,
)
from tilewright.train.reader_validation import Validation
from tilewright.train.run_control import stop_on_sigterm, torch_threads

STATE = ".trainer"
SCHEDULES = {"cosine": "cosine", "constant": "constant_with_warmup"}  # as transformers names them
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


def train_reader(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write checkpoint/ (loadable by ``load_reader``), of adapters also adapter/, and curve.jsonl.

    Raises InputError for rows that can't be used, StageError if SIGTERM ended it early.
    """
    check_launch()
    rows = read_jsonl(inputs["examples"] / "train.jsonl", ReaderExample)
    if not rows:
        raise InputError(f"{inputs['examples'] / 'train.jsonl'}: wanted at least one example, found none")
    validation_rows = read_jsonl(inputs["examples"] / "validation.jsonl", ReaderExample)
    store = TileStore.open(inputs["tiles"])
    _check_tiles([*rows, *validation_rows], store, inputs)
    with torch_threads(config.threads):
        reader = _reader(config, inputs["model"], rows)
        costs = _check_costs(config, {"train": rows, "validation": validation_rows}, store, reader, inputs)
        trained = _make_trainable(reader, config)
        collator = ReaderCollator(store, reader.prompt, reader.policy)
        validation = Validation(
            reader,
            collator,
            validation_rows,
            questions=config.validation_questions,
            batch_size=config.batch_size,
            max_new_tokens=config.max_new_tokens,
        )
        with Progress("train_reader", config.steps, log_path(out), quiet=rank_and_world()[0] != 0) as progress:
            state = _train(config, reader, rows, collator, validation, progress, out)
        curve = curve_of(state)
        if rank_and_world()[0] == 0:
            _take_best(reader, state, config, out)
            if config.adapters is not None:
                save_reader_adapter(reader, out / "adapter", inputs["model"])
                reader.model = merged(reader.model, PRECISIONS[config.precision])
            save_reader(reader, out / "checkpoint", inputs["model"])
            lines = [json.dumps(row, allow_nan=False) + "\n" for row in curve]
            (out / "curve.jsonl").write_text("".join(lines), encoding="utf-8")
    return _counts(state, len(rows), len(validation_rows), trained, curve) | {"costs": costs}


def _check_tiles(rows: list[ReaderExample], store: TileStore, inputs: Inputs) -> None:
    for row in rows:
        for tile_id in row.tile_ids:
            if tile_id not in store:
                raise InputError(f"{inputs['examples']}: {row.query_id}: tile {tile_id} is not in {inputs['tiles']}")
            if not store.has_image(tile_id):
                raise InputError(
                    f"{inputs['examples']}: {row.query_id}: tile {tile_id} of {inputs['tiles']} has no image:"
                    " `tilewright tiles render` makes it again from its page"
                )


def _check_costs(
    config: Config, splits: Mapping[str, list[ReaderExample]], store: TileStore, reader: Reader, inputs: Inputs
) -> dict[str, Any]:
    """Tokens of the rows by split, from sizes alone; raises ContextError for a row that is too long."""
    limit = config.max_tokens or int(reader.model.config.get_text_config().max_position_embeddings)
    found = {}
    for split, rows in splits.items():
        generated = config.max_new_tokens if split == "validation" else 0
        costs = [row_cost(row, store.size_px, reader.prompt, reader.policy) for row in rows]
        needed = [cost.prompt_tokens + max(cost.answer_tokens, generated) for cost in costs]
        check_context(zip(rows, needed, strict=True), limit, str(inputs["examples"] / f"{split}.jsonl"))
        found[split] = {
            "tokens_mean": mean([cost.tokens for cost in costs]),
            "tokens_max": max((cost.tokens for cost in costs), default=0),
            "visual_tokens_mean": mean([cost.visual_tokens for cost in costs]),
            "images_enlarged_to_min_pixels": sum(cost.enlarged_images for cost in costs),
        }
    return found


def _reader(config: Config, model: Path, rows: list[ReaderExample]) -> Reader:
    """The reader to train, without adapters."""
    dtype = PRECISIONS[config.precision]
    reader = load_reader(model, device=choose_device(), dtype=dtype, max_pixels=config.max_pixels)
    reader.compressions = tuple(sorted({row.compression for row in rows}))
    return reader


def _make_trainable(reader: Reader, config: Config) -> dict[str, int]:
    """Add adapters, if there are any; trainable parameters by group."""
    if config.adapters is None:
        return {"all": sum(parameter.numel() for parameter in reader.model.parameters())}
    reader.model = add_adapters(reader.model, config.adapters, seed=config.seed)
    return count_by_group(reader.model)


def _take_best(reader: Reader, state: TrainerState, config: Config, out: Path) -> None:
    best = best_of(state.log_history)
    if config.keep == "best" and best is not None:
        _best_weights(out).load(best["step"], reader.model)


def _best_weights(out: Path) -> BestWeights:
    return BestWeights(out / STATE / "best")


def _train(
    config: Config,
    reader: Reader,
    rows: list[ReaderExample],
    collator: ReaderCollator,
    validation: Validation,
    progress: Progress,
    out: Path,
) -> TrainerState:
    """Train from the last whole checkpoint on; return the Trainer's state."""
    found = last_checkpoint(out / STATE, prune=rank_and_world()[0] == 0)
    if found is not None:
        state = TrainerState.load_from_json(str(found / "trainer_state.json"))
        state.max_steps = config.steps
        if is_done(state, config.patience):  # killed after its last update
            load_trained(reader.model, found / WEIGHTS)
            return state
    first_moving_step = 2 if config.warmup_steps else 1
    trainer = ReaderTrainer(reader, _arguments(config, out / STATE), rows, collator)
    trainer.remove_callback(PrinterCallback)
    with stop_on_sigterm() as stop:
        trainer.add_callback(
            Watch(
                validation,
                progress,
                stop,
                _best_weights(out) if config.keep == "best" else None,
                patience=config.patience,
                evaluate_every=config.evaluate_every,
                check_adapters_at=first_moving_step if config.adapters else None,
            )
        )
        trainer.train(resume_from_checkpoint=None if found is None else str(found))
    if not is_done(trainer.state, config.patience):
        raise StageError(
            f"train_reader: stopped by SIGTERM after step {trainer.state.global_step} of {config.steps}; the state is"
            " kept: run the same command again to go on"
        )
    return trainer.state


def _arguments(config: Config, folder: Path) -> TrainingArguments:
    on_cpu = choose_device().type == "cpu"
    checkpointing: dict[str, Any] = {}
    if config.gradient_checkpointing:
        newer = hasattr(TrainingArguments, "activation_checkpointing")  # how later versions call it
        name = "activation_checkpointing" if newer else "gradient_checkpointing"
        checkpointing = {name: True, f"{name}_kwargs": {"use_reentrant": False}}
    return TrainingArguments(
        output_dir=str(folder),
        max_steps=config.steps,
        per_device_train_batch_size=config.batch_size,
        gradient_accumulation_steps=config.gradient_accumulation,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        warmup_steps=config.warmup_steps,
        lr_scheduler_type=SCHEDULES[config.schedule],
        adam_beta2=config.adam_beta2,
        optim="adamw_torch",
        seed=config.seed,
        data_seed=config.seed,
        save_strategy="steps",
        save_steps=config.save_every,
        save_total_limit=2,  # the older one stays until the newer is whole
        logging_steps=1,
        logging_nan_inf_filter=False,
        eval_strategy="no",
        dataloader_num_workers=config.workers,
        dataloader_pin_memory=not on_cpu,
        remove_unused_columns=False,
        label_names=["labels"],
        use_cpu=on_cpu,
        disable_tqdm=True,
        report_to=[],
        log_level="error",
        **checkpointing,
    )


def _counts(
    state: TrainerState, examples: int, validation_examples: int, trained: dict[str, int], curve: list[dict[str, float]]
) -> dict[str, Any]:
    best = best_of(state.log_history)
    validated = [row for row in curve if LOSS in row]
    marked = {"before": validated[0], "after": validated[-1]} if validated else {}
    if best is not None:
        marked["best"] = next(row for row in validated if row["step"] == best["step"])
    return {
        "examples": examples,
        "validation_examples": validation_examples,
        "steps": state.global_step,
        "stopped_by_patience": state.global_step < state.max_steps,
        "trainable_parameters": trained,
        "first_loss": next(row["loss"] for row in curve if "loss" in row),
        "last_loss": curve[-1]["loss"],
        "validation": {
            name: {key: row[key] for key in ("step", LOSS, ACCURACY) if key in row} for name, row in marked.items()
        },
    }


STAGE = Stage("train_reader", Config, train_reader, schema=1, distributed=True)

if __name__ == "__main__":
    main(STAGE)
