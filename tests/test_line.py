"""The whole line, smoked: page to metrics in one run, then nothing to do, then every stage's status."""

import json
import os
import subprocess
import sys
from pathlib import Path

from tilewright.cli import STAGES
from tilewright.configs.recipe import load_recipe
from tilewright.configs.status import status_of

ROOT = Path(__file__).parent.parent


def test_every_stage_is_complete_and_counted(smoke_runs: Path) -> None:
    statuses = status_of(smoke_runs)
    assert {status.state for status in statuses} == {"complete"}
    assert {status.stage for status in statuses} == {
        step.stage for step in load_recipe(ROOT / "configs/smoke.yaml", list(STAGES))
    }
    for status in statuses:
        manifest = json.loads((status.folder / "manifest.json").read_text())
        assert manifest["outputs"], status.stage


def test_results_table_and_report_path_are_printed(smoke_runs: Path) -> None:
    printed = (smoke_runs / "stdout.txt").read_text(encoding="utf-8")
    assert "Recall@1" in printed and "report.html" in printed and "stand-in" in printed


def test_second_run_does_nothing(smoke_runs: Path) -> None:
    before = {path: path.stat().st_mtime_ns for path in smoke_runs.rglob("*") if path.is_file()}
    command = [sys.executable, "-m", "tilewright.cli", "run", str(ROOT / "configs/smoke.yaml")]
    environment = os.environ | {"TILEWRIGHT_RUNS": str(smoke_runs)}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
    assert {path: path.stat().st_mtime_ns for path in smoke_runs.rglob("*") if path.is_file()} == before
