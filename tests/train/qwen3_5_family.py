"""Qwen3.5 as a model family: what a successor of Qwen3-VL takes, one file. Used by the tests of families alone."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tilewright.train.batch import Batch
from tilewright.train.model_sizes import ModelSizes
from tilewright.train.pixels import PixelPolicy, normalise
from tilewright.train.pretrained import load_pretrained, read_config
from tilewright.train.qwen_family import QwenFamily


def sizes(folder: Path) -> ModelSizes:
    from transformers import Qwen3_5Config

    config = read_config(Qwen3_5Config, folder)
    vision = config.vision_config
    return ModelSizes(
        hidden=config.text_config.hidden_size,
        vocabulary=config.text_config.vocab_size,
        image_token_id=config.image_token_id,
        patch_size=vision.patch_size,
        merge_size=vision.spatial_merge_size,
        temporal_patch_size=vision.temporal_patch_size,
    )


def load_model(folder: Path, dtype: torch.dtype) -> nn.Module:
    from transformers import Qwen3_5Config, Qwen3_5Model

    config = read_config(Qwen3_5Config, folder)
    return load_pretrained(Qwen3_5Model, config, folder, dtype, unused=("lm_head.weight",))


def hidden_states(model: nn.Module, batch: Batch, policy: PixelPolicy) -> Tensor:
    """Unlike Qwen3-VL it always gets the mask: without it, its linear attention reads padding on the left."""
    inputs: dict[str, Any] = {}
    if batch.patches is not None:
        dtype = next(model.parameters()).dtype
        inputs = {"pixel_values": normalise(batch.patches, policy, dtype), "image_grid_thw": batch.grids}
    outputs = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask,
        position_ids=batch.position_ids,
        use_cache=False,
        **inputs,
    )
    return outputs.last_hidden_state  # type: ignore[no-any-return]


FAMILY = QwenFamily(
    NAME="qwen3_5",
    MODEL_TYPE="qwen3_5",
    ARCHITECTURES=("Qwen3_5Model", "Qwen3_5ForConditionalGeneration"),
    sizes=sizes,
    load_model=load_model,
    hidden_states=hidden_states,
)
