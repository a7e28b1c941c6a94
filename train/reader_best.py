"""Which validation of a reader was best, by the questions it answered right, and the weights that it had then."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file

from tilewright.configs.errors import InputError
from tilewright.train.adapters import trainable

ACCURACY, LOSS = "validation_exact_match", "validation_loss"


def validations(history: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The validations of trained weights in a log history, which answered questions."""
    return [entry for entry in history if ACCURACY in entry and entry["step"] > 0]


def best_of(history: Iterable[Mapping[str, Any]]) -> Mapping[str, Any] | None:
    """The validation with most questions answered right; of equals that of the least loss, then the earliest."""
    return max(validations(history), key=lambda entry: (entry[ACCURACY], -entry[LOSS]), default=None)


def since_best(history: Sequence[Mapping[str, Any]]) -> int:
    """How many validations there were since the best one."""
    best = best_of(history)
    return 0 if best is None else sum(entry["step"] > best["step"] for entry in validations(history))


class BestWeights:
    """Files with the trained parameters of the best validations, one for each that a checkpoint may still need."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def save(self, step: int, model: torch.nn.Module) -> None:
        """Write what ``model`` has learned by ``step``."""
        self._folder.mkdir(parents=True, exist_ok=True)
        save_trained(model, self._path(step))

    def load(self, step: int, model: torch.nn.Module) -> None:
        """Read it back into ``model``. Raises InputError unless all names and shapes match."""
        load_trained(model, self._path(step))

    def prune(self, step: int | None) -> None:
        """Delete all but ``step``: to be called once a checkpoint stands whose history has it as the best."""
        for path in self._folder.glob("*.safetensors"):
            if step is None or path != self._path(step):
                path.unlink()

    def _path(self, step: int) -> Path:
        return self._folder / f"step-{step}.safetensors"


def save_trained(model: torch.nn.Module, path: Path) -> None:
    """Write the trained parameters of ``model``."""
    tensors = {name: value.detach().cpu().contiguous() for name, value in trainable(model).items()}
    save_file(tensors, str(path))


def load_trained(model: torch.nn.Module, path: Path) -> None:
    """Read trained parameters back into ``model``. Raises InputError unless all names and shapes match."""
    stored, wanted = load_file(str(path)), trainable(model)
    wrong = stored.keys() ^ wanted.keys()
    wrong |= {name for name in stored.keys() & wanted.keys() if stored[name].shape != wanted[name].shape}
    if wrong:
        raise InputError(f"{path}: {len(wrong)} parameters don't match the model (first: {min(wrong)})")
    with torch.no_grad():
        for name, parameter in wanted.items():
            parameter.copy_(stored[name])
