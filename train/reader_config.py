"""The configuration of reader training."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.stage import execution, input_path
from tilewright.train.adapters import LoraGroup


@dataclass(frozen=True)
class Config:
    """Train the reader ``model`` on ``examples`` (folder of make_reader_data) with the pictures of ``tiles``.

    ``steps`` updates of ``batch_size`` rows per rank times ``gradient_accumulation``; AdamW, its rate by ``schedule``
    after ``warmup_steps``. ``adapters``: {group: {rank, alpha}}, merged at the end; null trains all parameters.
    ``max_pixels``: the processor's limit for an image (null: the model's own). ``max_tokens``: the longest row, prompt
    and answer (null: the model's context). ``validation_questions`` rows with a gold tile are answered at each
    validation, with up to ``max_new_tokens``. ``keep``: the weights of the validation that answered most of them right
    (of trained weights only; the loss decides between equals), or the last ones; ``patience``: stop after so many
    validations without a better one. ``threads`` of the CPU; another number may give other last digits.
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
    keep: Literal["best", "last"]
    model: Path = input_path()
    examples: Path = input_path()
    tiles: Path = input_path()
    patience: int | None = None
    schedule: Literal["cosine", "constant"] = "cosine"
    adam_beta2: float = 0.999
    weight_decay: float = 0.0
    max_grad_norm: float = 1.0
    gradient_accumulation: int = 1
    gradient_checkpointing: bool = False
    max_tokens: int | None = None
    max_new_tokens: int = 32
    precision: Literal["float32", "bfloat16"] = "float32"
    workers: int = execution(default=0)

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "steps", "batch_size", "evaluate_every", "save_every", "threads", "max_new_tokens")
        check_bounds(self, 1, None, "gradient_accumulation", "patience", "max_tokens")
        check_bounds(self, 0, 1, "adam_beta2")
        check_bounds(self, 0, None, "validation_questions", "warmup_steps", "weight_decay", "workers")
        for name in ("learning_rate", "max_grad_norm"):
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}: wanted more than 0, found {getattr(self, name)}")
        if self.patience is not None and self.keep != "best":
            raise ValueError(f"patience: wanted null with `keep: {self.keep}`, found {self.patience}")
