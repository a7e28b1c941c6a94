"""A reader on two ranks, plain and by ZeRO-2: as one rank with the same batch, also when stopped; what is refused."""

import json
import os
import signal
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from tests.train.stage_process import wait_for, write_yaml

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import ReaderExample, write_jsonl
from tilewright.train.adapters import LoraGroup
from tilewright.train.reader_config import Config
from tilewright.train.reader_launch import check_launch
from tilewright.train.reader_trainer import COMPLETE
from tilewright.train.train_reader import STAGE

ANSWERS = ("Nairobi", "Oslo", "1815", "42 km")
DEEPSPEED = {"ACCELERATE_USE_DEEPSPEED": "true"}
WAYS = {"ddp": {}, "zero2": DEEPSPEED | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "2", "DS_ACCELERATOR": "cpu"}}


def config(reader_parts: Any, folder: Path, name: str, batch_size: int) -> Config:
    ids = reader_parts.tile_ids
    rows = [ReaderExample(f"q{i}", f"Question {i}?", ANSWERS[i % 4], (ids[i % 8],), 0, 1.0) for i in range(16)]
    (folder / "data").mkdir(exist_ok=True)
    write_jsonl(folder / "data/train.jsonl", rows)
    write_jsonl(folder / "data/validation.jsonl", rows[:6])
    return Config(
        out=folder / name,
        model=reader_parts.model,
        examples=folder / "data",
        tiles=reader_parts.tiles,
        steps=10,
        batch_size=batch_size,
        learning_rate=2.0e-3,
        warmup_steps=0,
        adapters={"llm_attn": LoraGroup(4, 8.0), "vit_mlp": LoraGroup(2, 4.0)},
        max_pixels=None,
        evaluate_every=2,
        validation_questions=4,
        save_every=2,
        threads=1,
        seed=5,
        keep="best",
        max_new_tokens=6,
    )


def two_ranks(config: Config, environment: dict[str, str]) -> list[subprocess.Popen[str]]:
    """The stage as two processes over gloo."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    command = [sys.executable, "-m", "tilewright.train.train_reader", str(write_yaml(config))]
    return [
        subprocess.Popen(command, env=os.environ | group | environment | {"RANK": rank, "LOCAL_RANK": rank}, text=True)
        for rank in ("0", "1")
    ]


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_equal_one_also_when_stopped_halfway(way: str, reader_parts: Any, tmp_path: Path) -> None:
    """Two processes of batch 2 against one of batch 4: same losses and figures. One of the two is told to stop: both
    stop after the same step, and started again they end in the same bytes."""
    one = run_stage(STAGE, config(reader_parts, tmp_path, "one", 4))["counts"]
    whole, stopped = config(reader_parts, tmp_path, "whole", 2), config(reader_parts, tmp_path, "stopped", 2)
    assert [process.wait(timeout=600) for process in two_ranks(whole, WAYS[way])] == [0, 0]
    manifest = json.loads((whole.out / "manifest.json").read_text())
    assert manifest["counts"]["last_loss"] == pytest.approx(one["last_loss"], rel=1e-4)
    for when in ("before", "after", "best"):
        assert manifest["counts"]["validation"][when] == pytest.approx(one["validation"][when], rel=1e-4)
    processes = two_ranks(stopped, WAYS[way])
    wait_for(stopped.out.with_name("stopped.partial") / ".trainer/checkpoint-2" / COMPLETE, processes[0])
    processes[1].send_signal(signal.SIGTERM)
    assert all(process.wait(timeout=600) != 0 for process in processes)
    assert not stopped.out.exists()
    assert [process.wait(timeout=600) for process in two_ranks(stopped, WAYS[way])] == [0, 0]
    assert json.loads((stopped.out / "manifest.json").read_text())["outputs"] == manifest["outputs"]


def test_launchers_that_take_weights_apart_are_refused() -> None:
    assert check_launch({}) == "replicated"
    assert check_launch(WAYS["zero2"]) == "zero2"
    for environment in (
        DEEPSPEED | {"ACCELERATE_DEEPSPEED_ZERO_STAGE": "3"},
        {"ACCELERATE_USE_FSDP": "true", "FSDP_VERSION": "2"},
    ):
        with pytest.raises(InputError, match="takes weights apart"):
            check_launch(environment)
    with pytest.raises(InputError, match="mixed_precision: wanted no"):
        check_launch({"ACCELERATE_MIXED_PRECISION": "bf16"})
