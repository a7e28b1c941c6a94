"""Model families: the encoder reaches a model only through one of these, found by a folder's ``config.json``.

A new family is one file with the names of ``Family`` (see ``qwen3_vl``) and a call of ``register``. Prompt, positions
and pixels are those of Qwen's vision-language models and are shared.
"""

import json
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from tilewright.configs.errors import InputError
from tilewright.train import qwen3_vl
from tilewright.train.batch import Batch
from tilewright.train.model_sizes import ModelSizes
from tilewright.train.pixels import PixelPolicy


class Family(Protocol):
    """What a family's file holds. ``NAME`` stands in encoder contracts, the other two in a folder's ``config.json``."""

    NAME: str
    MODEL_TYPE: str
    ARCHITECTURES: tuple[str, ...]

    def sizes(self, folder: Path) -> ModelSizes:
        """Sizes of the folder's model. Raises InputError for an unreadable configuration."""
        ...

    def load_model(self, folder: Path, dtype: torch.dtype) -> nn.Module:
        """The model whose last hidden state is pooled. Raises InputError unless the weights match one to one."""
        ...

    def hidden_states(self, model: nn.Module, batch: Batch, policy: PixelPolicy) -> Tensor:
        """Last hidden states [B, L, D], after the final norm."""
        ...


_FAMILIES: dict[str, Family] = {}


def register(family: Family) -> None:
    """Make a family known. Raises ValueError if its name or one of its architectures is taken."""
    for other in _FAMILIES.values():
        taken = {other.NAME, *other.ARCHITECTURES} & {family.NAME, *family.ARCHITECTURES}
        if taken:
            raise ValueError(f"family {family.NAME}: {sorted(taken)} already belong to family {other.NAME}")
    _FAMILIES[family.NAME] = family


def by_name(name: str) -> Family:
    """The family of that name. Raises InputError for an unknown one."""
    if name not in _FAMILIES:
        raise InputError(f"model family: wanted one of {sorted(_FAMILIES)}, found {name!r}: register it before loading")
    return _FAMILIES[name]


def of_folder(folder: Path) -> Family:
    """The family of a ``save_pretrained`` folder: by ``architectures`` of its config.json, without them by model_type.

    Raises InputError if no known family is named there.
    """
    path = folder / "config.json"
    if not path.is_file():
        raise InputError(f"{folder}: no config.json: wanted a save_pretrained folder")
    try:
        config = json.loads(path.read_text(encoding="utf-8"))
        architectures, model_type = config.get("architectures"), config.get("model_type")
    except (OSError, ValueError, AttributeError) as error:
        raise InputError(f"{path}: not a readable model configuration ({error})") from error
    for family in _FAMILIES.values():
        named = not architectures or (len(architectures) == 1 and architectures[0] in family.ARCHITECTURES)
        if named and model_type == family.MODEL_TYPE:
            return family
    known = {family.MODEL_TYPE: list(family.ARCHITECTURES) for family in _FAMILIES.values()}
    raise InputError(
        f"{path}: model_type and architectures: wanted one of {known}, found {model_type!r} and {architectures}"
    )


register(qwen3_vl)
