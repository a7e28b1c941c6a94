"""Shared by all tests: no hub, one thread, and the smoke line run once for the session."""

import fcntl
import os
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import settings

os.environ.setdefault("HF_HUB_OFFLINE", "1")
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")
os.environ.setdefault("OMP_NUM_THREADS", "1")
settings.register_profile("tilewright", deadline=None)  # a busy machine is no failure
settings.load_profile("tilewright")


@pytest.fixture(scope="session")
def smoke_runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of runs after `tilewright run configs/smoke.yaml`, started elsewhere; one for all workers."""
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    base = tmp_path_factory.getbasetemp().parent if parallel else tmp_path_factory.getbasetemp()
    runs = base / "smoke_runs"
    with (base / "smoke_runs.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (runs / "stdout.txt").is_file():
            _run_smoke_line(runs)
    return runs


def _run_smoke_line(runs: Path) -> None:
    runs.mkdir(exist_ok=True)
    command = [sys.executable, "-m", "tilewright.cli", "run", "configs/smoke.yaml"]
    result = subprocess.run(
        command, cwd=runs, env=os.environ | {"TILEWRIGHT_RUNS": str(runs)}, capture_output=True, text=True, timeout=600
    )
    assert result.returncode == 0, result.stderr[-4000:]
    (runs / "stdout.txt").write_text(result.stdout, encoding="utf-8")
