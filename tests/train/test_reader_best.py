"""The best validation: which it is, that its weights are kept through kills, that patience ends a run."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tests.train.stage_process import wait_for, write_yaml

from tilewright.configs.digests import output_digests
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import ReaderExample, read_jsonl, write_jsonl
from tilewright.train.reader import load_reader
from tilewright.train.reader_batch import ReaderCollator
from tilewright.train.reader_best import BestWeights, best_of, since_best
from tilewright.train.reader_config import Config
from tilewright.train.reader_trainer import COMPLETE
from tilewright.train.reader_validation import Validation
from tilewright.train.train_reader import STAGE

ANSWERS = ("Nairobi", "Oslo", "1815", "42 km")


def validation(step: int, accuracy: float, loss: float) -> dict[str, float]:
    return {"step": step, "validation_exact_match": accuracy, "validation_loss": loss}


def test_answers_decide_and_loss_only_between_equals() -> None:
    history: list[dict[str, float]] = [
        validation(0, 1.0, 0.1),  # before training: not among the candidates
        {"step": 1, "loss": 3.0},
        validation(2, 0.5, 0.2),
        validation(4, 0.75, 9.0),
        validation(6, 0.75, 8.0),
        validation(8, 0.75, 8.0),
        {"step": 8, "validation_loss": 0.0},  # nothing was asked
    ]
    best = best_of(history)
    assert best is not None and best["step"] == 6 and since_best(history) == 1
    assert best_of(history[:2]) is None and since_best(history[:2]) == 0


@given(st.lists(st.tuples(st.sampled_from([0.0, 0.5, 1.0]), st.sampled_from([1.0, 2.0])), max_size=8))
def test_what_is_best_so_far_only_ever_gets_better(figures: list[tuple[float, float]]) -> None:
    history = [validation(step, *pair) for step, pair in enumerate(figures, start=1)]
    for end in range(1, len(history) + 1):
        best = best_of(history[:end])
        assert best is not None and since_best(history[:end]) == end - best["step"]
        assert (best["validation_exact_match"], -best["validation_loss"]) == max(
            (a, -loss) for a, loss in figures[:end]
        )


def test_pruning_leaves_the_one_that_a_checkpoint_needs(tmp_path: Path) -> None:
    model, weights = torch.nn.Linear(2, 2), BestWeights(tmp_path / "best")
    for step in (2, 4, 6):
        model.weight.data.fill_(step)
        weights.save(step, model)
    weights.prune(4)
    weights.load(4, model)
    assert model.weight.unique().tolist() == [4] and len(list((tmp_path / "best").iterdir())) == 1
    weights.prune(None)
    assert not list((tmp_path / "best").iterdir())


@pytest.fixture(scope="module")
def config(reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Config:
    """A rate so high that validation gets worse after a few steps."""
    folder = tmp_path_factory.mktemp("best")
    ids = reader_parts.tile_ids
    rows = [ReaderExample(f"q{i}", "What does it say?", ANSWERS[i % 4], (ids[i % 4],), 0, 1.0) for i in range(8)]
    write_jsonl(folder / "train.jsonl", rows)
    write_jsonl(folder / "validation.jsonl", rows[:4])
    return Config(
        out=tmp_path_factory.mktemp("best_runs") / "reader",
        model=reader_parts.model,
        examples=folder,
        tiles=reader_parts.tiles,
        steps=16,
        batch_size=4,
        learning_rate=6.0e-2,
        warmup_steps=12,
        adapters=None,
        max_pixels=None,
        evaluate_every=1,
        validation_questions=4,
        save_every=2,
        threads=1,
        seed=5,
        keep="best",
        patience=2,
        max_new_tokens=6,
    )


@pytest.fixture(scope="module")
def whole(config: Config) -> dict[str, Any]:
    manifest: dict[str, Any] = run_stage(STAGE, config)
    return manifest


def test_patience_ends_the_run_and_the_best_weights_are_what_is_written(
    config: Config, whole: dict[str, Any], reader_parts: Any
) -> None:
    counts = whole["counts"]
    best = counts["validation"]["best"]
    assert counts["stopped_by_patience"] and counts["steps"] == best["step"] + 2 < config.steps
    reader = load_reader(config.out / "checkpoint")
    collator = ReaderCollator(reader_parts.store(), reader.prompt, reader.policy)
    rows = read_jsonl(config.examples / "validation.jsonl", ReaderExample)
    again = Validation(reader, collator, rows, questions=4, batch_size=4, max_new_tokens=6).figures()
    assert again | {"step": best["step"]} == pytest.approx(best, rel=1e-5)
    assert again["validation_loss"] < counts["validation"]["after"]["validation_loss"]
    curve = [json.loads(line) for line in (config.out / "curve.jsonl").read_text().splitlines()]
    assert (
        min(curve[1:], key=lambda row: (-row["validation_exact_match"], row["validation_loss"]))["step"] == best["step"]
    )


def test_the_last_weights_where_they_are_asked_for(config: Config, whole: dict[str, Any]) -> None:
    last = dataclasses.replace(
        config, keep="last", patience=None, steps=2, evaluate_every=2, save_every=2, out=config.out.with_name("last")
    )
    counts = run_stage(STAGE, last)["counts"]
    assert not counts["stopped_by_patience"] and counts["steps"] == 2
    with pytest.raises(ValueError, match="patience: wanted null with `keep: last`"):
        dataclasses.replace(last, patience=1)


@pytest.mark.slow
def test_a_kill_between_the_best_and_the_end_changes_no_byte(config: Config, whole: dict[str, Any]) -> None:
    """Killed once a checkpoint stands at or behind the best validation; the weights of that one must outlive it."""
    best = int(whole["counts"]["validation"]["best"]["step"])
    killed = dataclasses.replace(config, out=config.out.with_name("killed"))
    command = [sys.executable, "-m", "tilewright.train.train_reader", str(write_yaml(killed))]
    process = subprocess.Popen(command, env=os.environ, stderr=subprocess.PIPE, text=True)
    checkpoint = f".trainer/checkpoint-{best + best % 2}"
    wait_for(killed.out.with_name("killed.partial") / checkpoint / COMPLETE, process)
    process.send_signal(signal.SIGKILL)
    process.communicate()
    assert not killed.out.exists(), "it had ended before the kill"
    assert run_stage(STAGE, killed)["outputs"] == whole["outputs"] == output_digests(config.out)
