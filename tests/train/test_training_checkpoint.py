"""Resume folders: everything comes back, half-written ones never count, superseded ones go."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import nn

from tilewright.configs.errors import InputError
from tilewright.train.training_checkpoint import (
    Position,
    drop_best_after,
    load_best,
    load_resume,
    save_best,
    save_resume,
)


def trained(steps: int) -> tuple[dict[str, nn.Parameter], torch.optim.Optimizer]:
    torch.manual_seed(0)
    weights = {"weight": nn.Parameter(torch.randn(3, 2)), "scale": nn.Parameter(torch.tensor(0.5))}
    optimizer = torch.optim.AdamW(weights.values(), lr=0.1)
    for step in range(steps):
        for parameter in weights.values():
            parameter.grad = torch.full_like(parameter, 0.1 * (step + 1))
        optimizer.step()
    return weights, optimizer


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_everything_comes_back(tmp_path: Path) -> None:
    weights, optimizer = trained(3)
    curve = [{"step": 0}, {"step": 1, "loss": 0.1 + 0.2}]
    save_resume(tmp_path, Position(3, 2, 0.25, 1), weights, optimizer, curve)
    fresh, fresh_optimizer = trained(0)
    assert load_resume(tmp_path, fresh, fresh_optimizer) == (Position(3, 2, 0.25, 1), curve)
    for _ in range(2):
        optimizer.step()
        for name, parameter in fresh.items():
            parameter.grad = weights[name].grad
        fresh_optimizer.step()
    assert all(torch.equal(fresh[name], weights[name]) for name in weights)


def test_a_new_run_starts_at_the_start(tmp_path: Path) -> None:
    assert load_resume(tmp_path, *trained(0)) == (Position(), [])
    save_resume(tmp_path, Position(1), *trained(1), [])
    assert load_resume(tmp_path, *trained(0)) == (Position(1), [])


def test_a_half_written_folder_does_not_count(tmp_path: Path) -> None:
    save_resume(tmp_path, Position(1), *trained(1), [])
    shutil.copytree(tmp_path / ".resume/step-1", tmp_path / ".resume/.step-2.tmp")
    assert load_resume(tmp_path, *trained(0))[0].step == 1
    save_resume(tmp_path, Position(2), *trained(2), [])
    assert names(tmp_path / ".resume") == ["step-2"]


def test_best_weights_stay_as_long_as_a_resume_folder_needs_them(tmp_path: Path) -> None:
    weights, optimizer = trained(1)
    best = {name: parameter.detach().clone() for name, parameter in weights.items()}
    save_best(tmp_path, 1, weights)
    save_resume(tmp_path, Position(2, 1, 0.5), weights, optimizer, [])
    later, _ = trained(5)
    save_best(tmp_path, 5, later)
    assert names(tmp_path / ".best") == ["step-1", "step-5"]  # killed here, the run goes on from step 2
    drop_best_after(tmp_path, 2)
    assert names(tmp_path / ".best") == ["step-1"]
    load_best(tmp_path, 1, later)
    assert all(torch.equal(later[name], value) for name, value in best.items())
    save_best(tmp_path, 5, later)
    save_resume(tmp_path, Position(6, 5, 0.75), later, optimizer, [])
    assert names(tmp_path / ".best") == ["step-5"]


def test_other_parameters_and_broken_files_are_errors(tmp_path: Path) -> None:
    save_resume(tmp_path, Position(1), *trained(1), [])
    weights, optimizer = trained(0)
    with pytest.raises(InputError, match="1 other parameters than the run's; first: scale"):
        load_resume(tmp_path, {"weight": weights["weight"]}, optimizer)
    (tmp_path / ".resume/step-1/position.json").write_text("{")
    with pytest.raises(InputError, match="can't be resumed from"):
        load_resume(tmp_path, weights, optimizer)


def test_only_a_better_value_is_an_improvement() -> None:
    position = Position().after_update().after_validation(1, 0.5)
    assert position == Position(1, 1, 0.5, 0)
    assert position.after_validation(2, 0.5) == Position(1, 1, 0.5, 1)
    assert position.after_validation(2, 0.6) == Position(1, 2, 0.6, 0)
