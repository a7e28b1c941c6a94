"""What reader training takes of a launcher: whole weights on every rank; what can't be right is refused."""

import os
from collections.abc import Mapping

from tilewright.configs.errors import InputError
from tilewright.train.launch import Launched, launched_as


def check_launch(environment: Mapping[str, str] = os.environ) -> Launched:
    """How the run was launched: plain or DDP (``replicated``), or DeepSpeed ZeRO-2.

    Raises InputError for a launcher that takes weights apart (a reader of 4 B parameters with adapters fits on one GPU,
    and validation generates on every rank), and for settings that the run's config has.
    """
    launched = launched_as(environment)
    if launched not in ("replicated", "zero2"):
        raise InputError(
            f"train_reader: wanted single.yaml, ddp.yaml or zero2.yaml of configs/accelerate, found {launched}, which"
            " takes weights apart: each rank generates answers at validation and needs them whole"
        )
    precision = environment.get("ACCELERATE_MIXED_PRECISION", "no")
    if precision != "no":
        raise InputError(f"accelerate's mixed_precision: wanted no (`precision` is the run's), found {precision}")
    return launched
