"""Trackers get what the curve holds; one that isn't there is named."""

import sys
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tilewright.configs.errors import InputError
from tilewright.train.trackers import flat, open_trackers


def test_tensorboard_holds_the_numbers(tmp_path: Path) -> None:
    with open_trackers(["tensorboard"], tmp_path, {"steps": 2, "loss": {"temperature": 0.1}, "out": tmp_path}) as told:
        told.log({"loss": 3.0, "accuracy": 0.25}, 1)
        told.log({"loss": 2.0, "accuracy": 0.5}, 2)
    events = EventAccumulator(str(tmp_path / "tilewright"))
    events.Reload()
    assert [(event.step, event.value) for event in events.Scalars("loss")] == [(1, 3.0), (2, 2.0)]
    assert [event.value for event in events.Scalars("accuracy")] == [0.25, 0.5]


def test_other_ranks_open_none(tmp_path: Path) -> None:
    with open_trackers(["tensorboard"], tmp_path / "logs", {}, quiet=True) as told:
        told.log({"loss": 3.0}, 1)
    assert not (tmp_path / "logs").exists()


def test_a_missing_tracker_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "wandb", None)
    with pytest.raises(InputError, match="trackers: wandb isn't installed"), open_trackers(["wandb"], tmp_path, {}):
        pass


def test_settings_are_told_flat() -> None:
    assert dict(flat({"a": 1, "b": {"c": (1, 2), "d": None, "e": True}})) == {
        "a": 1,
        "b.c": "(1, 2)",
        "b.d": "None",
        "b.e": True,
    }
