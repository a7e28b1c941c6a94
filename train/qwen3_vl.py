"""The Qwen3-VL adapter: loads the model and runs it on a batch. Its successors get a file like this one."""

import dataclasses
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tilewright.configs.errors import InputError
from tilewright.train.batch import Batch
from tilewright.train.linear_patch import linearise_patch_embedding
from tilewright.train.pixels import PixelPolicy, normalise

NAME = "qwen3_vl"
ARCHITECTURES = ("Qwen3VLModel", "Qwen3VLForConditionalGeneration")
_HEAD = {"Qwen3VLForConditionalGeneration": {"lm_head.weight"}}  # the embedder has no use for it


def read_config(folder: Path) -> Any:
    """The model's configuration. Raises InputError unless it is one of ARCHITECTURES."""
    from transformers import Qwen3VLConfig

    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: no config.json: wanted a save_pretrained folder")
    try:
        config = Qwen3VLConfig.from_pretrained(folder)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{folder / 'config.json'}: not a readable model configuration ({error})") from error
    found = config.architectures or []
    if len(found) != 1 or found[0] not in ARCHITECTURES:
        raise InputError(f"{folder / 'config.json'}: architectures: wanted one of {list(ARCHITECTURES)}, found {found}")
    return config


def load_model(folder: Path, dtype: torch.dtype) -> nn.Module:
    """The ``Qwen3VLModel`` of a folder, without a language-model head, patch embedding linear, in evaluation mode.

    Raises InputError unless every weight of the model is in the folder and every weight of the folder is used.
    """
    from transformers import Qwen3VLModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()  # a stage shows its own progress
    config = read_config(folder)
    model, report = Qwen3VLModel.from_pretrained(
        folder,
        config=config,
        dtype=dtype,
        output_loading_info=True,
        ignore_mismatched_sizes=True,  # they are reported, and are an error below
    )
    unexpected = set(report["unexpected_keys"]) - _HEAD.get(config.architectures[0], set())
    problems = {
        "missing": sorted(report["missing_keys"]),
        "unexpected": sorted(unexpected),
        "of another shape": sorted(str(key) for key in report["mismatched_keys"]),
    }
    if any(problems.values()):
        found = "; ".join(f"{len(keys)} {kind} (first: {keys[0]})" for kind, keys in problems.items() if keys)
        raise InputError(f"{folder}: weights don't match the model: {found}")
    linearise_patch_embedding(model)
    model.eval()
    return model  # type: ignore[no-any-return]


def hidden_states(model: nn.Module, batch: Batch, policy: PixelPolicy) -> Tensor:
    """Last hidden states [B, L, D] (after the final norm) of ``batch``, which lies on the model's device.

    Positions are always passed: the model's own rope state of an earlier forward is never read. Padding on the right
    needs no mask, since attention is causal.
    """
    inputs: dict[str, Any] = {}
    if batch.patches is not None:
        dtype = next(model.parameters()).dtype
        inputs = {"pixel_values": normalise(batch.patches, policy, dtype), "image_grid_thw": batch.grids}
    outputs = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask if batch.left_padded else None,
        position_ids=batch.position_ids,
        use_cache=False,
        **inputs,
    )
    return outputs.last_hidden_state  # type: ignore[no-any-return]


@dataclasses.dataclass(frozen=True)
class Dimensions:
    """What the encoder needs to know of a model."""

    hidden: int
    vocabulary: int
    image_token_id: int
    patch_size: int
    merge_size: int
    temporal_patch_size: int


def dimensions(config: Any) -> Dimensions:
    """The Dimensions of a Qwen3VLConfig."""
    vision = config.vision_config
    return Dimensions(
        hidden=config.text_config.hidden_size,
        vocabulary=config.text_config.vocab_size,
        image_token_id=config.image_token_id,
        patch_size=vision.patch_size,
        merge_size=vision.spatial_merge_size,
        temporal_patch_size=vision.temporal_patch_size,
    )
