"""A model of a ``save_pretrained`` folder, refused unless its weights are exactly the model's."""

from collections.abc import Collection
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tilewright.configs.errors import InputError
from tilewright.train.linear_patch import linearise_patch_embedding
from tilewright.train.vision_attention import batch_vision_attention

COUNTS = ("hidden_size", "num_attention_heads", "num_key_value_heads", "num_heads", "patch_size", "spatial_merge_size")
"""Sizes of a configuration by which others are divided."""


def cast_weights(model: nn.Module, dtype: torch.dtype) -> None:
    """Make what is stored of ``model`` a ``dtype``, in place; whole numbers, and buffers that aren't stored, stay.

    ``model.to`` would round those too, such as the frequencies of rotary positions, which loading leaves in float32.
    """
    for weight in model.state_dict(keep_vars=True).values():
        if weight.is_floating_point():
            weight.data = weight.data.to(dtype)


def read_config(config_class: Any, folder: Path) -> Any:
    """The folder's configuration as a ``config_class`` of transformers. Raises InputError if it can't be read."""
    path = folder / "config.json"
    try:
        config = config_class.from_pretrained(folder)
    except (OSError, ValueError, TypeError, KeyError, AttributeError, ZeroDivisionError) as error:
        raise InputError(f"{path}: not a readable model configuration ({error})") from error
    for part in (config, *(getattr(config, name) for name in config.sub_configs)):
        for name in COUNTS:
            value = getattr(part, name, 1)
            if type(value) is not int or value < 1:
                raise InputError(f"{path}: {name}: wanted a whole number of at least 1, found {value!r}")
    return config


def load_pretrained(
    model_class: Any, config: Any, folder: Path, dtype: torch.dtype, unused: Collection[str] = ()
) -> nn.Module:
    """The ``model_class`` of a folder, patch embedding linear, images of a size seen together, in evaluation mode.

    ``unused`` names weights that the folder may hold and the model has no use for, such as a language-model head.
    Raises InputError unless every weight of the model is in the folder and every other weight of the folder is used.
    """
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # a stage shows its own progress
    model, report = model_class.from_pretrained(
        folder,
        config=config,
        dtype=dtype,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are reported, and are an error below
    )
    problems = {
        "missing": sorted(report["missing_keys"]),
        "unexpected": sorted(set(report["unexpected_keys"]) - set(unused)),
        "of another shape": sorted(str(key) for key in report["mismatched_keys"]),
    }
    if any(problems.values()):
        found = "; ".join(f"{len(keys)} {kind} (first: {keys[0]})" for kind, keys in problems.items() if keys)
        raise InputError(f"{folder}: weights don't match the model: {found}")
    linearise_patch_embedding(model)
    batch_vision_attention(model)
    model.eval()
    return model  # type: ignore[no-any-return]
