"""Reader training: it learns, it resumes to the byte, it stops when asked, it refuses what it can't use."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.stage_process import wait_for, write_yaml

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import StageError, run_stage
from tilewright.data_gen.answers import exact_match
from tilewright.data_gen.records import ReaderExample, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.adapters import LoraGroup
from tilewright.train.reader import load_reader
from tilewright.train.reader_batch import ReaderCollator
from tilewright.train.reader_best import load_trained
from tilewright.train.reader_trainer import COMPLETE, WEIGHTS, last_checkpoint
from tilewright.train.train_reader import STAGE, Config

ANSWERS = ("Nairobi", "Oslo", "1815", "42 km", "Ada", "Quito", "Lima", "cannot answer")
SMOKE = Path(__file__).parents[2] / "configs/train/train_reader/smoke.yaml"


@pytest.fixture(scope="module")
def examples(reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """16 training rows over 8 tiles and 8 answers, 4 validation rows."""
    folder = tmp_path_factory.mktemp("reader_data")
    ids = reader_parts.tile_ids
    rows = [
        ReaderExample(
            f"q{i}", f"Question {i % 8}?", ANSWERS[i % 8], (ids[i % 8], ids[(i + 3) % 8])[: 1 + i // 8], 0, 1.0
        )
        for i in range(16)
    ]
    write_jsonl(folder / "train.jsonl", rows)
    write_jsonl(folder / "validation.jsonl", rows[:4])
    return folder


@pytest.fixture
def config(reader_parts: Any, examples: Path, tmp_path: Path) -> Config:
    return Config(
        out=tmp_path / "reader",
        model=reader_parts.model,
        examples=examples,
        tiles=reader_parts.tiles,
        steps=6,
        batch_size=4,
        learning_rate=2.0e-3,
        warmup_steps=1,
        adapters=None,
        max_pixels=None,
        evaluate_every=3,
        validation_questions=4,
        save_every=2,
        threads=1,
        seed=5,
        keep="best",
        max_new_tokens=8,
    )


def _run_in_process(config: Config, **environment: str) -> subprocess.Popen[str]:
    """The stage in a process of its own, by its module and a YAML."""
    command = [sys.executable, "-m", "tilewright.train.train_reader", str(write_yaml(config))]
    return subprocess.Popen(command, env=os.environ | environment, stderr=subprocess.PIPE, text=True)


def test_it_learns_answers_that_only_the_picture_tells(config: Config, reader_parts: Any, tmp_path: Path) -> None:
    """One question, eight tiles, eight answers, two compressions: greedy answers change with the tile, rightly."""
    (tmp_path / "data").mkdir()
    ids = reader_parts.tile_ids
    rows = [
        ReaderExample(f"q{i}", "What does it say?", ANSWERS[i % 8], (ids[i % 8],), 0, 1.0 + i // 8) for i in range(16)
    ]
    for name in ("train", "validation"):
        write_jsonl(tmp_path / f"data/{name}.jsonl", rows)
    config = dataclasses.replace(
        config,
        examples=tmp_path / "data",
        steps=60,
        batch_size=8,
        learning_rate=4.0e-3,
        warmup_steps=5,
        evaluate_every=60,
        save_every=60,
        validation_questions=16,
    )
    counts = run_stage(STAGE, config)["counts"]
    assert counts["last_loss"] < 0.2 * counts["first_loss"]
    assert counts["validation"]["before"]["validation_exact_match"] == 0.0
    assert counts["validation"]["after"]["validation_exact_match"] == 1.0
    reader = load_reader(config.out / "checkpoint")
    collator = ReaderCollator(TileStore.open(config.tiles), reader.prompt, reader.policy)
    shown = [collator.row(row) for row in rows]
    answers = reader.answer_batch([(row.query, row.images) for row in shown], max_new_tokens=8)
    assert all(exact_match(answer.text, row.answer) for answer, row in zip(answers, rows, strict=True))
    assert reader.compressions == (1.0, 2.0)


def test_loss_falls_and_the_outputs_are_whole(config: Config, reader_parts: Any) -> None:
    manifest = run_stage(STAGE, dataclasses.replace(config, steps=20, learning_rate=4.0e-3))
    counts = manifest["counts"]
    assert counts["last_loss"] < 0.75 * counts["first_loss"]
    assert counts["validation"]["before"]["step"] == 0 and counts["validation"]["after"]["step"] == 20
    curve = [json.loads(line) for line in (config.out / "curve.jsonl").read_text().splitlines()]
    assert [row["step"] for row in curve] == list(range(21))
    assert [row["step"] for row in curve if "validation_loss" in row] == [0, 3, 6, 9, 12, 15, 18, 20]
    assert curve[2]["learning_rate"] == pytest.approx(4.0e-3)  # after one warm-up step, before the cosine falls
    text = "".join(path.read_text() for path in config.out.rglob("*.json") if path.name != "manifest.json")
    assert str(config.out) not in text and '_s"' not in (config.out / "curve.jsonl").read_text()
    reader = load_reader(config.out / "checkpoint")
    assert reader.compressions == (1.0,)
    untouched = load_reader(reader_parts.model).model.state_dict()
    moved = [name for name, value in reader.model.state_dict().items() if not torch.equal(value, untouched[name])]
    assert any("visual" in name for name in moved) and any("language_model" in name for name in moved)


def test_kill_and_resume_gives_the_same_bytes(config: Config) -> None:
    whole = run_stage(STAGE, config)
    killed = dataclasses.replace(config, out=config.out.with_name("killed"))
    process = _run_in_process(killed, PYTHONHASHSEED="7")
    wait_for(killed.out.with_name("killed.partial") / ".trainer/checkpoint-2" / COMPLETE, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not killed.out.exists()
    resumed = run_stage(STAGE, killed)
    assert resumed["outputs"] == whole["outputs"] and resumed["counts"] == whole["counts"]
    assert output_digests(killed.out) == output_digests(config.out)


def test_sigterm_saves_and_the_next_run_goes_on(config: Config) -> None:
    config = dataclasses.replace(config, steps=300, save_every=200, evaluate_every=300)
    process = _run_in_process(config)
    partial = config.out.with_name("reader.partial")
    wait_for(partial / "logs/progress.jsonl", process)
    while '"step": 3' not in (partial / "logs/progress.jsonl").read_text():
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    _, errors = process.communicate(timeout=300)
    assert process.returncode == 1 and "stopped by SIGTERM after step" in errors and "Traceback" not in errors
    found = last_checkpoint(partial / ".trainer", prune=False)
    assert found is not None and 3 <= int(found.name.rpartition("-")[2]) < 200


def test_a_kill_after_the_last_update_only_finishes(config: Config, tmp_path: Path) -> None:
    """A state that already has all its steps isn't trained further."""
    whole = run_stage(STAGE, config)
    again = dataclasses.replace(config, out=tmp_path / "again")
    (tmp_path / "stopped").mkdir()
    STAGE.run(again, {name: getattr(again, name) for name in ("model", "examples", "tiles")}, tmp_path / "stopped")
    first = output_digests(tmp_path / "stopped")
    STAGE.run(again, {name: getattr(again, name) for name in ("model", "examples", "tiles")}, tmp_path / "stopped")
    assert output_digests(tmp_path / "stopped") == first == whole["outputs"]


