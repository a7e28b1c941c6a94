"""What a training run needs to go on after a kill, and the best weights so far: hidden folders below its output.

``.resume/step-N`` holds weights, optimiser, position and curve after N updates; ``.best/step-N`` weights alone. A
folder of that name is whole: it is written beside, with the digests of its files, and renamed. Old ones go once a newer
resume folder stands, so the best weights that a resume folder speaks of are always there. Random state and learning
rate are functions of the step.
"""

import dataclasses
import json
import os
import re
import shutil
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.configs.manifest import digest_file
from tilewright.data_gen.records import from_json

RESUME, BEST, CHECKPOINTS = ".resume", ".best", "checkpoints"
SUFFIX = ".safetensors"
DIGESTS = "digests.json"
WEIGHTS, POSITION, CURVE = f"weights{SUFFIX}", "position.json", "curve.jsonl"
_STEP = re.compile(r"step-(\d+)")


@dataclass(frozen=True)
class Position:
    """Where a run stands: updates done, and the best validation so far (step -1: none yet; ``since_best`` after it)."""

    step: int = 0
    best_step: int = -1
    best_value: float = float("-inf")
    since_best: int = 0

    def after_update(self) -> "Position":
        """The position one update later."""
        return dataclasses.replace(self, step=self.step + 1)

    def after_validation(self, step: int, value: float) -> "Position":
        """The position once the validation at ``step`` gave ``value``; an equal value is no improvement."""
        if value > self.best_value:
            return dataclasses.replace(self, best_step=step, best_value=value, since_best=0)
        return dataclasses.replace(self, since_best=self.since_best + 1)


def save_best(out: Path, step: int, weights: Mapping[str, Tensor]) -> None:
    """Keep the weights of ``step`` as the best so far."""
    _write_folder(out / BEST, step, lambda folder: _save_tensors(folder / WEIGHTS, weights))


def load_best(out: Path, step: int) -> dict[str, Tensor]:
    """The weights kept for ``step``. Raises InputError if they aren't as they were written."""
    path = out / BEST / f"step-{step}" / WEIGHTS
    check_best(out, step)
    return load_file(path)  # type: ignore[no-any-return]


def check_best(out: Path, step: int) -> None:
    """Raise InputError unless the weights kept for ``step`` are there as they were written."""
    folder = out / BEST / f"step-{step}"
    try:
        _check_digests(folder)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: can't be read ({error}): delete {out} to start over") from error


def save_resume(
    out: Path, position: Position, state: Mapping[str, Mapping[str, Tensor]], curve: list[dict[str, Any]]
) -> None:
    """Write everything that ``load_resume`` reads; then drop older resume folders and superseded best weights.

    ``state``: {file name without suffix: {name: tensor}}.
    """

    def write(folder: Path) -> None:
        for name, tensors in state.items():
            _save_tensors(folder / f"{name}{SUFFIX}", tensors)
        values = dataclasses.asdict(position)
        values["best_value"] = None if position.best_step < 0 else position.best_value
        (folder / POSITION).write_text(json.dumps(values), encoding="utf-8")
        write_curve(folder / CURVE, curve)

    _write_folder(out / RESUME, position.step, write)
    _drop_all_but(out / RESUME, position.step)
    _drop_all_but(out / BEST, position.best_step)


def load_resume(out: Path) -> tuple[Position, list[dict[str, Any]], dict[str, dict[str, Tensor]] | None]:
    """(position, curve, state) of the newest resume folder; a new run's without, and no state.

    Raises InputError if it can't be read.
    """
    steps = _steps(out / RESUME)
    if not steps:
        return Position(), [], None
    folder = out / RESUME / f"step-{max(steps)}"
    try:
        _check_digests(folder)
        values = json.loads((folder / POSITION).read_text(encoding="utf-8"))
        curve = [json.loads(line) for line in (folder / CURVE).read_text(encoding="utf-8").splitlines()]
        state = {path.name.removesuffix(SUFFIX): load_file(path) for path in sorted(folder.glob(f"*{SUFFIX}"))}
        position = from_json(Position, {k: v for k, v in values.items() if v is not None}, str(folder / POSITION))
        if position.step != max(steps) or not curve or curve[-1]["step"] != position.step:
            raise ValueError(f"its files speak of other steps than {max(steps)}")
        if not {"weights", "optimizer"} <= state.keys():
            raise ValueError(f"wanted files of weights and optimizer, found {sorted(state)}")
    except (OSError, ValueError, AttributeError, KeyError, TypeError, SafetensorError) as error:
        raise InputError(f"{folder}: can't be resumed from ({error}): delete {out} to start over") from error
    return position, curve, state


def drop_best_after(out: Path, step: int) -> None:
    """Drop best weights of later steps: their updates are made again."""
    for later in _steps(out / BEST):
        if later > step:
            shutil.rmtree(out / BEST / f"step-{later}")


def keep_last(out: Path, step: int, count: int, save: Callable[[Path], object]) -> None:
    """Let ``save`` write ``checkpoints/step-N``; of the older ones, and none is newer, ``count`` - 1 stay."""
    parent = out / CHECKPOINTS
    older = [other for other in _steps(parent) if other < step]
    for other in _steps(parent):
        if other >= step or other in older[: len(older) + 1 - count]:
            shutil.rmtree(parent / f"step-{other}")
    save(parent / f"step-{step}")


def write_curve(path: Path, curve: list[dict[str, Any]]) -> None:
    """One JSON line a step, atomically."""
    temporary = path.with_name(f".{path.name}.tmp")
    lines = [json.dumps(entry, allow_nan=False) + "\n" for entry in curve]
    temporary.write_text("".join(lines), encoding="utf-8")
    temporary.replace(path)


def _save_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    save_file({name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}, path)


def _write_folder(parent: Path, step: int, write: Callable[[Path], None]) -> None:
    """Let ``write`` fill a temporary folder that becomes ``parent/step-N`` in one rename; a whole one stays."""
    final, temporary = parent / f"step-{step}", parent / f".step-{step}.tmp"
    if final.is_dir():
        return
    shutil.rmtree(temporary, ignore_errors=True)
    temporary.mkdir(parents=True)
    write(temporary)
    (temporary / DIGESTS).write_text(json.dumps(_digests(temporary)), encoding="utf-8")
    for path in temporary.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
    temporary.rename(final)


def _digests(folder: Path) -> dict[str, str]:
    return {path.name: digest_file(path) for path in sorted(folder.iterdir()) if path.name != DIGESTS}


def _check_digests(folder: Path) -> None:
    """Raise ValueError, or OSError, unless the files of ``folder`` are those that were written."""
    wanted, found = json.loads((folder / DIGESTS).read_text(encoding="utf-8")), _digests(folder)
    if wanted != found:
        names = wanted.keys() | found.keys() if isinstance(wanted, dict) else {DIGESTS}
        changed = sorted(name for name in names if name == DIGESTS or wanted.get(name) != found.get(name))
        raise ValueError(f"{changed} aren't as they were written")


def _steps(parent: Path) -> list[int]:
    if not parent.is_dir():
        return []
    matches = (_STEP.fullmatch(path.name) for path in parent.iterdir())
    return sorted(int(match.group(1)) for match in matches if match)


def _drop_all_but(parent: Path, step: int) -> None:
    for other in _steps(parent):
        if other != step:
            shutil.rmtree(parent / f"step-{other}")
