"""The quickstart's promises, on the whole recipe (a quarter of an hour on 2 cores)."""

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parent.parent
COMMAND = [sys.executable, "-m", "tilewright.cli", "run", str(ROOT / "configs/quickstart.yaml")]


def counts(runs: Path, stage: str) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((runs / "quickstart" / stage / "manifest.json").read_text())
    return manifest["counts"]  # type: ignore[no-any-return]


@pytest.mark.slow
@pytest.mark.browser
def test_quickstart_keeps_its_promises(tmp_path: Path) -> None:
    environment = os.environ | {"TILEWRIGHT_RUNS": str(tmp_path)}
    interrupted = subprocess.Popen(COMMAND, env=environment, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "quickstart/tiles.partial/.journal.jsonl").exists():
        time.sleep(0.1)
    interrupted.send_signal(signal.SIGINT)
    _, said = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130 and "the same command goes on where it was" in said
    subprocess.run(COMMAND, env=environment, check=True, timeout=3600)

    assert counts(tmp_path, "tiles")["tiles"] <= 300 and counts(tmp_path, "tiles")["failed"] == 0
    pairs = counts(tmp_path, "filtered")
    assert pairs["kept"] >= 1500 and pairs["pages_with_pairs"] >= 90
    assert pairs["without_title"] >= pairs["kept"] / 3
    metrics = json.loads((tmp_path / "quickstart/evaluation/metrics.json").read_text())
    assert metrics["learning_check"]["recall@1"] >= 0.9
    assert metrics["rows"]["trained"]["n_questions"] == counts(tmp_path, "splits")["test"]
    assert (tmp_path / "quickstart/evaluation/report.html").stat().st_size > 100_000

    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    subprocess.run(COMMAND, env=environment, check=True, timeout=300)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
