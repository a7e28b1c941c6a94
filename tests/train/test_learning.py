"""InfoNCE teaches a model with random weights to read: held-out titles are found far above chance, in CPU minutes."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
CPU_LIMIT_S = 360


@pytest.mark.slow
def test_a_model_from_random_weights_finds_tiles_whose_words_it_has_never_seen(tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks/learning.py"), "--base-only", "--runs", str(tmp_path)]
    result = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=3600, check=False)
    assert result.returncode == 0, result.stderr[-4000:]
    base = json.loads(result.stdout)["base"]
    recall = base["recall_at_3"]
    assert base["tiles"] == recall["n_pages"] >= 300 and recall["n_questions"] >= 500
    assert base["chance"] == pytest.approx(3 / base["tiles"])
    assert 3.5e6 < base["parameters"] < 4.5e6
    assert recall["low"] >= 5 * base["chance"], base
    assert sum(base["cpu_s"].values()) <= CPU_LIMIT_S, base["cpu_s"]
