"""The Qwen3-VL family: how its model is loaded and run. A successor is one file like this, given to ``families``."""

from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from tilewright.train.batch import Batch
from tilewright.train.model_sizes import ModelSizes
from tilewright.train.pixels import PixelPolicy, normalised_frames
from tilewright.train.pretrained import load_pretrained, read_config
from tilewright.train.qwen_family import QwenFamily

EMBEDDER, GENERATOR = "Qwen3VLModel", "Qwen3VLForConditionalGeneration"


def sizes(folder: Path) -> ModelSizes:
    """What the encoder needs to know of the folder's model. Raises InputError for an unreadable configuration."""
    from transformers import Qwen3VLConfig

    config = read_config(Qwen3VLConfig, folder)
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
    """The ``Qwen3VLModel`` of a folder, without a language-model head. Raises InputError as ``load_pretrained``."""
    from transformers import Qwen3VLConfig, Qwen3VLModel

    config: Any = read_config(Qwen3VLConfig, folder)
    head = ("lm_head.weight",) if config.architectures == [GENERATOR] else ()
    return load_pretrained(Qwen3VLModel, config, folder, dtype, unused=head)


def hidden_states(model: nn.Module, batch: Batch, policy: PixelPolicy) -> Tensor:
    """Last hidden states [B, L, D] (after the final norm) of ``batch``, which lies on the model's device.

    Positions are always passed: the model's own rope state of an earlier forward is never read. Padding on the right
    needs no mask, since attention is causal.
    """
    inputs: dict[str, Any] = {}
    if batch.patches is not None:
        dtype = next(model.parameters()).dtype
        inputs = {"pixel_values": normalised_frames(batch.patches, policy, dtype), "image_grid_thw": batch.grids}
    outputs = model(
        input_ids=batch.input_ids,
        attention_mask=batch.attention_mask if batch.left_padded else None,
        position_ids=batch.position_ids,
        use_cache=False,
        **inputs,
    )
    return outputs.last_hidden_state  # type: ignore[no-any-return]


FAMILY = QwenFamily(
    NAME="qwen3_vl",
    MODEL_TYPE="qwen3_vl",
    ARCHITECTURES=(EMBEDDER, GENERATOR),
    sizes=sizes,
    load_model=load_model,
    hidden_states=hidden_states,
)
