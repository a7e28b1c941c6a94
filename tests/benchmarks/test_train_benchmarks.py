"""The benchmarks of embedder training run, at sizes that say nothing of speed, and report what they promise."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

BENCHMARKS = Path(__file__).parents[2] / "benchmarks"


def run(*arguments: str) -> dict[str, Any]:
    command = [sys.executable, str(BENCHMARKS / arguments[0]), *arguments[1:]]
    result = subprocess.run(
        command, capture_output=True, text=True, timeout=300, env=os.environ | {"OMP_NUM_THREADS": "1"}
    )
    assert result.returncode == 0, result.stderr[-3000:]
    found: dict[str, Any] = json.loads(result.stdout.strip().splitlines()[-1])
    return found


@pytest.mark.slow
def test_steps_and_memory() -> None:
    found = run("train_embedder.py", "--quick", "--only", "steps", "memory")
    cases = {"full": 4 / 3, "lora": 3 / 2, "full_checkpointed": 5 / 4, "lora_checkpointed": 4 / 3}
    for case, theory in cases.items():
        assert found["steps"][f"grad_cache/{case}"]["theory"] == pytest.approx(theory, abs=1e-3)
    seconds = found["steps"]["step_cpu_s"]
    assert len(seconds) == 13 and min(seconds.values()) > 0
    small, large = found["memory"]["at_batch"].values()
    assert large["inputs_mib"] > small["inputs_mib"] and small["step_mib"] > 0


@pytest.mark.slow
def test_gpu_benchmark_on_the_cpu() -> None:
    found = run("gpu_train.py", "--device", "cpu", "--tiny")
    assert "mean nothing" in found["tiny"] and found["cases"]["trainable_parameters"] > 0
    cases = {name: case for name, case in found["cases"].items() if name.startswith("chunk")}
    assert set(cases) == {"chunk_4" + end for end in ("", "_kept", "_checkpointing", "_checkpointing_kept")}
    for name, case in cases.items():
        assert case["tiles_embedded_twice"] == (0 if name.endswith("kept") else found["batch"])
        again = case["hardware_utilisation"] > case["model_utilisation"]
        assert again == (name != "chunk_4_kept"), name
