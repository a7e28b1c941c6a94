"""kill -9 in every stage of the smoked line, at several moments, then resume: the same bytes as uninterrupted."""

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tilewright.cli import STAGES, find_stage
from tilewright.configs.load import load
from tilewright.configs.recipe import Step, load_recipe
from tilewright.configs.stage import partial_of

ROOT = Path(__file__).parent.parent
STEPS = load_recipe(ROOT / "configs/smoke.yaml", list(STAGES))


@pytest.fixture(scope="module")
def runs(smoke_runs: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the smoked line, so that half-finished folders disturb no other test."""
    return shutil.copytree(smoke_runs, tmp_path_factory.mktemp("kill") / "runs")


def killed_after(command: list[str], environment: dict[str, str], partial: Path, seconds: float) -> bool:
    """Start, wait until the stage is at work, then ``seconds`` more; whether it was still running when killed."""
    with subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and not partial.is_dir():
            time.sleep(0.01)
        time.sleep(seconds)
        alive = process.poll() is None
        process.kill()
    return alive


@pytest.mark.slow
@pytest.mark.parametrize("step", STEPS, ids=lambda step: step.stage)
def test_killed_and_resumed_equals_uninterrupted(step: Step, runs: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(runs))
    reference = load(step.config, find_stage(step.stage).config, step.overrides).out
    manifest = json.loads((reference / "manifest.json").read_text())
    out = reference.with_name(f"{reference.name}_killed")  # a sibling: relative paths in records stay the same
    command = [sys.executable, "-m", "tilewright.cli", step.stage, str(step.config), *step.overrides, f"out={out}"]
    environment = os.environ | {"PYTHONHASHSEED": "7"}
    kills = 0
    for share in (0.0, 0.3, 0.6):
        kills += killed_after(command, environment, partial_of(out), share * manifest["provenance"]["seconds"])
    assert kills, "no kill hit the running stage"
    result = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    resumed = json.loads((out / "manifest.json").read_text())
    assert {key: resumed[key] for key in ("identity", "outputs", "counts")} == {
        key: manifest[key] for key in ("identity", "outputs", "counts")
    }
