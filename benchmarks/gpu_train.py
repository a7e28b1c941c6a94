"""Embedder training on one GPU at the true 2B shapes, random weights: speed, memory, utilisation. Prints one JSON line.

    python benchmarks/gpu_train.py [--budget-s 330]              (one GPU of 80 GB or more, at most 6 minutes)
    python benchmarks/gpu_train.py --device cpu --tiny           (a check that it runs; its figures mean nothing)

Qwen3-VL-2B in bfloat16 with the LoRA groups of ``paper.yaml`` (25,427,968 trainable parameters in float32), 64 queries
and 64 tiles of 875 x 1024 px (864 visual tokens), GradCache with chunks of 4, 8 and 16 rows, with and without gradient
checkpointing and kept graphs. Inputs lie on the CPU and are copied chunk by chunk; nothing is decoded.

- ``hardware_utilisation``: all FLOPs executed (first passes without gradient, recomputation by checkpointing) over the
  card's matmul peak, measured here; wanted >= 0.45 in the best case. ``model_utilisation``: one forward pass and the
  gradients of activations and adapters, whatever is computed twice.
- FLOPs are counted by torch's FlopCounterMode on one chunk of each kind; of causal attention half is taken off.
- A case that runs out of memory, or that the budget leaves no time for, says so.
"""

import argparse
import json
import statistics
import sys
import time
from collections import Counter
from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.flop_counter import FlopCounterMode
from train_embedder_parts.true_shapes import FULL, TINY, Scale, make_inputs, make_model
from transformers.utils.logging import set_verbosity_error

from tilewright.train.adapters import trainable
from tilewright.train.batch import Batch
from tilewright.train.contrastive_step import ContrastiveStep
from tilewright.train.grad_cache import Chunking
from tilewright.train.objective import LossConfig, Objective
from tilewright.train.parallel import Replicated
from tilewright.train.pixels import PixelPolicy
from tilewright.train.qwen3_vl import hidden_states
from tilewright.train.step_inputs import StepInputs

POLICY = PixelPolicy(min_pixels=4096, max_pixels=1800 * 32 * 32)


class Embedding:
    """Batches to unit vectors under autocast, as the trainer does; counts rows by (with images, with gradient)."""

    def __init__(self, model: nn.Module, device: torch.device) -> None:
        self.model, self.device = model, device
        self.rows: Counter[tuple[bool, bool]] = Counter()

    def __call__(self, batch: Batch) -> Tensor:
        self.rows[batch.patches is not None, torch.is_grad_enabled()] += len(batch)
        batch = batch.to(self.device)
        with torch.autocast(self.device.type, torch.bfloat16):
            hidden = hidden_states(self.model, batch, POLICY)
        pooled = hidden[torch.arange(len(batch), device=self.device), batch.pooled]
        return F.normalize(pooled.float(), dim=-1)


def set_checkpointing(model: Any, on: bool) -> None:
    if on:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    else:
        model.gradient_checkpointing_disable()


def flops_a_row(embedding: Embedding, batch: Batch, scale: Scale, checkpointing: bool) -> dict[bool, float]:
    """{with gradient: FLOPs of a row}; half of the language model's causal attention is taken off.

    With gradient: forward and backward, and what ``checkpointing`` computes again.
    """
    length, width = batch.input_ids.shape[1], scale.text["num_attention_heads"] * scale.text["head_dim"]
    half = 2 * length * length * width * scale.text["num_hidden_layers"]  # of a forward pass; backward is 2.5 of them
    counted = embedding.device.type == "cuda"  # the counter knows no attention of the CPU's
    found = {}
    for with_gradient, passes in ((False, 1.0), (True, 3.5 + checkpointing)):
        with FlopCounterMode(display=False) as counter, torch.set_grad_enabled(with_gradient):
            vectors = embedding(batch)
            if with_gradient:
                vectors.sum().backward()  # type: ignore[no-untyped-call]
        found[with_gradient] = counter.get_total_flops() / len(batch) - passes * half * counted
    embedding.model.zero_grad(set_to_none=True)
    return found


def matmul_peak(device: torch.device, tiny: bool) -> float:
    """FLOP/s of the fastest of some large bfloat16 products, each timed over half a second or so."""
    best = 0.0
    for m, k, n in ((256, 256, 256),) if tiny else ((8192, 8192, 8192), (16384, 8192, 8192), (16384, 2048, 6144)):
        a, b = (torch.randn(shape, device=device, dtype=torch.bfloat16) for shape in ((m, k), (k, n)))
        repeats = 5 if tiny else max(20, int(3e14 / (2 * m * k * n)))
        for _ in range(3):
            a @ b
        started = now(device)
        for _ in range(repeats):
            a @ b
        best = max(best, repeats * 2 * m * k * n / (now(device) - started))
    return best


def now(device: torch.device) -> float:
    """The time, all work on ``device`` being done."""
    if device.type == "cuda":
        torch.cuda.synchronize(device)
    return time.perf_counter()


