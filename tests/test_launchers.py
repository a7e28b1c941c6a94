"""One stage, every way to start it: console script, python -m, accelerate launch, torchrun with two processes."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

BIN = Path(sys.executable).parent
MODULE = "tilewright.train.train_embedder"
LAUNCHERS = {
    "console": [str(BIN / "tilewright"), "train_embedder"],
    "python -m": [sys.executable, "-m", MODULE],
    "accelerate": [str(BIN / "accelerate"), "launch", "--cpu", "--num_processes=1", "-m", MODULE],
    "torchrun": [str(BIN / "torchrun"), "--standalone", "--nproc_per_node=2", "-m", MODULE],
}


def outputs(folder: Path) -> dict[str, str]:
    digests: dict[str, str] = json.loads((folder / "manifest.json").read_text())["outputs"]
    return digests


@pytest.mark.parametrize(
    "name", ["console", pytest.param("python -m", marks=pytest.mark.slow), "accelerate", "torchrun"]
)
def test_stage_runs_under_every_launcher(name: str, smoke_runs: Path, tmp_path: Path) -> None:
    command = [*LAUNCHERS[name], "configs/train/train_embedder/smoke.yaml", f"out={tmp_path / 'embedder'}"]
    environment = os.environ | {"TILEWRIGHT_RUNS": str(smoke_runs)}
    result = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert result.returncode == 0, result.stderr[-3000:]
    assert (tmp_path / "embedder/checkpoint").is_dir()
    if name != "torchrun":  # two ranks sum in another order: equal to rounding, not to the bit
        assert outputs(tmp_path / "embedder") == outputs(smoke_runs / "smoke/embedder")
