"""The loop: batches composed on the device, one update each, measured on windows with words that were held out."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from random import Random
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from gpu_pretrain_parts.atlas import Atlas
from gpu_pretrain_parts.composition import compose
from gpu_pretrain_parts.text import Dice, TextBank
from tilewright.train.nano import PATCH_PX, NanoModel
from tilewright.train.nano_characters import BLANK
from tilewright.train.nano_data import WindowBatch, patches_of
from tilewright.train.pretrain_nano import BETAS, reading_loss
from tilewright.train.schedule import rate_share

PARTS = 10_000  # of a phase: where in its schedule it stands
_SHORTENED, _LEAST_ROWS, _LEAST_COLUMNS = 0.3, 2, 10


@dataclass(frozen=True)
class Phase:
    """As pretrain_nano's, but ``share`` of the time; ``warmup`` in PARTS."""

    name: str
    share: float
    learning_rate: float
    warmup: int
    compressions: tuple[float, ...]


@dataclass(frozen=True)
class Scale:
    """How much of everything."""

    sizes_px: tuple[int, ...]
    families: int
    tokens: int
    documents: int
    windows: int
    rows: int
    columns: int
    held_out_batches: int
    vision: dict[str, int]


@dataclass(frozen=True)
class Source:
    """Where windows come from: chance, letters, words."""

    dice: Dice
    atlas: Atlas
    bank: TextBank
    scale: Scale

    def batch(self, compressions: tuple[float, ...]) -> WindowBatch:
        """A batch of windows on the device."""
        scale = self.scale
        return compose(
            self.dice,
            self.atlas,
            self.bank,
            scale.windows,
            rows=scale.rows,
            columns=scale.columns,
            compressions=compressions,
        )


class Training:
    """A model and what updates it."""

    def __init__(self, model: NanoModel, device: torch.device, seed: int) -> None:
        self.model, self.device = model, device
        self._random = Random(seed)
        matrices = [weight for weight in model.parameters() if weight.dim() >= 2]
        vectors = [weight for weight in model.parameters() if weight.dim() < 2]
        groups: list[dict[str, Any]] = [
            {"params": matrices, "weight_decay": 0.02},
            {"params": vectors, "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=0.0, betas=BETAS, fused=True)

    def phase(self, phase: Phase, source: Source, done: Callable[[int], float]) -> dict[str, Any]:
        """Updates, at least one, until ``done(steps so far)`` is 1; figures of the phase."""
        self.model.train()
        started, steps, share, losses, accuracies = now(self.device), 0, 0.0, [], []
        while share < 1:
            rate = phase.learning_rate * rate_share(int(share * PARTS), PARTS, phase.warmup)
            for group in self.optimizer.param_groups:
                group["lr"] = rate
            loss, accuracy = self._loss(self._shortened(source.batch(phase.compressions)))
            loss.backward()  # type: ignore[no-untyped-call]
            nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
            self.optimizer.step()
            self.optimizer.zero_grad(set_to_none=True)
            losses.append(loss.detach())
            accuracies.append(accuracy)
            steps += 1
            share = done(steps)
        seconds = now(self.device) - started
        assert torch.isfinite(torch.stack(losses)).all(), f"{phase.name}: the loss isn't finite: lower its rate"
        return {
            "steps": steps,
            "seconds": round(seconds, 1),
            "windows_per_s": round(steps * source.scale.windows / seconds, 1),
            "loss": round(float(torch.stack(losses[-20:]).mean()), 4),
            "train_accuracy": round(float(np.mean(accuracies[-20:])), 4),
        }

    def _shortened(self, batch: WindowBatch) -> WindowBatch:
        """Three batches in ten cut down to a random size, as a page's windows may be."""
        rows, columns = batch.characters.shape[1:3]
        if self._random.random() >= _SHORTENED:
            return batch
        rows = self._random.randint(_LEAST_ROWS, rows)
        columns = self._random.randint(_LEAST_COLUMNS, columns)
        pixels = batch.pixels[:, : rows * PATCH_PX, : columns * PATCH_PX].contiguous()
        labels = (batch.characters, batch.before, batch.after, batch.starts)
        return WindowBatch(pixels, *(label[:, :rows, :columns] for label in labels))

    def _loss(self, batch: WindowBatch) -> tuple[Tensor, float]:
        with torch.autocast(self.device.type, torch.bfloat16):
            reading = self.model.read(self.model.states(patches_of(batch.pixels)))
        return reading_loss(reading, batch)

    @torch.no_grad()
    def accuracy(self, source: Source, compression: float) -> float:
        """Share of the characters of held-out windows that are read in their cell."""
        self.model.eval()
        right = count = 0
        for _ in range(source.scale.held_out_batches):
            batch = source.batch((compression,))
            with torch.autocast(self.device.type, torch.bfloat16):
                read = self.model.read(self.model.states(patches_of(batch.pixels))).characters.argmax(-1)
            there = batch.characters != BLANK
            right += int((read == batch.characters)[there].sum())
            count += int(there.sum())
        return round(right / max(1, count), 4)


def now(device: torch.device) -> float:
    """The time, all work on ``device`` being done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()