def run_case(
    embedding: Embedding, inputs: StepInputs, scale: Scale, chunking: Chunking, flops: dict[Any, float], peak: float
) -> dict[str, Any]:
    """Steps of one case: speed, memory, utilisation."""
    device, weights = embedding.device, trainable(embedding.model)
    optimizer = torch.optim.AdamW([{"name": "all", "params": list(weights.values())}], weight_decay=0.0)
    parallel = Replicated(weights, optimizer, 1.0)
    objective = Objective(LossConfig(0.07, learn_temperature=False)).to(device)
    step = ContrastiveStep(
        embedding.model, embedding, objective, scale.text["hidden_size"], chunking=chunking, backward=parallel.backward
    )
    if device.type == "cuda":
        torch.cuda.reset_peak_memory_stats(device)
    seconds = []
    for number in range(scale.steps + 1):
        embedding.rows.clear()
        started = now(device)
        loss, _ = step(inputs)
        parallel.update({"all": 7e-6})
        if number:  # the first one warms up
            seconds.append(now(device) - started)
    assert torch.isfinite(loss)
    rows, step_s = dict(embedding.rows), statistics.median(seconds)
    executed = sum(count * flops[kind] for kind, count in rows.items())
    needed = scale.batch * (flops["model", False] + flops["model", True])
    memory = torch.cuda.max_memory_allocated(device) / 2**30 if device.type == "cuda" else None
    return {
        "step_s": round(step_s, 3),
        "steps_per_s": round(1 / step_s, 4),
        "tiles_per_s": round(scale.batch / step_s, 2),
        "peak_gib": None if memory is None else round(memory, 1),
        "tiles_embedded_twice": rows.get((True, False), 0),
        "hardware_utilisation": round(executed / step_s / peak, 4),
        "model_utilisation": round(needed / step_s / peak, 4),
    }


def all_cases(scale: Scale, device: torch.device, peak: float, time_left: Callable[[], float]) -> dict[str, Any]:
    """Every case by name; chunk 4 comes first."""
    torch.manual_seed(0)
    model = make_model(scale, device)
    embedding = Embedding(model, device)
    inputs = make_inputs(scale, model.get_base_model().config.image_token_id, device)
    assert inputs.queries is not None and inputs.tiles is not None
    sides = {False: inputs.queries.rows(0, scale.chunks[0]), True: inputs.tiles.rows(0, scale.chunks[0])}
    flops: dict[Any, float] = {}
    found: dict[str, Any] = {"trainable_parameters": sum(weight.numel() for weight in trainable(model).values())}
    longest = 0.0
    for chunk in scale.chunks:
        for checkpointing in (False, True):
            set_checkpointing(model, checkpointing)
            for images, batch in sides.items():
                of_row = flops_a_row(embedding, batch, scale, checkpointing)
                flops |= {(images, gradient): value for gradient, value in of_row.items()}
                if not checkpointing:
                    flops["model", images] = of_row[True]
            for keep in (False, True):
                name = f"chunk_{chunk}" + "_checkpointing" * checkpointing + "_kept" * keep
                if time_left() < longest:
                    found[name] = "not run: no time left"
                    continue
                started = time.perf_counter()
                found[name] = attempt(embedding, inputs, scale, (chunk, keep), flops, peak)
                longest = max(longest, time.perf_counter() - started)
                print(f"{name}: {found[name]}", file=sys.stderr)
    return found | {"tflop_a_tile": {"forward": round(flops[True, False] / 1e12, 4)}}


def attempt(
    embedding: Embedding,
    inputs: StepInputs,
    scale: Scale,
    case: tuple[int, bool],
    flops: dict[Any, float],
    peak: float,
) -> dict[str, Any] | str:
    """``run_case``; running out of memory is a result. Kept graphs may take half of the memory that is free."""
    chunk, keep = case
    keep_mib = 0
    if keep:
        on_gpu = embedding.device.type == "cuda"
        keep_mib = torch.cuda.mem_get_info(embedding.device)[0] // 2 >> 20 if on_gpu else 1024
    try:
        figures = run_case(embedding, inputs, scale, Chunking(rows=chunk, keep_mib=keep_mib), flops, peak)
    except torch.OutOfMemoryError:
        figures = None
    embedding.model.zero_grad(set_to_none=True)
    if embedding.device.type == "cuda":
        torch.cuda.empty_cache()
    return "out of memory" if figures is None else figures | {"keep_mib": keep_mib}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--budget-s", type=float, default=330)
    options = parser.parse_args()
    set_verbosity_error()
    started, device, scale = time.perf_counter(), torch.device(options.device), TINY if options.tiny else FULL
    peak = matmul_peak(device, options.tiny)
    cases = all_cases(scale, device, peak, lambda: options.budget_s - (time.perf_counter() - started))
    measured = {name: case for name, case in cases.items() if isinstance(case, dict) and "step_s" in case}
    best = max((case["hardware_utilisation"] for case in measured.values()), default=None)
    result = {
        "benchmark": "gpu_train",
        "device": torch.cuda.get_device_name(device) if device.type == "cuda" else "cpu",
        "torch": torch.__version__,
        "tiny": options.tiny and "a check that it runs: these figures mean nothing",
        "matmul_peak_tflops": round(peak / 1e12, 2),
        "batch": scale.batch,
        "hardware_utilisation": {"wanted": ">= 0.45", "found": best},
        "cases": cases,
        "seconds": round(time.perf_counter() - started, 1),
    }
    print(json.dumps(result))


if __name__ == "__main__":
    main()
