"""Checkpoints of nano: what goes round, what is refused."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from tilewright.configs.errors import InputError
from tilewright.train.encoder import load_encoder, save_encoder
from tilewright.train.encoder_io import HALF_PROBE_COSINE, PROBE_COSINE, wanted_cosine
from tilewright.train.nano import VISION
from tilewright.train.pixels import synthetic_image

torch.set_num_threads(1)
IMAGES = [synthetic_image(300, 220), synthetic_image(90, 400, 1)]
TEXTS = ["Who?", "height of the Matterhorn, in metres"]


def test_a_checkpoint_is_loaded_in_half_precision(nano_folder: Path, tmp_path: Path) -> None:
    """Its probes, pictures without writing, are held to ``HALF_PROBE_COSINE``; those of other signs are refused."""
    save_encoder(load_encoder(nano_folder), tmp_path / "checkpoint")
    assert wanted_cosine(load_encoder(tmp_path / "checkpoint")) == PROBE_COSINE
    half = load_encoder(tmp_path / "checkpoint", dtype=torch.bfloat16)
    assert wanted_cosine(half) == HALF_PROBE_COSINE
    np.save(tmp_path / "checkpoint" / "probes.npy", np.load(tmp_path / "checkpoint" / "probes.npy")[:, ::-1])
    with pytest.raises(InputError, match=r"lowest probe cosine .* wanted at least 0\.995"):
        load_encoder(tmp_path / "checkpoint", dtype=torch.bfloat16)


def test_checkpoints_go_round(nano_folder: Path, tmp_path: Path) -> None:
    encoder = load_encoder(nano_folder, dimension=128)
    with torch.no_grad():
        encoder.model.get_buffer("binding.weights").mul_(1.5)
    with pytest.raises(InputError, match="changed since it was loaded"):
        _ = encoder.hash
    saved = save_encoder(encoder, tmp_path / "checkpoint")
    loaded = load_encoder(tmp_path / "checkpoint")
    assert loaded.hash == saved == encoder.hash and loaded.contract == encoder.contract
    assert torch.equal(loaded.encode_tiles(IMAGES), encoder.encode_tiles(IMAGES))
    assert torch.equal(loaded.encode_queries(TEXTS), encoder.encode_queries(TEXTS))
    assert save_encoder(loaded, tmp_path / "again") == saved
    card = " ".join((tmp_path / "checkpoint" / "README.md").read_text().split())
    assert "lexical reader" in card and "no substitute for Qwen3-VL-Embedding" in card


def _edit(name: str, **changes: Any) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        data = json.loads((folder / name).read_text())
        part = data.get("tilewright_pixel_policy", data)
        part.update(changes)
        (folder / name).write_text(json.dumps(data))

    return edit


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_edit("preprocessor_config.json", enlarge=2.0), r"pixels\.enlarge: stored 1\.0, found 2\.0"),
        (_edit("preprocessor_config.json", temporal_patch_size=1), "patch, merge, frames and fit"),
        (_edit("preprocessor_config.json", fit="crop"), "fit and enlarge: wanted 'resize' or 'pad'"),
        (_edit("preprocessor_config.json", side=3), r"unknown keys \['side'\]"),
        (lambda folder: (folder / "preprocessor_config.json").unlink(), "wanted a JSON object with tilewright_pixel"),
        (_edit("config.json", dimension=512), r"weights don't match the model: 1 of another shape"),
        (_edit("config.json", dimension=128), "dimension: wanted 64 to 128, found 256"),
        (
            _edit("config.json", window_rows=12),
            r"pooling: stored '[a-z ]+', found '[a-z ]+, windows of 12 x 30 patches",
        ),
        (_edit("config.json", window_overlap=18), r"window_overlap: wanted .* found \(18, 30, 18\)"),
        (_edit("config.json", window_columns="x"), r"window_columns.*: wanted whole numbers"),
        (_edit("config.json", vision_config=VISION | {"num_heads": 0}), r"heads: wanted .* at least 1, found 0"),
    ],
)
def test_a_spoilt_checkpoint(nano_folder: Path, tmp_path: Path, spoil: Callable[[Path], None], message: str) -> None:
    save_encoder(load_encoder(nano_folder), tmp_path / "checkpoint")
    spoil(tmp_path / "checkpoint")
    with pytest.raises(InputError, match=message):
        load_encoder(tmp_path / "checkpoint")


def test_the_alphabet_is_part_of_the_contract(nano_folder: Path, tmp_path: Path) -> None:
    encoder = load_encoder(nano_folder)
    save_encoder(encoder, tmp_path / "checkpoint")
    assert len(encoder.contract.tokenizer) == 64
    other = tmp_path / "checkpoint" / "encoder.json"
    other.write_text(other.read_text().replace(encoder.contract.tokenizer, "0" * 64))
    with pytest.raises(InputError, match="contract and hash don't belong together"):
        load_encoder(tmp_path / "checkpoint")


def test_a_folder_of_weights_that_lack_the_binding(nano_folder: Path, tmp_path: Path) -> None:
    from safetensors.torch import load_file, save_file

    folder = Path(shutil.copytree(nano_folder, tmp_path / "base"))
    weights = load_file(folder / "model.safetensors")
    del weights["binding.weights"]
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})
    with pytest.raises(InputError, match=r"weights don't match the model: 1 missing \(first: binding\.weights\)"):
        load_encoder(folder)
