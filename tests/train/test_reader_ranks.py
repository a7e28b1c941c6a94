"""A reader on two ranks, plain and by ZeRO-2: as one rank with the same batch, also through a kill; what is refused."""

import json
import os
import signal
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
        steps=6,
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


def two_ranks(config: Config, environment: dict[str, str]) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--standalone"]
    command += ["-m", "tilewright.train.train_reader", str(write_yaml(config))]
    return subprocess.Popen(
        command, env=os.environ | environment, stderr=subprocess.PIPE, text=True, start_new_session=True
    )


@pytest.mark.slow
@pytest.mark.parametrize("way", WAYS)
def test_two_ranks_equal_one_also_through_a_kill(way: str, reader_parts: Any, tmp_path: Path) -> None:
    """Two processes of batch 2 against one of batch 4: same losses and figures; killed and started again, same bytes."""
    one = run_stage(STAGE, config(reader_parts, tmp_path, "one", 4))["counts"]
    whole, killed = config(reader_parts, tmp_path, "whole", 2), config(reader_parts, tmp_path, "killed", 2)
    process = two_ranks(whole, WAYS[way])
    assert process.wait(timeout=600) == 0, process.communicate()[1][-3000:]
    manifest = json.loads((whole.out / "manifest.json").read_text())
    assert manifest["counts"]["last_loss"] == pytest.approx(one["last_loss"], rel=1e-4)
    for when in ("before", "after", "best"):
        assert manifest["counts"]["validation"][when] == pytest.approx(one["validation"][when], rel=1e-4)
    process = two_ranks(killed, WAYS[way])
    wait_for(killed.out.with_name("killed.partial") / ".trainer/checkpoint-2" / COMPLETE, process)
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()
    assert not killed.out.exists()
    process = two_ranks(killed, WAYS[way])
    assert process.wait(timeout=600) == 0, process.communicate()[1][-3000:]
    assert json.loads((killed.out / "manifest.json").read_text())["outputs"] == manifest["outputs"]


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
