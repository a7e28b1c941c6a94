"""A checkpoint on benchmarks of page images through ``mteb``: ViDoRe v1 to v3 by default."""

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import torch

from tilewright.configs.bounds import check_bounds
from tilewright.configs.items import ItemError, process_items
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main, write_atomically
from tilewright.eval.mteb_model import BENCHMARKS, MtebEncoder, mteb_tasks, run_task
from tilewright.eval.tools import require_module
from tilewright.train.distributed import choose_device
from tilewright.train.encoder import load_encoder

if TYPE_CHECKING:
    from mteb.abstasks import AbsTask

METRICS = "metrics.json"


@dataclass(frozen=True)
class Config:
    """Scores of ``checkpoint`` (an embedder) on all tasks of ``benchmarks`` and on those named in ``tasks``.

    Data sets come from the hub or its local cache, at the revisions that mteb pins. ``batch_size``: queries and pages
    that are read at a time; ``batch_tokens`` bounds the visual tokens of a forward. More than ``max_error_share`` of
    tasks that can't be run stop the stage; finished ones are kept.
    """

    out: Path
    checkpoint: Path = input_path()
    benchmarks: tuple[str, ...] = BENCHMARKS
    tasks: tuple[str, ...] = ()
    model_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    device: str = execution(default="auto")
    batch_size: int = execution(default=32)
    batch_tokens: int = execution(default=4096)
    max_error_share: float = execution(default=0.0)

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "batch_size", "batch_tokens")
        check_bounds(self, 0, 1, "max_error_share")
        if not self.benchmarks and not self.tasks:
            raise ValueError("benchmarks: wanted at least one benchmark or task, found none")


def evaluate_mteb(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write metrics.json: every task's scores, and each benchmark's mean of main scores where all its tasks ran."""
    tasks = mteb_tasks(config.benchmarks, config.tasks)
    device = choose_device(config.device)
    encoder = load_encoder(inputs["checkpoint"], device=device, dtype=getattr(torch, config.model_dtype))
    model = MtebEncoder(encoder, batch_tokens=config.batch_tokens)
    found = run_tasks(model, tasks, out, batch_size=config.batch_size, max_error_share=config.max_error_share)
    means = {name: _mean(found, [task.metadata.name for task in mteb_tasks([name], [])]) for name in config.benchmarks}
    metrics = {"encoder_hash": encoder.hash, "benchmarks": means, "tasks": found}
    write_atomically(out / METRICS, json.dumps(metrics, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return {
        "tasks": len(tasks),
        "tasks_failed": len(tasks) - len(found),
        "mteb": require_module("mteb", "mteb").__version__,
    }


def run_tasks(
    model: MtebEncoder, tasks: "Sequence[AbsTask]", out: Path, *, batch_size: int, max_error_share: float
) -> dict[str, Any]:
    """{task: its scores} of those that ran, journalled in ``out`` one by one."""

    def work(todo: "Sequence[AbsTask]") -> "Iterator[tuple[AbsTask, Any]]":
        for task in todo:
            try:
                yield task, run_task(model, task, batch_size=batch_size)
            except OSError as error:  # no network, no such data set, none in the cache
                yield task, ItemError(f"{type(error).__name__}: {error}")

    return process_items("mteb", tasks, lambda task: task.metadata.name, work, out, max_error_share=max_error_share)


def _mean(found: Mapping[str, Any], names: Sequence[str]) -> dict[str, Any]:
    """Mean of the main scores, None unless every task has one."""
    values = [found[name]["value"] for name in names if name in found]
    complete = len(values) == len(names)
    return {"value": math.fsum(values) / len(values) if complete else None, "tasks": len(names), "ran": len(values)}


STAGE = Stage("evaluate_mteb", Config, evaluate_mteb, schema=1)

if __name__ == "__main__":
    main(STAGE)
