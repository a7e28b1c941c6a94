"""The whole stage with weights in parts, on two ranks: it trains as DDP does, and goes on to the byte when stopped."""

import dataclasses
import json
import os
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
import yaml

from tilewright.configs.digests import output_digests
from tilewright.configs.stage import partial_of
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.adapters import LoraGroup
from tilewright.train.encoder import load_encoder
from tilewright.train.grad_cache import Chunking

FSDP = {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"}
FSDP |= {"FSDP_TRANSFORMER_CLS_TO_WRAP": "Qwen3VLTextDecoderLayer,Qwen3VLVisionBlock"}
ZERO = {"ACCELERATE_USE_DEEPSPEED": "true", "DS_ACCELERATOR": "cpu"}
LAUNCHED = {
    "zero2": ZERO | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "2"},
    "zero3": ZERO | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"},
    "fsdp2": FSDP,
}
CHANGES: dict[str, Any] = {
    "chunking": Chunking(rows=1),
    "steps": 6,
    "warmup_steps": 1,
    "trainable": "adapters",
    "adapters": {"llm_attn": LoraGroup(4, 8), "vit_mlp": LoraGroup(2, 2)},
}


def as_yaml(config: Any) -> str:
    values = dataclasses.asdict(config) | {"kind": "stage"}
    return yaml.safe_dump(json.loads(json.dumps(values, default=str)))


def start(run: Path, environment: dict[str, str]) -> list[subprocess.Popen[bytes]]:
    """The run of a YAML by two processes over gloo, with a launcher's environment."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tilewright.train.train_embedder", str(run)]
    return [
        subprocess.Popen(command, env=os.environ | group | environment | {"RANK": rank, "LOCAL_RANK": rank})
        for rank in ("0", "1")
    ]


def finish(run: Path, environment: dict[str, str]) -> None:
    assert [process.wait(timeout=600) for process in start(run, environment)] == [0, 0]


def stop_halfway(run: Path, curve: Path, environment: dict[str, str]) -> None:
    """Ask one rank to stop once three lines of the curve stand."""
    processes = start(run, environment)
    deadline = time.monotonic() + 600
    while not curve.is_file() or curve.read_bytes().count(b"\n") < 3:
        assert all(process.poll() is None for process in processes) and time.monotonic() < deadline
        time.sleep(0.01)
    processes[1].send_signal(signal.SIGTERM)
    assert all(process.wait(timeout=600) != 0 for process in processes)


def losses(out: Path) -> list[float]:
    entries = [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]
    return [entry["loss"] for entry in entries if "loss" in entry]


@pytest.mark.slow
@pytest.mark.parametrize("way", LAUNCHED)
def test_stage_trains_as_with_whole_weights_and_goes_on_to_the_byte(way: str, inputs: Any, tmp_path: Path) -> None:
    if way.startswith("zero"):
        pytest.importorskip("deepspeed")
    configs = {name: inputs.config(tmp_path / name, **CHANGES) for name in ("ddp", "whole", "parts")}
    for name, config in configs.items():
        (tmp_path / f"{name}.yaml").write_text(as_yaml(config))
    finish(tmp_path / "ddp.yaml", {})
    finish(tmp_path / "whole.yaml", LAUNCHED[way])
    assert losses(configs["whole"].out) == pytest.approx(losses(configs["ddp"].out), rel=1e-4)
    assert len(losses(configs["whole"].out)) == CHANGES["steps"]
    load_encoder(configs["whole"].out / "checkpoint")  # its probes are compared
    stop_halfway(tmp_path / "parts.yaml", partial_of(configs["parts"].out) / "curve.jsonl", LAUNCHED[way])
    assert not configs["parts"].out.exists()
    finish(tmp_path / "parts.yaml", LAUNCHED[way])
    assert output_digests(configs["whole"].out) == output_digests(configs["parts"].out)


@pytest.mark.slow
def test_zero2_keeps_the_moving_average_that_was_searched(inputs: Any, tmp_path: Path) -> None:
    """What is trained lies in DeepSpeed's own copies: the average, which no update has written there, is kept."""
    pytest.importorskip("deepspeed")
    changes = CHANGES | {"ema_decay": 0.9, "learning_rate": 0.02, "validate_every": 1, "save_every": 1}
    configs = {name: inputs.config(tmp_path / name, **changes) for name in ("ddp", "zero2")}
    for name, config in configs.items():
        (tmp_path / f"{name}.yaml").write_text(as_yaml(config))
        finish(tmp_path / f"{name}.yaml", {} if name == "ddp" else LAUNCHED["zero2"])
    kept = [json.loads((config.out / "manifest.json").read_text())["counts"] for config in configs.values()]
    assert kept[0]["kept_step"] == kept[1]["kept_step"] < changes["steps"]  # else they aren't read back
    image = TileStore.open(inputs.tiles).image(inputs.tile_ids[0])
    ddp, zero = (load_encoder(config.out / "checkpoint").encode_tiles([image]) for config in configs.values())
    torch.testing.assert_close(zero, ddp, atol=1e-4, rtol=1e-4)
