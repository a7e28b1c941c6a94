"""Nano's folders: what is written, and the stage that makes one of shipped weights."""

from pathlib import Path

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file

from tilewright.configs.errors import InputError
from tilewright.configs.load import ConfigError, load
from tilewright.train.encoder import load_encoder
from tilewright.train.make_nano import Config, write_from
from tilewright.train.nano import NanoModel
from tilewright.train.nano_folder import figures, write_nano
from tilewright.train.pixels import synthetic_image
from tilewright.train.weights import weights_digest

torch.set_num_threads(1)
TEXTS = ["Who?", "In which year was the physicist Anders Ångström born?"]
IMAGES = [synthetic_image(120, 90), synthetic_image(203, 151, 1)]


@pytest.fixture(scope="module")
def shipped(random_nano: NanoModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("shipped") / "nano"
    write_nano(random_nano, folder, name="nano", card="Reads nothing: 0 of 10 characters.\n")
    return folder


def test_a_folder_is_small_and_leaves_the_model_alone(random_nano: NanoModel, shipped: Path) -> None:
    assert sorted(path.name for path in shipped.iterdir()) == [
        "README.md",
        "config.json",
        "model.safetensors",
        "preprocessor_config.json",
    ]
    stored = load_file(shipped / "model.safetensors")
    assert {value.dtype for name, value in stored.items() if name != "binding.signs"} == {torch.bfloat16}
    assert stored["binding.signs"].dtype == torch.int8
    assert {parameter.dtype for parameter in random_nano.parameters()} == {torch.float32}
    for name, weight in random_nano.state_dict().items():
        assert torch.equal(stored[name], weight if name == "binding.signs" else weight.bfloat16()), name
    encoder = load_encoder(shipped)
    assert {parameter.dtype for parameter in encoder.model.parameters()} == {torch.float32}
    assert encoder.contract.base_model == "nano"


def test_the_card_says_what_it_is(random_nano: NanoModel, shipped: Path) -> None:
    card = (shipped / "README.md").read_text()
    plain = " ".join(card.split())
    assert "lexical reader" in plain and "no substitute for Qwen3-VL-Embedding" in plain
    assert f"{sum(p.numel() for p in random_nano.parameters()):,} parameters" in plain
    assert "vectors of 256 dimensions" in plain
    assert figures(shipped) == "Reads nothing: 0 of 10 characters."


def test_compressed_tiles_are_enlarged_back(shipped: Path, tmp_path: Path) -> None:
    """The folder for 4 times sees a tile of half the sides as the shipped one sees it enlarged."""
    counts = write_from(shipped, Config(tmp_path, "nano", compression=4, dimension=256), tmp_path / "embedder")
    compressed, plain = load_encoder(tmp_path / "embedder"), load_encoder(shipped)
    assert compressed.contract.pixels.enlarge == 2
    assert compressed.contract.base_model == "nano for tiles compressed 4 times"
    large = [image.resize((2 * image.width, 2 * image.height), Image.Resampling.BICUBIC) for image in IMAGES]
    torch.testing.assert_close(compressed.encode_tiles(IMAGES), plain.encode_tiles(large))
    assert torch.equal(compressed.encode_queries(TEXTS), plain.encode_queries(TEXTS))
    assert compressed.tokens(437, 512) == plain.tokens(874, 1024)
    assert counts == {
        "parameters": sum(parameter.numel() for parameter in plain.model.parameters()),
        "dimension": 256,
        "shipped_weights": weights_digest(shipped),
    }
    assert figures(tmp_path / "embedder") == figures(shipped)


def test_the_same_weights_make_the_same_encoder(shipped: Path, tmp_path: Path) -> None:
    write_from(shipped, Config(tmp_path, "nano", dimension=256), tmp_path / "embedder")
    assert load_encoder(tmp_path / "embedder").hash == load_encoder(shipped).hash


def test_another_dimension_binds_anew(shipped: Path, tmp_path: Path) -> None:
    """Cosines of texts are near those of other signs; weights of trigrams stay."""
    assert Config(tmp_path, "nano").dimension == 4096
    counts = write_from(shipped, Config(tmp_path, "nano", dimension=1024), tmp_path / "embedder")
    wide, plain = load_encoder(tmp_path / "embedder"), load_encoder(shipped)
    assert counts["dimension"] == wide.dimension == 1024
    assert torch.equal(wide.model.get_buffer("binding.weights"), plain.model.get_buffer("binding.weights"))
    found, other = wide.encode_queries(TEXTS), plain.encode_queries(TEXTS)
    assert found.shape == (2, 1024)
    assert abs(float(found[0] @ found[1]) - float(other[0] @ other[1])) < 0.3


def test_weights_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="weights: wanted nano-full in this package, found none"):
        write_from(tmp_path / "nano-full", Config(tmp_path, "nano-full"), tmp_path / "embedder")


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("compression: 0.5", "compression: wanted at least 1, found 0.5"),
        ("dimension: 32", "dimension: wanted at least 64, found 32"),
        ("weights: nano-half", "nano-half"),
    ],
)
def test_a_config_that_cant_be(tmp_path: Path, line: str, message: str) -> None:
    path = tmp_path / "c.yaml"
    weights = "" if line.startswith("weights") else "weights: nano\n"
    path.write_text(f"kind: stage\nout: {tmp_path / 'out'}\n{weights}{line}\n")
    with pytest.raises(ConfigError, match=message):
        load(path, Config)
