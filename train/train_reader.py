"""Stage: train a reader on compressed tiles by cross-entropy of the answer tokens (transformers' Trainer).

Resumable to the bit on a CPU with a fixed number of threads: the order of the examples is a function of seed and
step, and a checkpoint holds parameters, optimiser, schedule and random states.
"""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

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
    execution,
    input_path,
    log_path,
    main,
    rank_and_world,
)
from tilewright.data_gen.records import ReaderExample, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.adapters import LoraGroup, add_adapters, count_by_group
from tilewright.train.distributed import choose_device
from tilewright.train.reader import Reader, load_reader, save_reader
from tilewright.train.reader_batch import ReaderCollator
from tilewright.train.reader_trainer import (
    ReaderTrainer,
    Watch,
    curve_of,
    last_checkpoint,
    load_trained,
)
from tilewright.train.reader_validation import Validation
from tilewright.train.run_control import stop_on_sigterm, torch_threads

STATE = ".trainer"
PRECISIONS = {"float32": torch.float32, "bfloat16": torch.bfloat16}


@dataclass(frozen=True)
class Config:
    """Train the reader ``model`` on ``examples`` (folder of make_reader_data) with the pictures of ``tiles``.

    ``steps`` updates of ``batch_size`` rows per rank times ``gradient_accumulation``; AdamW, cosine after
    ``warmup_steps``. ``adapters``: {group: {rank, alpha}}, merged at the end; null trains all parameters.
    ``max_pixels``: the processor's limit for an image (null: the model's own). ``validation_questions`` rows with a
    gold tile are answered at each validation, with up to ``max_new_tokens``. ``threads`` of the CPU; another number may
    give other last digits.
    """

    out: Path
    steps: int
    batch_size: int
    learning_rate: float
    warmup_steps: int
    adapters: dict[str, LoraGroup] | None
    max_pixels: int | None
    evaluate_every: int
    validation_questions: int
    save_every: int
    threads: int
    seed: int
    model: Path = input_path()
    examples: Path = input_path()
    tiles: Path = input_path()
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    gradient_accumulation: int = 1
    gradient_checkpointing: bool = False
    max_new_tokens: int = 32
    precision: Literal["float32", "bfloat16"] = "float32"
    workers: int = execution(default=0)

    def __post_init__(self) -> None:
        for name in ("steps", "batch_size", "evaluate_every", "save_every", "threads", "gradient_accumulation"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: wanted at least 1, found {getattr(self, name)}")


def train_reader(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write checkpoint/ (loadable by ``load_reader``) and curve.jsonl. Raises StageError if SIGTERM ended it early."""
    rows = read_jsonl(inputs["examples"] / "train.jsonl", ReaderExample)
    if not rows:
        raise InputError(f"{inputs['examples'] / 'train.jsonl'}: wanted at least one example, found none")
    validation_rows = read_jsonl(inputs["examples"] / "validation.jsonl", ReaderExample)
    store = TileStore.open(inputs["tiles"])
    _check_tiles([*rows, *validation_rows], store, inputs)
    with torch_threads(config.threads):
        reader, trained = _reader(config, inputs["model"], rows)
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
            _merge(reader, config)
            save_reader(reader, out / "checkpoint", inputs["model"])
            lines = [json.dumps(row, allow_nan=False) + "\n" for row in curve]
            (out / "curve.jsonl").write_text("".join(lines), encoding="utf-8")
    return _counts(config, rows, validation_rows, trained, curve)


def _check_tiles(rows: list[ReaderExample], store: TileStore, inputs: Inputs) -> None:
    for row in rows:
        missing = [tile_id for tile_id in row.tile_ids if tile_id not in store]
        if missing:
            raise InputError(f"{inputs['examples']}: {row.query_id}: tile {missing[0]} is not in {inputs['tiles']}")


def _reader(config: Config, model: Path, rows: list[ReaderExample]) -> tuple[Reader, dict[str, int]]:
    """The reader to train and its trainable parameters by group."""
    dtype = PRECISIONS[config.precision]
    reader = load_reader(model, device=choose_device(), dtype=dtype, max_pixels=config.max_pixels)
    reader.compressions = tuple(sorted({row.compression for row in rows}))
    if config.adapters is None:
        return reader, {"all": sum(parameter.numel() for parameter in reader.model.parameters())}
    reader.model = add_adapters(reader.model, config.adapters, seed=config.seed)
    return reader, count_by_group(reader.model)


def _merge(reader: Reader, config: Config) -> None:
    """Fold adapters into the weights in fp32, then round once to the model's precision."""
    if config.adapters is not None:
        reader.model = reader.model.float().merge_and_unload().to(PRECISIONS[config.precision])


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
        if state.global_step >= config.steps:  # killed after its last update
            load_trained(reader.model, found)
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
                evaluate_every=config.evaluate_every,
                check_adapters_at=first_moving_step if config.adapters else None,
            )
        )
        trainer.train(resume_from_checkpoint=None if found is None else str(found))
    if trainer.state.global_step < config.steps:
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
        lr_scheduler_type="cosine",
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
    config: Config,
    rows: list[ReaderExample],
    validation_rows: list[ReaderExample],
    trained: dict[str, int],
    curve: list[dict[str, float]],
) -> dict[str, Any]:
    validated = [row for row in curve if "validation_loss" in row]
    figures = (
        {
            name: {key: row[key] for key in ("step", "validation_loss", "validation_exact_match") if key in row}
            for name, row in (("before", validated[0]), ("after", validated[-1]))
        }
        if validated
        else {}
    )
    return {
        "examples": len(rows),
        "validation_examples": len(validation_rows),
        "steps": config.steps,
        "trainable_parameters": trained,
        "first_loss": next(row["loss"] for row in curve if "loss" in row),
        "last_loss": curve[-1]["loss"],
        "validation": figures,
    }


STAGE = Stage("train_reader", Config, train_reader, schema=1, distributed=True)

if __name__ == "__main__":
    main(STAGE)
