"""Programs of a benchmark in processes of their own: one thread, no hub; their last line is JSON."""

import json
import os
import subprocess
from pathlib import Path
from typing import Any

SOURCE = Path(__file__).resolve().parents[2] / "src"


def environment() -> dict[str, str]:
    """One thread for torch and BLAS, nothing from a hub, our package importable by any interpreter."""
    return os.environ | {
        "OMP_NUM_THREADS": "1",
        "TOKENIZERS_PARALLELISM": "false",
        "HF_HUB_OFFLINE": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "PYTHONPATH": str(SOURCE),
    }


def last_json(result: "subprocess.CompletedProcess[str]") -> dict[str, Any]:
    """The object on the last line of a program's output. Raises RuntimeError with its errors if there is none."""
    lines = result.stdout.strip().splitlines()
    if result.returncode or not lines:
        raise RuntimeError(
            f"{' '.join(map(str, result.args))}: exit status {result.returncode}\n{result.stderr[-3000:]}"
        )
    found: dict[str, Any] = json.loads(lines[-1])
    return found
