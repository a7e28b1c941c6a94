"""CPU time of single steps, in turns on one thread: ours against a bare torch loop, GradCache against a plain step."""

import statistics
import time
from collections.abc import Callable, Mapping
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F

from tilewright.train.adapters import LoraGroup, add_adapters, trainable
from tilewright.train.batch import Batch
from tilewright.train.contrastive_step import ContrastiveStep
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.grad_cache import Chunking
from tilewright.train.objective import LossConfig, Objective
from tilewright.train.parallel import Replicated
from tilewright.train.pixels import normalised_frames
from train_embedder_parts.workload import Workload, batches, step_inputs

TEMPERATURE, RATE = 0.05, 1e-5
GROUPS = {name: LoraGroup(4, 4) for name in ("llm_attn", "vit_attn", "vit_mlp")}  # small: theory counts no adapters
PLAIN, KEPT = Chunking(keep_mib=None), "kept"
THEORY = {"full": 4 / 3, "lora": 3 / 2, "full_checkpointed": 5 / 4, "lora_checkpointed": 4 / 3}
"""GradCache's step over the plain one, in forwards, a backward pass of all weights being 2 and one of activations 1."""


class BareLoop:
    """What one would write without us: both sides forward, InfoNCE, backward, clip, AdamW."""

    def __init__(self, encoder: Encoder, queries: Batch, tiles: Batch) -> None:
        self.model, self.sides = encoder.model, (self.inputs(encoder, queries), self.inputs(encoder, tiles))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=RATE, weight_decay=0.0)

    def inputs(self, encoder: Encoder, batch: Batch) -> tuple[dict[str, Tensor], Tensor]:
        arguments = {"input_ids": batch.input_ids, "position_ids": batch.position_ids}
        if batch.patches is not None and batch.grids is not None:
            arguments |= {"pixel_values": normalised_frames(batch.patches, encoder.contract.pixels)}
            arguments |= {"image_grid_thw": batch.grids}
        return arguments, batch.pooled

    def __call__(self) -> float:
        vectors = []
        for arguments, last in self.sides:
            hidden = self.model(**arguments, use_cache=False).last_hidden_state
            vectors.append(F.normalize(hidden[torch.arange(len(last)), last], dim=-1))
        scores = vectors[0] @ vectors[1].T / TEMPERATURE
        loss = F.cross_entropy(scores, torch.arange(len(scores)))
        loss.backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.optimizer.zero_grad()
        return loss.item()


class OurStep:
    """A step of ours and the update after it."""

    def __init__(
        self, encoder: Encoder, queries: Batch, tiles: Batch, chunking: Chunking, *, checkpointed: bool = False
    ) -> None:
        self.model, self.checkpointed = encoder.model, checkpointed
        self.inputs = step_inputs(queries, tiles)
        objective = Objective(LossConfig(TEMPERATURE, learn_temperature=False))
        weights = trainable(encoder.model)
        optimizer = torch.optim.AdamW([{"name": "all", "params": list(weights.values())}], weight_decay=0.0)
        self.parallel = Replicated(weights, optimizer, 1.0)
        self.step = ContrastiveStep(
            encoder.model,
            encoder.forward,
            objective,
            encoder.dimension,
            chunking=chunking,
            backward=self.parallel.backward,
        )

    def __call__(self) -> float:
        set_checkpointing(self.model, self.checkpointed)
        loss, _ = self.step(self.inputs)
        self.parallel.update({"all": RATE})
        return loss.item()


def set_checkpointing(model: Any, on: bool) -> None:
    """Switch gradient checkpointing as train_embedder does."""
    if on:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    else:
        model.gradient_checkpointing_disable()


def variants(workload: Workload) -> dict[str, Callable[[], float]]:
    """{name: one step}; each of `full` and `lora` has one model, which all its variants train on."""
    size, steps = workload.size, dict[str, Callable[[], float]]()
    chunked = {"plain": PLAIN, "grad_cache": Chunking(rows=size.chunk), KEPT: Chunking(rows=size.chunk, keep_mib=None)}
    for kind in ("full", "lora"):
        encoder = load_encoder(workload.model)
        if kind == "lora":
            encoder.model = add_adapters(encoder.model, GROUPS)
        encoder.model.train()
        sides = batches(workload, encoder, size.batch)
        if kind == "full":
            steps["bare"] = BareLoop(encoder, *sides)
        for checkpointed in (False, True):
            case = f"{kind}_checkpointed" if checkpointed else kind
            for name, chunking in chunked.items():
                steps[f"{case}/{name}"] = OurStep(encoder, *sides, chunking, checkpointed=checkpointed)
    return steps


def timed(steps: Mapping[str, Callable[[], float]], turns: int) -> dict[str, list[float]]:
    """CPU seconds of each step in each turn, after a first one that isn't counted; every other turn goes backwards."""
    seconds: dict[str, list[float]] = {name: [] for name in steps}
    for turn in range(turns + 1):
        for name in list(steps) if turn % 2 else reversed(list(steps)):
            started = time.process_time()
            loss = steps[name]()
            if turn:
                seconds[name].append(time.process_time() - started)
            assert loss == loss, name
    return seconds


def ratio(seconds: Mapping[str, list[float]], name: str, base: str) -> dict[str, Any]:
    """The median over turns of one variant's time over another's, and the least and the greatest of them."""
    ratios = [ours / theirs for ours, theirs in zip(seconds[name], seconds[base], strict=True)]
    return {"found": round(statistics.median(ratios), 3), "range": [round(min(ratios), 3), round(max(ratios), 3)]}


def step_figures(workload: Workload, turns: int) -> dict[str, Any]:
    """All figures of single steps."""
    steps = variants(workload)
    seconds = timed(steps, turns)
    figures: dict[str, Any] = {
        "step_cpu_s": {name: round(statistics.median(times), 4) for name, times in seconds.items()},
        "plain_over_bare": {"wanted": "<= 1.05"} | ratio(seconds, "full/plain", "bare"),
    }
    for case, theory in THEORY.items():
        of_plain = ratio(seconds, f"{case}/grad_cache", f"{case}/plain")
        figures[f"grad_cache/{case}"] = {
            "theory": round(theory, 3),
            "wanted": f"<= {1.05 * theory:.3f}",
            "over_theory": round(of_plain["found"] / theory, 3),
            "over_same_chunks_kept": ratio(seconds, f"{case}/grad_cache", f"{case}/{KEPT}")["found"],
        } | of_plain
        if "checkpointed" not in case:
            kept = ratio(seconds, f"{case}/{KEPT}", f"{case}/plain")
            figures[f"kept_graphs/{case}"] = {"wanted": "<= 1.1"} | kept
    return figures