def test_a_torn_checkpoint_is_not_used(tmp_path: Path) -> None:
    for step, marks in ((5, [COMPLETE]), (10, [COMPLETE]), (15, [])):
        (tmp_path / f"checkpoint-{step}").mkdir()
        for mark in marks:
            (tmp_path / f"checkpoint-{step}" / mark).touch()
    assert last_checkpoint(tmp_path, prune=True) == tmp_path / "checkpoint-10"
    assert not (tmp_path / "checkpoint-15").exists()
    assert last_checkpoint(tmp_path / "none", prune=True) is None


def test_parameters_that_do_not_match_are_refused(reader_parts: Any, tmp_path: Path) -> None:
    from safetensors.torch import save_file

    save_file({"lm_head.weight": torch.zeros(2, 2)}, str(tmp_path / WEIGHTS))
    with pytest.raises(InputError, match="don't match"):
        load_trained(load_reader(reader_parts.model).model, tmp_path / WEIGHTS)


def test_accumulated_small_batches_equal_one_large(config: Config) -> None:
    large = run_stage(STAGE, dataclasses.replace(config, steps=3))
    small = run_stage(
        STAGE,
        dataclasses.replace(config, steps=3, batch_size=2, gradient_accumulation=2, out=config.out.with_name("s")),
    )
    assert small["counts"]["last_loss"] == pytest.approx(large["counts"]["last_loss"], rel=1e-3)


