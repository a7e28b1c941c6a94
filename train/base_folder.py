"""What families share in reading a base folder: the options of loading, its label, the parts it gives."""

import re
from dataclasses import dataclass
from pathlib import Path

from torch import nn

from tilewright.configs.errors import InputError
from tilewright.train.batch import Batcher
from tilewright.train.contract import EncoderContract

Options = dict[str, int | None]
"""``min_pixels``, ``max_pixels`` and ``dimension`` asked for; None: the folder's own."""
MAX_TEXT_TOKENS = 4096
_SNAPSHOT = re.compile(r"models--([^/]+)/snapshots/[0-9a-f]+$")
_MODEL_NAME = re.compile(r"^model_name:\s*(\S.*?)\s*$", re.MULTILINE)


@dataclass(frozen=True)
class Loaded:
    """A base folder under its contract: what makes batches, and the model in evaluation mode."""

    contract: EncoderContract
    batcher: Batcher
    model: nn.Module


def checked_dimension(folder: Path, options: Options, longest: int, shortest: int = 1) -> int:
    """The dimension asked for, ``longest`` without. Raises InputError unless it is ``shortest`` to ``longest``."""
    asked = options["dimension"]
    dimension = longest if asked is None else asked
    if not shortest <= dimension <= longest:
        raise InputError(f"{folder}: dimension: wanted {shortest} to {longest}, found {dimension}")
    return dimension


def model_label(folder: Path, family: str) -> str:
    """A label: the hub name of a cached snapshot, `model_name` of a model card, else the family."""
    snapshot = _SNAPSHOT.search(folder.absolute().as_posix())
    if snapshot:
        return snapshot.group(1).replace("--", "/")
    card = folder / "README.md"
    if card.is_file():
        front_matter = card.read_text(encoding="utf-8").partition("\n---")[0]
        name = _MODEL_NAME.search(front_matter)
        if name:
            return name.group(1).strip("'\"")
    return family
