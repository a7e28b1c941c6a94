"""Embedder training: our steps against a bare loop, GradCache against theory, peers, memory, waiting, resuming.

    python benchmarks/train_embedder.py [--peers PYTHON] [--rounds N] [--quick] [--only PART ...]

About 11 minutes on 2 cores with --peers, 6 without; --quick: a minute or two, tiny sizes, figures mean nothing. Prints
one JSON line: for each figure what is wanted and what was found. A tiny Qwen3-VL with random weights, synthetic tiles,
batch 64, float32, one thread of torch (so that what runs beside it on a core of its own isn't slowed by it).

- ``steps``: CPU seconds of single steps, variants in turns, medians of ratios within a turn. ``plain_over_bare``:
  a step of ours over a bare torch loop's. ``grad_cache/CASE``: over the plain step; ``theory`` beside it;
  ``over_same_chunks_kept``: over the same chunks with their graphs kept.
- ``memory``: peak resident memory without inputs, batch 512 over 64; ``strict`` also without interpreter and libraries,
  ``step_growth`` only what the step added.
- ``peers``: samples/s of the stage train_embedder over theirs, all run by PYTHON, in which both peers are installed:
  `python -m venv V; V/bin/pip install torch torchvision sentence-transformers colpali-engine datasets accelerate
  pyarrow rich PyYAML openai` (beside a torch that colpali-engine's metadata refuse: that one by ``--no-deps``).
  ``linear_patch``: with our linear patch embedding in the peer.
  ``found_kept``: ours with GradCache's graphs kept within a memory budget (`chunking.keep_mib`), which neither has.
- ``data_wait``: share of the step's time with 2 workers. ``resume``: seconds to the first step beyond loading the
  model, at a million examples.

--rounds: how often variants of ``steps`` (else 3 times) and ``peers`` (2) are run, in turns; found are medians of the
ratios within a round, with the least and greatest, or all of them, beside.
"""

import argparse
import json
import os
import platform
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from train_embedder_parts.memory import measure, memory_figures
from train_embedder_parts.peers import peer_figures, run_ours
from train_embedder_parts.resume import resume_figures
from train_embedder_parts.steps import step_figures
from train_embedder_parts.workload import SMALL, Size, Workload, make_workload


def data_wait(workload: Workload) -> dict[str, Any]:
    """The mean share of the steps after the first, which waits for its own data."""
    shares = run_ours(sys.executable, workload, "sentence-transformers")["data_wait_share"][1:]
    return {"wanted": "< 0.05", "found": round(sum(shares) / len(shares), 4), "of_steps": shares, "workers": 2}


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--peers", help="a python with sentence-transformers and colpali-engine")
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--rounds", type=int)
    parser.add_argument("--only", nargs="+", default=["steps", "memory", "data_wait", "peers", "resume"])
    parser.add_argument("--memory", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--workload", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(1)
    os.environ.setdefault("DS_ACCELERATOR", "cpu")  # where DeepSpeed is installed it else prints what it found
    size, count = (SMALL, 64) if options.quick else (Size(), 256)
    if options.memory is not None:
        print(json.dumps(measure(Workload(options.workload, size), options.memory)))
        return
    result: dict[str, Any] = {
        "benchmark": "train_embedder",
        "quick": options.quick,
        "cores": os.cpu_count(),
        "machine": platform.machine(),
        "torch": torch.__version__,
        "torch_threads": torch.get_num_threads(),
        "batch": size.batch,
        "chunk": size.chunk,
        "load_before": os.getloadavg()[0],
    }
    with tempfile.TemporaryDirectory() as folder:
        workload = make_workload(Path(folder) / "workload", size, count)
        few = make_workload(Path(folder) / "few", SMALL, 64)
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "steps": lambda: step_figures(workload, 1 if options.quick else options.rounds or 3),
            "memory": lambda: memory_figures(workload, Path(__file__), quick=options.quick),
            "data_wait": lambda: data_wait(workload),
            "peers": lambda: peer_figures(options.peers, workload, 1 if options.quick else options.rounds or 2),
            "resume": lambda: resume_figures(few, Path(folder) / "many", 10_000 if options.quick else 1_000_000, 2),
        }
        for name, part in parts.items():
            if name in options.only and (name != "peers" or options.peers):
                started = time.perf_counter()
                result[name] = part()
                print(f"{name}: {time.perf_counter() - started:.0f} s", file=sys.stderr)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
