"""The tiny models: their size, what a folder holds, and that the same request gives the same bytes."""

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.data_gen.tile_store import write_store
from tilewright.train.encoder import load_encoder
from tilewright.train.make_tiny_model import TINY_NAME, Config, make_tiny_model
from tilewright.train.pixels import synthetic_image

torch.set_num_threads(1)
CONFIGS = Path(__file__).parents[2] / "configs" / "train" / "make_tiny_model"


def test_the_same_bytes_in_another_process(reader_parts: Any, tmp_path: Path) -> None:
    """The fixture's model, made again with another hash seed and several tokenizer threads."""
    program = (
        "import sys; from pathlib import Path; from tilewright.train.make_tiny_model import *\n"
        "tiles, out = Path(sys.argv[1]), Path(sys.argv[2])\n"
        "config = Config(out=out, embedder=Pixels(4096, 65536), reader=Pixels(4096, 65536), seed=3, tiles=tiles,"
        " vocab_size=512, hidden=64, layers=2, vision_hidden=64, vision_layers=2, deepstack=(0,))\n"
        "make_tiny_model(config, {'tiles': tiles}, out)"
    )
    environment = os.environ | {"PYTHONHASHSEED": "77", "TOKENIZERS_PARALLELISM": "true"}
    command = [sys.executable, "-c", program, str(reader_parts.tiles), str(tmp_path)]
    subprocess.run(command, check=True, env=environment, timeout=300)
    made = Path(reader_parts.model).parent
    assert output_digests(tmp_path) == output_digests(made)


@pytest.mark.parametrize("name", ["smoke", "quickstart"])
def test_the_shipped_sizes(reader_parts: Any, tmp_path: Path, name: str) -> None:
    config = load(CONFIGS / f"{name}.yaml", Config)
    state = torch.random.get_rng_state()
    counts = make_tiny_model(config, {"tiles": reader_parts.tiles}, tmp_path)
    assert torch.equal(torch.random.get_rng_state(), state)
    assert 1e6 <= counts["embedder_parameters"] <= 8e6
    assert 1e6 <= counts["reader_parameters"] <= 8e6
    for kind in ("embedder", "reader"):
        assert TINY_NAME in (tmp_path / kind / "README.md").read_text()
        entry = json.loads((tmp_path / kind / "config.json").read_text())
        assert entry["architectures"] == [
            {"embedder": "Qwen3VLModel", "reader": "Qwen3VLForConditionalGeneration"}[kind]
        ]
        assert entry["vision_config"]["deepstack_visual_indexes"]
        text = entry["text_config"]
        assert sum(text["rope_parameters"]["mrope_section"]) * 2 == text["head_dim"]
    encoder = load_encoder(tmp_path / "embedder")
    assert encoder.contract.base_model == TINY_NAME
    assert encoder.contract.last_token == "<|endoftext|>"
    assert encoder.contract.pixels.max_pixels == config.embedder.max_pixels
    tiles = encoder.encode_tiles([synthetic_image(875, 1024, seed) for seed in range(4)])
    texts = encoder.encode_queries([f"{word} of Angola" for word in ("capital", "river", "president", "coast")])
    for vectors in (tiles, texts):  # random weights, but not one vector for everything
        assert (vectors @ vectors.T - torch.eye(4)).max() < 0.995


def test_an_empty_corpus(tmp_path: Path) -> None:
    write_store(tmp_path / "tiles", [])
    config = load(CONFIGS / "smoke.yaml", Config)
    with pytest.raises(InputError, match="no text to train the tokenizer on"):
        make_tiny_model(config, {"tiles": tmp_path / "tiles"}, tmp_path)
