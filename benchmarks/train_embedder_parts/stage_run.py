"""Runs the stage train_embedder and prints what its log says of the steps. A script, for any interpreter.

    python stage_run.py SETTINGS [--load-only]

SETTINGS: JSON of ``settings`` with inputs and ``out``. --load-only: import everything and load the model, no more.
"""

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

from tilewright.configs.stage import log_path, run_stage
from tilewright.train import train_embedder
from tilewright.train.embedder_config import Config
from tilewright.train.encoder import load_encoder
from tilewright.train.grad_cache import Chunking
from tilewright.train.objective import LossConfig

INPUTS = ("model", "examples", "tiles", "validation", "splits")


def settings(**changed: Any) -> dict[str, Any]:
    """A run without searches: all weights, float32, one thread of torch; its other keys are ``changed``."""
    return {
        "seed": 1,
        "trainable": "full",
        "loss": {"temperature": 0.05, "learn_temperature": False},
        "hard_negatives": 0,
        "random_tiles": 0,
        "learning_rate": 2e-5,
        "warmup_steps": 0,
        "weight_decay": 0.0,
        "max_grad_norm": 1.0,
        "validate_every": 1_000_000,
        "save_every": 1_000_000,
        "keep": "last",
        "validation_metric": "mrr",
        "validation_queries": 1,
        "train_recall_every": None,
        "threads": 1,
        "cache_mib": 0,
        "workers": 2,
        "chunking": {},
    } | changed


def config_of(values: dict[str, Any]) -> Config:
    """``settings`` with their inputs and ``out``, as a Config."""
    paths = {name: Path(values[name]) for name in (*INPUTS, "out")}
    parts = {"loss": LossConfig(**values["loss"]), "chunking": Chunking(**values["chunking"])}
    return Config(**(values | paths | parts))


def steps_of(log: Path, batch_size: int) -> dict[str, list[float]]:
    """Seconds of each step and the share of them spent waiting for data."""
    entries = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    laps = [entry for entry in entries if "samples_per_s" in entry]
    return {
        "step_s": [round(batch_size / entry["samples_per_s"], 4) for entry in laps],
        "data_wait_share": [entry["data_wait_share"] for entry in laps],
    }


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("settings", type=json.loads)
    parser.add_argument("--load-only", action="store_true")
    options = parser.parse_args()
    if options.load_only:
        encoder, loaded = load_encoder(Path(options.settings["model"])), time.time()
        print(json.dumps({"loaded_at": loaded, "dimension": encoder.dimension}))
        return
    config = config_of(options.settings)
    run_stage(train_embedder.STAGE, config)
    print(json.dumps(steps_of(log_path(config.out), config.batch_size)), file=sys.stdout)


if __name__ == "__main__":
    main()
