"""Stage: tiny models of the real architecture with random weights, an embedder and a reader, to train on a CPU."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tilewright.configs.stage import Counts, Inputs, Stage, input_path, main
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.pixels import PixelPolicy, image_processor_of
from tilewright.train.tokenizer import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START, train_tokenizer

TINY_NAME = "tiny random weights"
_CARD = """\
---
model_name: {name}
---
# {title}

A stand-in of the Qwen3-VL architecture with {parameters:,} parameters: tiny, random weights (seed {seed}), untrained.
Its tokenizer is a byte-level BPE trained on {tiles} tiles' text. It exists to run and test a pipeline, not to be used.
"""


@dataclass(frozen=True)
class Pixels:
    """Pixel limits of a model's image processor."""

    min_pixels: int
    max_pixels: int


@dataclass(frozen=True)
class Config:
    """A tiny embedder and a tiny reader. ``tiles``: the tile store whose text the tokenizer is trained on.

    ``hidden`` is the width of the language model and so the vector's length; ``layers`` its depth; the vision tower
    has ``vision_hidden`` and ``vision_layers``, its deepstack is taken after the layers ``deepstack``.
    ``initializer_range``: standard deviation of the random weights (a tiny model learns sooner with more than 0.02).
    """

    out: Path
    embedder: Pixels
    reader: Pixels
    seed: int
    tiles: Path = input_path()
    vocab_size: int = 4096
    hidden: int = 256
    layers: int = 2
    vision_hidden: int = 128
    vision_layers: int = 3
    deepstack: tuple[int, ...] = (1,)
    initializer_range: float = 0.02


def make_tiny_model(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write ``embedder/`` and ``reader/``, ordinary ``save_pretrained`` folders; return their parameter counts."""
    from transformers import Qwen3VLForConditionalGeneration, Qwen3VLModel
    from transformers.utils.logging import disable_progress_bar

    disable_progress_bar()
    store = TileStore.open(inputs["tiles"])
    kinds: tuple[tuple[str, Any, Pixels], ...] = (
        ("embedder", Qwen3VLModel, config.embedder),
        ("reader", Qwen3VLForConditionalGeneration, config.reader),
    )
    counts: Counts = {"tiles": len(store)}
    for name, kind, pixels in kinds:
        tokenizer = train_tokenizer(_texts(store), config.vocab_size, append_end=name == "embedder")
        model = random_model(kind, tiny_config(config, tokenizer), config.seed)
        folder = out / name
        model.save_pretrained(folder)  # type: ignore[operator]
        tokenizer.save_pretrained(folder)
        image_processor_of(PixelPolicy(pixels.min_pixels, pixels.max_pixels)).save_pretrained(folder)
        parameters = sum(parameter.numel() for parameter in model.parameters())
        card = {"name": TINY_NAME, "title": f"Tiny random {name}", "seed": config.seed, "tiles": len(store)}
        (folder / "README.md").write_text(_CARD.format(parameters=parameters, **card), encoding="utf-8")
        counts |= {f"{name}_parameters": parameters, f"{name}_vocabulary": len(tokenizer)}
    return counts


def _texts(store: TileStore) -> Iterator[str]:
    for tile in store.iterate_light():
        yield tile.text


def tiny_config(config: Config, tokenizer: Any) -> Any:
    """The Qwen3VLConfig of a tiny model whose vocabulary is that of ``tokenizer``, rounded up to 64."""
    from transformers import Qwen3VLConfig

    ids = {name: tokenizer.convert_tokens_to_ids(name) for name in (IMAGE_PAD, VIDEO_PAD, VISION_START, VISION_END)}
    text = {
        "vocab_size": -(-len(tokenizer) // 64) * 64,
        "hidden_size": config.hidden,
        "intermediate_size": 2 * config.hidden,
        "num_hidden_layers": config.layers,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "initializer_range": config.initializer_range,
        "max_position_embeddings": 32768,
        "pad_token_id": tokenizer.pad_token_id,
        "eos_token_id": tokenizer.eos_token_id,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "mrope_section": [12, 10, 10],
            "mrope_interleaved": True,
        },
    }
    vision = {
        "depth": config.vision_layers,
        "hidden_size": config.vision_hidden,
        "intermediate_size": 3 * config.vision_hidden,
        "num_heads": 4,
        "out_hidden_size": config.hidden,
        "num_position_embeddings": 1024,
        "deepstack_visual_indexes": list(config.deepstack),
        "initializer_range": config.initializer_range,
    }
    return Qwen3VLConfig(
        text_config=text,
        vision_config=vision,
        image_token_id=ids[IMAGE_PAD],
        video_token_id=ids[VIDEO_PAD],
        vision_start_token_id=ids[VISION_START],
        vision_end_token_id=ids[VISION_END],
        tie_word_embeddings=True,
    )


def random_model(kind: Any, config: Any, seed: int) -> nn.Module:
    """A model with weights drawn from ``seed``; the global random state is left as it was."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: nn.Module = kind(config)
    return model.eval()


STAGE = Stage("make_tiny_model", Config, make_tiny_model, schema=1)

if __name__ == "__main__":
    main(STAGE)
