"""Qwen3-VL at its true 2B shapes with random weights, and random inputs of a step: nothing is read or decoded."""

import dataclasses
from typing import Any

import torch
from torch import nn
from transformers import Qwen3VLConfig, Qwen3VLModel

from tilewright.train.adapters import LoraGroup, add_adapters
from tilewright.train.batch import Batch, positions
from tilewright.train.linear_patch import linearise_patch_embedding
from tilewright.train.step_inputs import StepInputs

TEXT_2B: dict[str, Any] = {
    "hidden_size": 2048,
    "num_hidden_layers": 28,
    "num_attention_heads": 16,
    "num_key_value_heads": 8,
}
TEXT_2B |= {"head_dim": 128, "intermediate_size": 6144, "vocab_size": 151_936}
VISION_2B: dict[str, Any] = {
    "hidden_size": 1024,
    "depth": 24,
    "intermediate_size": 4096,
    "out_hidden_size": 2048,
    "num_heads": 16,
}
VISION_2B |= {"deepstack_visual_indexes": [5, 11, 17]}
TEXT_TINY = TEXT_2B | {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1}
TEXT_TINY |= {"intermediate_size": 128}
VISION_TINY: dict[str, Any] = {
    "hidden_size": 32,
    "depth": 3,
    "intermediate_size": 64,
    "out_hidden_size": 64,
    "num_heads": 2,
}
VISION_TINY |= {"deepstack_visual_indexes": [1]}
BEFORE, AFTER, QUERY = 16, 9, 32  # tokens of a tile's prompt before and after the picture, and of a query's


@dataclasses.dataclass(frozen=True)
class Scale:
    """What is trained on: model shapes, a tile's grid in patches, sizes of batch and chunks, the LoRA rank."""

    text: dict[str, Any]
    vision: dict[str, Any]
    grid: tuple[int, int]
    batch: int
    chunks: tuple[int, ...]
    rank: int
    steps: int


FULL = Scale(TEXT_2B, VISION_2B, (64, 54), 64, (4, 8, 16), 32, 3)  # 875 x 1024 px -> 864 x 1024
TINY = Scale(TEXT_TINY, VISION_TINY, (4, 4), 8, (4,), 4, 2)


def make_model(scale: Scale, device: torch.device) -> nn.Module:
    """The frozen model in bfloat16 with float32 adapters, ready to train."""
    config = Qwen3VLConfig(text_config=scale.text, vision_config=scale.vision)
    with torch.device(device):
        model = Qwen3VLModel._from_config(config, dtype=torch.bfloat16)
    linearise_patch_embedding(model)
    group = LoraGroup(scale.rank, scale.rank)
    model = add_adapters(model, {"llm_attn": group, "vit_attn": group, "vit_mlp": group})
    model.train()
    return model


def make_batch(rows: list[list[int]], image_token: int, scale: Scale | None, device: torch.device) -> Batch:
    """Rows of one length as a batch; ``scale``: each with a picture of random patches."""
    rows_and_columns = None if scale is None else (scale.grid[0] // 2, scale.grid[1] // 2)
    patches = grids = None
    if scale is not None:
        patches = torch.randint(0, 256, (len(rows) * scale.grid[0] * scale.grid[1], 768), dtype=torch.uint8)
        patches = patches.pin_memory() if device.type == "cuda" else patches
        grids = torch.tensor([(1, *scale.grid)] * len(rows))
    ids = torch.tensor(rows)
    return Batch(
        input_ids=ids,
        attention_mask=torch.ones_like(ids),
        position_ids=torch.stack([positions(row, image_token, rows_and_columns) for row in rows], 1),
        pooled=torch.full((len(rows),), len(rows[0]) - 1),
        patches=patches,
        grids=grids,
        image_rows=tuple(range(len(rows))) if scale is not None else (),
        left_padded=False,
    )


def make_inputs(scale: Scale, image_token: int, device: torch.device) -> StepInputs:
    """A step's queries and tiles, random."""
    visual, draw = scale.grid[0] * scale.grid[1] // 4, torch.Generator().manual_seed(0)

    def text(count: int) -> list[int]:
        return torch.randint(0, 1000, (count,), generator=draw).tolist()

    tiles = [text(BEFORE) + [image_token] * visual + text(AFTER) for _ in range(scale.batch)]
    queries = [text(QUERY) for _ in range(scale.batch)]
    return StepInputs(
        step=0,
        examples=scale.batch,
        queries=make_batch(queries, image_token, None, device),
        tiles=make_batch(tiles, image_token, scale, device),
        query_counts=[scale.batch],
        tile_counts=[scale.batch],
        positive=torch.arange(scale.batch),
        ignore=torch.zeros(scale.batch, scale.batch, dtype=torch.bool),
        with_images=True,
        visual_tokens=visual * scale.batch,
    )