@pytest.mark.parametrize(
    "change", [{"gradient_checkpointing": True}, {"workers": 1}, {"precision": "bfloat16"}], ids=lambda c: next(iter(c))
)
def test_other_ways_to_run_give_nearly_the_same_loss(config: Config, change: dict[str, Any]) -> None:
    plain = dataclasses.replace(config, steps=2, adapters={"llm_attn": LoraGroup(4, 8.0)}, warmup_steps=0)
    losses = [
        run_stage(STAGE, settings)["counts"]["last_loss"]
        for settings in (plain, dataclasses.replace(plain, out=config.out.with_name("other"), **change))
    ]
    assert losses[1] == pytest.approx(losses[0], rel=2e-2 if "precision" in change else 1e-5)


def test_adapters_train_and_are_merged(config: Config, reader_parts: Any) -> None:
    groups = {"llm_attn": LoraGroup(4, 8.0), "vit_mlp": LoraGroup(4, 8.0)}
    counts = run_stage(STAGE, dataclasses.replace(config, adapters=groups, learning_rate=1.0e-2))["counts"]
    assert counts["trainable_parameters"].keys() == groups.keys()
    assert counts["validation"]["after"]["validation_loss"] < counts["validation"]["before"]["validation_loss"]
    trained = load_reader(config.out / "checkpoint").model.state_dict()
    base = load_reader(reader_parts.model).model.state_dict()
    moved = {name for name, value in trained.items() if not torch.equal(value, base[name])}
    assert trained.keys() == base.keys()
    assert moved and all(".self_attn." in name or ".mlp.linear_fc" in name for name in moved)


def test_a_loss_that_is_not_finite_stops_the_stage(config: Config) -> None:
    with pytest.raises(StageError, match="learning_rate"):
        run_stage(STAGE, dataclasses.replace(config, learning_rate=1.0e18, steps=20, warmup_steps=0))


def test_no_examples_or_foreign_tiles_are_errors(config: Config, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    write_jsonl(tmp_path / "data/train.jsonl", [])
    write_jsonl(tmp_path / "data/validation.jsonl", [])
    with pytest.raises(InputError, match="at least one example"):
        run_stage(STAGE, dataclasses.replace(config, examples=tmp_path / "data"))
    stranger = ReaderExample("q", "Who?", "Ada", ("f" * 16 + "-0000-00",), 0, 1.0)
    write_jsonl(tmp_path / "data/train.jsonl", [stranger])
    with pytest.raises(InputError, match="is not in"):
        run_stage(STAGE, dataclasses.replace(config, examples=tmp_path / "data", out=tmp_path / "other"))


def test_without_validation_rows_it_trains(config: Config, tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    rows = read_jsonl(config.examples / "train.jsonl", ReaderExample)
    write_jsonl(tmp_path / "data/train.jsonl", rows)
    write_jsonl(tmp_path / "data/validation.jsonl", [])
    counts = run_stage(STAGE, dataclasses.replace(config, examples=tmp_path / "data", steps=2))["counts"]
    assert counts["validation"] == {} and counts["last_loss"] > 0


@pytest.mark.parametrize(("key", "value"), [("steps", "0"), ("batch_size", "0"), ("learning_rate", "2e-5")])
def test_bad_settings_are_refused(key: str, value: str) -> None:
    with pytest.raises(ValueError, match=key):
        load(SMOKE, Config, [f"{key}={value}"])
