"""The published reader's presets: the recipe's numbers, one knob between them, data that belong to them."""

from pathlib import Path
from typing import Any

import pytest
import torch
import yaml
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

from tilewright.cli import find_stage
from tilewright.configs.load import load
from tilewright.train.adapters import LoraGroup, add_adapters, count_by_group
from tilewright.train.pixels import MIN_PIXELS, PixelPolicy
from tilewright.train.reader_cost import image_cost

CONFIGS = Path(__file__).parents[2] / "configs"
COMPRESSIONS = {"2x": [2.0], "3x": [3.0], "4x": [4.0], "universal": [1.0, 2.0, 3.0, 4.0, 5.0]}
READER_4B = PixelPolicy(MIN_PIXELS, 16_777_216)
TEXT_4B = {
    "hidden_size": 2560,
    "intermediate_size": 9728,
    "num_hidden_layers": 36,
    "num_attention_heads": 32,
    "num_key_value_heads": 8,
    "head_dim": 128,
    "vocab_size": 151936,
}
VISION_4B = {"depth": 24, "hidden_size": 1024, "intermediate_size": 4096, "num_heads": 16, "out_hidden_size": 2560}


def preset(name: str) -> dict[str, Any]:
    values: dict[str, Any] = yaml.safe_load((CONFIGS / f"train/train_reader/paper_{name}.yaml").read_text("utf-8"))
    return values


def data(name: str) -> Any:
    path = CONFIGS / f"mining/make_reader_data/paper_{name}.yaml"
    return load(path, find_stage("make_reader_data").config)


@pytest.mark.parametrize("name", COMPRESSIONS)
def test_a_preset_trains_on_data_at_its_compression(name: str) -> None:
    """And on nothing else: k from 1 to 6, each as often, as many validation questions as are held out."""
    reader, rows = (
        load(CONFIGS / f"train/train_reader/paper_{name}.yaml", find_stage("train_reader").config),
        data(name),
    )
    assert reader.examples == rows.out and reader.tiles == rows.tiles
    assert list(rows.compressions) == COMPRESSIONS[name] and rows.compression_weights is None
    assert rows.k_weights == (1.0,) * 6
    assert reader.validation_questions == rows.max_validation == 500


def test_presets_differ_in_their_data_alone() -> None:
    one, *others = (preset(name) for name in COMPRESSIONS)
    for other in others:
        assert {key for key in one if one[key] != other[key]} == {"out", "examples"} and one.keys() == other.keys()


def test_the_recipe_s_numbers() -> None:
    """Model, what is trained, tiles and tokens: as published; each other number says in its line that it isn't."""
    assert preset("2x")["model"] == "${runs}/models/Qwen3-VL-4B-Instruct"
    assert preset("2x")["adapters"].keys() == {"llm_attn", "vit_attn", "vit_mlp"}
    for name, sizes in (("2x", (618, 724, 437)), ("3x", (505, 591, 288)), ("4x", (437, 512, 224))):
        cost = image_cost(875, 1024, COMPRESSIONS[name][0], READER_4B)
        assert (cost.width_px, cost.height_px, cost.visual_tokens) == sizes
        head = (CONFIGS / f"mining/make_reader_data/paper_{name}.yaml").read_text("utf-8")
        assert f"{sizes[0]} x {sizes[1]} px and takes {sizes[2]} visual tokens" in head
    tokens = [image_cost(875, 1024, c, READER_4B).visual_tokens for c in COMPRESSIONS["universal"]]
    assert (tokens[0], tokens[-1], round(sum(tokens) / 5)) == (864, 168, 396)
    lines = (CONFIGS / "train/train_reader/paper_2x.yaml").read_text("utf-8").splitlines()
    for key in ("steps", "learning_rate", "warmup_steps", "weight_decay", "max_grad_norm"):
        assert "not published" in next(line for line in lines if line.startswith(f"{key}:"))


@pytest.mark.parametrize("name", ["2x", "universal"])
def test_six_full_tiles_fit_the_context_of_the_preset(name: str) -> None:
    longest = 6 * image_cost(875, 1024, COMPRESSIONS[name][0], READER_4B).visual_tokens
    assert longest + 512 <= preset(name)["max_tokens"]


def test_trainable_parameters_at_the_true_4b_shapes() -> None:
    vision = VISION_4B | {"deepstack_visual_indexes": [5, 11, 17]}
    with torch.device("meta"):
        model = Qwen3VLForConditionalGeneration(Qwen3VLConfig(text_config=TEXT_4B, vision_config=vision))
    groups = {name: LoraGroup(**group) for name, group in preset("4x")["adapters"].items()}
    counts = count_by_group(add_adapters(model, groups))
    assert counts["llm_attn"] == 36 * 32 * (2 * (2560 + 4096) + 2 * (2560 + 1024)) == 23_592_960
    assert counts["vit_attn"] + counts["vit_mlp"] == 12_582_912  # as the embedder's, recipe.md
    total = sum(counts.values())
    for name in COMPRESSIONS:
        assert f"{total:,} trainable" in (CONFIGS / f"train/train_reader/paper_{name}.yaml").read_text("utf-8")
