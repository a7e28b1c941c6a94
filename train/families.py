"""Model families: the encoder reaches a model only through one of these, found by a folder's ``config.json``.

A new family is one file and a call of ``register``. Of Qwen's vision-language models it is a ``QwenFamily`` (see
``qwen3_vl``): prompt, positions and pixels are shared. Any other has the names of ``Family`` (see ``nano_family``).
"""

import json
from pathlib import Path
from typing import Protocol

import torch
from torch import Tensor, nn

from tilewright.configs.errors import InputError
from tilewright.train import nano_family, qwen3_vl
from tilewright.train.base_folder import Loaded, Options
from tilewright.train.batch import Batch
from tilewright.train.pixels import PixelPolicy


class Family(Protocol):
    """A kind of model. ``NAME`` stands in encoder contracts, the next two in a folder's ``config.json``.

    ``NOTE``: what every model card of the family says; ``LOADER``: the class whose ``from_pretrained`` reads its
    weights. ``SHARDED``: whether its layers are called as modules, as FSDP's hooks demand.
    """

    @property
    def NAME(self) -> str: ...
    @property
    def MODEL_TYPE(self) -> str: ...
    @property
    def ARCHITECTURES(self) -> tuple[str, ...]: ...
    @property
    def NOTE(self) -> str: ...
    @property
    def LOADER(self) -> str: ...
    @property
    def SHARDED(self) -> bool: ...

    def load(self, folder: Path, dtype: torch.dtype, options: Options) -> Loaded:
        """Contract, batcher and model of a base folder. Raises InputError for what doesn't belong together."""
        ...

    def pooled(self, model: nn.Module, batch: Batch, policy: PixelPolicy) -> Tensor:
        """[B, at least the contract's dimension], neither cut nor normalised; ``batch`` is on the model's device."""
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


register(qwen3_vl.FAMILY)
register(nano_family)
