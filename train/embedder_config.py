"""The configuration of embedder training."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from tilewright.configs.bounds import check_bounds
from tilewright.configs.stage import execution, input_path
from tilewright.train.adapters import VISION_GROUPS, LoraGroup
from tilewright.train.grad_cache import Chunking
from tilewright.train.objective import LossConfig
from tilewright.train.schedule import Schedule
from tilewright.train.trackers import Tracker


@dataclass(frozen=True)
class Config:
    """How to train an embedder.

    model: folder of the encoder to start from; examples: examples.jsonl of mine_negatives; validation: validation.jsonl
    and splits: folder of split_pairs. ``trainable``: `full`, or `adapters` with the LoRA groups in ``adapters``.
    ``hard_negatives`` of each example's negatives (hardest first) and ``random_tiles`` more training tiles join each
    batch as candidates. ``extra_positives``: how many of each example's known positives join the batch and count as
    positives too (``info_nce`` says how); 0: they are only no negatives. ``keep``: the weights of the best validation
    (by ``validation_metric``, of trained weights only: `best_beats_start` in the counts tells whether they beat the
    untrained) or the last ones; ``patience``: stop after so many validations without a better one.
    ``train_recall_every``: steps between searches of ``train_recall_queries`` training queries among all tiles of
    training pages. ``cache_mib``: patches of tiles kept in memory. ``threads``: of torch (none: its default); a
    resumed run is byte-identical on the same number. ``precision``: bfloat16 means frozen weights in it and autocast;
    what is trained stays float32, and so do vectors and loss.
    ``schedule`` falls to ``final_share`` of the rate. ``use_dora``, ``use_rslora``: of all adapters, by PEFT.
    ``chunking``: GradCache, how many rows are embedded at once. ``text_pairs``: text_pairs.jsonl of text_pairs, for the
    first ``text_steps`` steps, in which queries are matched with passages. ``temperature_learning_rate``: if another
    than ``learning_rate``. ``ema_decay``: search and keep the moving average of the weights. ``keep_last``: so many of
    the checkpoints at ``save_every`` stay, in ``checkpoints/step-N``. ``workers``: processes that read, resize and
    tokenise (0: a thread).
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
    extra_positives: int = 0
    train_recall_queries: int = 64
    limit_examples: int | None = None
    patience: int | None = None
    precision: Literal["float32", "bfloat16"] = "float32"
    chunking: Chunking = field(default_factory=Chunking)
    gradient_checkpointing: bool = False
    text_pairs: Path | None = input_path(default=None)
    text_steps: int = 0
    schedule: Schedule = "cosine"
    final_share: float = 0.0
    use_dora: bool = False
    use_rslora: bool = False
    temperature_learning_rate: float | None = None
    ema_decay: float | None = None
    keep_last: int = 0
    workers: int = execution(default=0)
    trackers: tuple[Tracker, ...] = execution(default=())

    def __post_init__(self) -> None:
        positive = ("steps", "batch_size", "validate_every", "save_every", "validation_queries", "train_recall_queries")
        for name in (*positive, "hard_negatives", "random_tiles"):
            if getattr(self, name) < (name in positive):
                raise ValueError(f"{name}: wanted at least {int(name in positive)}, found {getattr(self, name)}")
        for name in ("learning_rate", "max_grad_norm", "temperature_learning_rate"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"{name}: wanted more than 0, found {value}")
        for name in ("limit_examples", "patience", "threads", "train_recall_every"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: wanted at least 1, or null, found {value}")
        if self.weight_decay < 0 or self.cache_mib < 0:
            raise ValueError("weight_decay and cache_mib: wanted at least 0")
        if not 0 <= self.warmup_steps <= self.steps:
            raise ValueError(f"warmup_steps: wanted 0 to steps ({self.steps}), found {self.warmup_steps}")
        if (self.trainable == "adapters") != bool(self.adapters):
            raise ValueError("adapters: wanted LoRA groups with `trainable: adapters`, and none with `trainable: full`")
        if self.trainable == "full" and (self.use_dora or self.use_rslora):
            raise ValueError("use_dora and use_rslora: wanted false with `trainable: full`, which has no adapters")
        if len(set(self.trackers)) < len(self.trackers):
            raise ValueError(f"trackers: wanted none twice, found {list(self.trackers)}")
        if not 0 <= self.text_steps <= self.steps or (self.text_steps > 0) != (self.text_pairs is not None):
            raise ValueError(
                f"text_steps: wanted 1 to steps ({self.steps}) with text_pairs, 0 without, found {self.text_steps}"
            )
        if (
            self.text_steps
            and self.adapters
            and set(self.adapters) <= set(VISION_GROUPS)
            and not self.loss.learn_temperature
        ):
            raise ValueError(
                f"text_steps: wanted 0, found {self.text_steps}: texts reach none of {list(self.adapters)}"
            )
        if self.ema_decay is not None and not 0 < self.ema_decay < 1:
            raise ValueError(f"ema_decay: wanted between 0 and 1, or null, found {self.ema_decay}")
        check_bounds(self, 0, None, "keep_last", "workers", "extra_positives")
        check_bounds(self, 0, 1, "final_share")
