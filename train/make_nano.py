"""Stage: the reader that ships with the package, as a model folder for tiles of one compression."""

import math
from dataclasses import dataclass
from importlib import resources
from pathlib import Path
from typing import Literal

import torch

from tilewright.configs.errors import InputError
from tilewright.configs.stage import Counts, Inputs, Stage, main

FOLDER = "embedder"
WEIGHTS = "nano_weights"  # a folder of this package


@dataclass(frozen=True)
class Config:
    """``weights``: `nano` reads pages of mixed scales, `nano-full` those of full resolution alone.

    ``compression``: of the tiles to be read; their sides are enlarged by its square root, back to reading size.
    ``dimension``: of the vectors; if the weights were shipped with another, letters are bound anew. With 4,096 three
    rare words find their tile 87 % as often as in a perfect reading, with 2,048, half the index, 81 % (README).
    """

    out: Path
    weights: Literal["nano", "nano-full"]
    compression: float = 1.0
    dimension: int = 4096

    def __post_init__(self) -> None:
        if not 1 <= self.compression < math.inf:
            raise ValueError(f"compression: wanted at least 1, found {self.compression}")
        if self.dimension < 64:
            raise ValueError(f"dimension: wanted at least 64, found {self.dimension}")


def make_nano(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``embedder/``, which ``load_encoder`` reads. Raises InputError if the package has no such weights."""
    with resources.as_file(resources.files("tilewright.train") / WEIGHTS / config.weights) as shipped:
        return write_from(shipped, config, out / FOLDER)


def write_from(shipped: Path, config: Config, folder: Path) -> Counts:
    """Write ``folder`` from the weights at ``shipped``, a folder of ``write_nano``; InputError if there are none."""
    from tilewright.train.nano import NanoConfig, NanoModel
    from tilewright.train.nano_binding import Binding
    from tilewright.train.nano_folder import figures, write_nano
    from tilewright.train.pretrained import load_pretrained, read_config
    from tilewright.train.weights import weights_digest

    if not (shipped / "config.json").is_file():
        raise InputError(f"weights: wanted {config.weights} in this package, found none: its build has no weights")
    model = load_pretrained(NanoModel, read_config(NanoConfig, shipped), shipped, torch.float32)
    assert isinstance(model, NanoModel)
    if config.dimension != model.config.dimension:
        weights = model.binding.weights
        model.config.dimension = config.dimension
        model.binding = Binding(config.dimension)
        model.binding.weights.copy_(weights)
    of = "" if config.compression == 1 else f" for tiles compressed {config.compression:g} times"
    write_nano(model, folder, name=config.weights + of, card=figures(shipped), enlarge=math.sqrt(config.compression))
    return {
        "parameters": sum(parameter.numel() for parameter in model.parameters()),
        "dimension": model.config.dimension,
        "shipped_weights": weights_digest(shipped),
    }


STAGE = Stage("make_nano", Config, make_nano, schema=2)  # raised when what is shipped reads or binds otherwise

if __name__ == "__main__":
    main(STAGE)
