"""Peak memory of a GradCache step by batch size, each in a process of its own whose allocator gives back at once."""

import ctypes
import subprocess
import sys
from pathlib import Path
from typing import Any

from train_embedder_parts.running import environment, last_json
from train_embedder_parts.workload import Workload

MIB = 1 << 20
ALLOCATOR = {"MALLOC_ARENA_MAX": "1", "MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "0"}


def status_bytes(name: str) -> int:
    """One of this process's figures in /proc/self/status."""
    lines = Path("/proc/self/status").read_text().splitlines()
    return int(next(line.split()[1] for line in lines if line.startswith(f"{name}:"))) * 1024


def measure(workload: Workload, batch: int) -> dict[str, float]:
    """Peak MiB of a step of ``batch``, over the process before it loaded the model, inputs apart."""
    from tilewright.train.encoder import load_encoder
    from tilewright.train.grad_cache import Chunking
    from train_embedder_parts.steps import OurStep
    from train_embedder_parts.workload import batches, nbytes

    chunk, before = workload.size.chunk, status_bytes("VmRSS")
    encoder = load_encoder(workload.model)
    encoder.model.train()
    sides = batches(workload, encoder, batch)
    step = OurStep(encoder, *sides, Chunking(rows=chunk))
    whole, step.inputs = step.inputs, OurStep(encoder, *(side.rows(0, 2 * chunk) for side in sides), Chunking()).inputs
    step()  # the optimiser's state is made by the first update
    step.inputs = whole
    ctypes.CDLL(None).malloc_trim(0)  # what decoding the tiles left behind isn't the step's
    ready = status_bytes("VmRSS")
    Path("/proc/self/clear_refs").write_text("5")  # VmHWM starts again
    step()
    inputs = sum(map(nbytes, sides))
    peak = status_bytes("VmHWM")
    return {
        "inputs_mib": round(inputs / MIB, 1),
        "before_model_mib": round(before / MIB, 1),
        "peak_mib": round(peak / MIB, 1),
        "without_inputs_mib": round((peak - inputs) / MIB, 1),
        "without_inputs_and_interpreter_mib": round((peak - inputs - before) / MIB, 1),
        "step_mib": round((peak - ready) / MIB, 1),
    }


def memory_figures(workload: Workload, program: Path, *, quick: bool) -> dict[str, Any]:
    """Both batch sizes, and the ratio of what isn't inputs; `strict` leaves the interpreter and its libraries out."""
    found = {}
    for batch in (workload.size.batch, workload.size.large_batch):
        command = [sys.executable, str(program), "--memory", str(batch), "--workload", str(workload.root)]
        command += ["--quick"] if quick else []
        result = subprocess.run(command, env=environment() | ALLOCATOR, capture_output=True, text=True, check=False)
        found[batch] = last_json(result)
    small, large = (found[batch] for batch in (workload.size.batch, workload.size.large_batch))

    def over(name: str) -> float:
        return round(large[name] / small[name], 3)

    return {
        "at_batch": found,
        "wanted": "0.9 to 1.1",
        "found": over("without_inputs_mib"),
        "strict": over("without_inputs_and_interpreter_mib"),
        "step_growth": over("step_mib"),
    }
