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
import yaml

from tilewright.configs.digests import output_digests
from tilewright.configs.stage import partial_of
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
