"""A run of train_embedder on many examples, stopped and resumed: seconds to the first step beyond loading the model."""

import json
import random
import signal
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from tilewright.configs.stage import log_path, partial_of
from tilewright.data_gen.tile_store import TileStore, write_store
from train_embedder_parts.running import environment, last_json
from train_embedder_parts.stage_run import settings
from train_embedder_parts.workload import Workload, make_tiles, sentence, write_splits

TILES, NEGATIVES, LIMIT_S = 20_000, 3, 240
PROGRAM = Path(__file__).parent / "stage_run.py"


def make_many(root: Path, count: int, tiles: int) -> dict[str, str]:
    """``count`` examples over ``tiles`` tiles of ten pictures; the inputs of train_embedder without the model."""
    root.mkdir(parents=True)
    write_store(root / "tiles", make_tiles(tiles, 64, distinct=10))
    ids = list(TileStore.open(root / "tiles").tile_ids)
    draw = random.Random(0)
    queries = [sentence(draw, 8) for _ in range(1000)]
    with (root / "examples.jsonl").open("w", encoding="utf-8") as file:
        for number in range(count):
            positive, *negatives = draw.sample(range(tiles), 1 + NEGATIVES)
            record = {
                "query_id": f"q{number:07d}",
                "query": queries[number % 1000],
                "positive_tile_id": ids[positive],
                "negative_tile_ids": [ids[negative] for negative in negatives],
                "known_positive_tile_ids": [],
            }
            file.write(json.dumps(record) + "\n")
    write_splits(root / "splits", [tile_id.partition("-")[0] for tile_id in ids])
    paths = {"examples": "examples.jsonl", "tiles": "tiles", "splits": "splits"}
    found = {name: str(root / path) for name, path in paths.items()}
    return found | {"validation": str(root / "splits" / "validation.jsonl")}


def first_step_s(values: dict[str, Any]) -> float:
    """Start the run, or go on with it; stop it after a step. Seconds from its start to that step's inputs being there.

    Raises RuntimeError if there's no step within LIMIT_S or the run ends by itself.
    """
    log = log_path(partial_of(Path(values["out"])))
    before = log.stat().st_size if log.is_file() else 0
    started = time.time()
    command = [sys.executable, str(PROGRAM), json.dumps(values)]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        try:
            while (entry := _first_lap(log, before)) is None:
                if process.poll() is not None or time.time() - started > LIMIT_S:
                    process.kill()
                    raise RuntimeError(f"no step: {process.communicate()[1].decode()[-2000:]}")
                time.sleep(0.005)
            seconds = time.time() - started
            process.send_signal(signal.SIGTERM)
            process.communicate(timeout=LIMIT_S)
        finally:
            process.kill()
    step_s = values["batch_size"] / entry["samples_per_s"]
    return seconds - step_s * (1 - entry["data_wait_share"])


def _first_lap(log: Path, before: int) -> dict[str, Any] | None:
    if not log.is_file():
        return None
    with log.open("rb") as file:
        file.seek(before)
        lines = file.read().decode().splitlines(keepends=True)
    entries = [json.loads(line) for line in lines if line.endswith("\n")]
    return next((entry for entry in entries if "samples_per_s" in entry), None)


def load_s(values: dict[str, Any]) -> float:
    """Seconds from the start of a process to the model being loaded, imports and all."""
    command, started = [sys.executable, str(PROGRAM), json.dumps(values), "--load-only"], time.time()
    result = subprocess.run(command, env=environment(), capture_output=True, text=True, check=False)
    return float(last_json(result)["loaded_at"]) - started


def resume_figures(workload: Workload, root: Path, count: int, resumes: int) -> dict[str, Any]:
    """A first start and ``resumes`` resumed ones, each beside loading the model alone; a small model, 2 workers."""
    inputs = make_many(root, count, min(TILES, count)) | {"model": str(workload.model)}
    values = settings(out=str(root / "out"), steps=count // 64, batch_size=64, hard_negatives=1, save_every=1, **inputs)
    values["chunking"] = {"rows": 16}
    load_s(values)  # files into the page cache
    starts, loads = [], []
    for _ in range(1 + resumes):
        loads.append(load_s(values))
        starts.append(first_step_s(values))
    beyond = [start - load for start, load in zip(starts, loads, strict=True)]
    return {
        "examples": count,
        "wanted": "< 3",
        "found": round(statistics.median(beyond[1:]), 2),
        "first_start_beyond_load_s": round(beyond[0], 2),
        "resumed_s": [round(start, 2) for start in starts[1:]],
        "load_s": [round(load, 2) for load in loads[1:]],
    }
