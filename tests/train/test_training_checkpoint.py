"""Resume folders: everything comes back, half-written ones never count, superseded ones go."""

import shutil
from pathlib import Path

import pytest
import torch
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.train.training_checkpoint import (
    Position,
    check_best,
    drop_best_after,
    load_best,
    load_resume,
    save_best,
    save_resume,
)


def tensors(seed: int) -> dict[str, dict[str, Tensor]]:
    """A run's state: files of tensors of different types and shapes."""
    torch.manual_seed(seed)
    weights = {"weight": torch.randn(3, 2), "half": torch.randn(4).bfloat16(), "scale": torch.tensor(0.5)}
    return {"weights": weights, "optimizer": {"weight/step": torch.tensor(3.0), "weight/exp_avg": torch.randn(3, 2)}}


def same(one: dict[str, dict[str, Tensor]] | None, two: dict[str, dict[str, Tensor]]) -> bool:
    return (
        one is not None
        and {name: set(values) for name, values in one.items()} == {name: set(values) for name, values in two.items()}
        and all(torch.equal(one[name][key], two[name][key]) for name in two for key in two[name])
    )


def names(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def test_everything_comes_back(tmp_path: Path) -> None:
    curve = [{"step": 0}, {"step": 3, "loss": 0.1 + 0.2}]
    save_resume(tmp_path, Position(3, 2, 0.25, 1), tensors(3), curve)
    position, found, state = load_resume(tmp_path)
    assert (position, found) == (Position(3, 2, 0.25, 1), curve) and same(state, tensors(3))


def test_a_new_run_starts_at_the_start(tmp_path: Path) -> None:
    assert load_resume(tmp_path) == (Position(), [], None)
    save_resume(tmp_path, Position(1), tensors(1), [{"step": 1}])
    assert load_resume(tmp_path)[:2] == (Position(1), [{"step": 1}])


def test_a_half_written_folder_does_not_count(tmp_path: Path) -> None:
    save_resume(tmp_path, Position(1), tensors(1), [{"step": 1}])
    shutil.copytree(tmp_path / ".resume/step-1", tmp_path / ".resume/.step-2.tmp")
    assert load_resume(tmp_path)[0].step == 1
    save_resume(tmp_path, Position(2), tensors(2), [{"step": 2}])
    assert names(tmp_path / ".resume") == ["step-2"]


def test_best_weights_stay_as_long_as_a_resume_folder_needs_them(tmp_path: Path) -> None:
    best, later = tensors(1)["weights"], tensors(5)["weights"]
    save_best(tmp_path, 1, best)
    save_resume(tmp_path, Position(2, 1, 0.5), tensors(2), [])
    save_best(tmp_path, 5, later)
    assert names(tmp_path / ".best") == ["step-1", "step-5"]  # killed here, the run goes on from step 2
    drop_best_after(tmp_path, 2)
    assert names(tmp_path / ".best") == ["step-1"]
    assert same({"weights": load_best(tmp_path, 1)}, {"weights": best})
    save_best(tmp_path, 5, later)
    save_resume(tmp_path, Position(6, 5, 0.75), tensors(6), [])
    assert names(tmp_path / ".best") == ["step-5"]


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("position.json", "{"),
        ("position.json", "[]"),
        ("position.json", "{}"),
        ("position.json", '{"step": 99, "best_step": -1, "best_value": null, "since_best": 0}'),
        ("weights.safetensors", "{"),
        ("optimizer.safetensors", None),
        ("curve.jsonl", ""),
        ("curve.jsonl", "{"),
    ],
)
def test_broken_files_are_errors(name: str, content: str | None, tmp_path: Path) -> None:
    save_resume(tmp_path, Position(1), tensors(1), [{"step": 1}])
    file = tmp_path / ".resume/step-1" / name
    file.unlink() if content is None else file.write_text(content)
    with pytest.raises(InputError, match="can't be resumed from"):
        load_resume(tmp_path)


@pytest.mark.parametrize("name", ["weights.safetensors", "optimizer.safetensors", "position.json", "curve.jsonl"])
def test_a_changed_byte_is_an_error(name: str, tmp_path: Path) -> None:
    """The last byte of a file of tensors is a weight's, so that the file can still be read."""
    save_resume(tmp_path, Position(1), tensors(1), [{"step": 1, "loss": 0.25}])
    file = tmp_path / ".resume/step-1" / name
    content = file.read_bytes()
    changed = content.replace(b"0.25", b"0.75").replace(b'"since_best": 0', b'"since_best": 1')
    file.write_bytes(changed if changed != content else content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(InputError, match=rf"can't be resumed from \(\['{name}'\] aren't as they were written"):
        load_resume(tmp_path)


def test_changed_and_missing_best_weights_are_errors(tmp_path: Path) -> None:
    save_best(tmp_path, 1, tensors(1)["weights"])
    file = tmp_path / ".best/step-1/weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1] + b"A")
    with pytest.raises(InputError, match=r"step-1: can't be read .*aren't as they were written"):
        load_best(tmp_path, 1)
    with pytest.raises(InputError, match="step-2: can't be read"):
        check_best(tmp_path, 2)


def test_only_a_better_value_is_an_improvement() -> None:
    position = Position().after_update().after_validation(1, 0.5)
    assert position == Position(1, 1, 0.5, 0)
    assert position.after_validation(2, 0.5) == Position(1, 1, 0.5, 1)
    assert position.after_validation(2, 0.6) == Position(1, 2, 0.6, 0)
