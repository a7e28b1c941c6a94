"""Model families: found by config.json, and a second real one (Qwen3.5) by a file of its own."""

import importlib.util
import json
import shutil
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch
from torch.nn import functional as F

from tilewright.configs.errors import InputError
from tilewright.train import families, qwen3_vl
from tilewright.train.encoder import Encoder, load_encoder, save_encoder
from tilewright.train.make_tiny_model import random_model
from tilewright.train.pixels import synthetic_image

torch.set_num_threads(1)
TEXTS = ["Who?", "In which year was the physicist Anders Ångström born?", "height of the Matterhorn, in metres"]
IMAGES = [synthetic_image(300, 220), synthetic_image(90, 400, 1), synthetic_image(64, 64, 2)]


@pytest.fixture(scope="session")
def successor() -> ModuleType:
    """The family of ``qwen3_5_family.py``, registered."""
    spec = importlib.util.spec_from_file_location("qwen3_5_family", Path(__file__).with_name("qwen3_5_family.py"))
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    families.register(module.FAMILY)
    return module


@pytest.fixture(scope="session")
def folder(successor: ModuleType, reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny random Qwen3.5 model with the tokenizer and image processor of the tiny Qwen3-VL one."""
    from transformers import Qwen3_5Config, Qwen3_5Model

    path = tmp_path_factory.mktemp("successor") / "base"
    shutil.copytree(Path(reader_parts.model).parent / "embedder", path)
    config = json.loads((path / "config.json").read_text())
    (path / "model.safetensors").unlink()
    tokens = {name: config[f"{name}_token_id"] for name in ("image", "video", "vision_start", "vision_end")}
    text = {
        "vocab_size": config["text_config"]["vocab_size"],
        "hidden_size": 64,
        "intermediate_size": 128,
        "num_hidden_layers": 4,  # three of linear attention, one of full attention
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "head_dim": 64,
        "linear_key_head_dim": 16,
        "linear_value_head_dim": 16,
        "linear_num_key_heads": 2,
        "linear_num_value_heads": 4,
        "rope_parameters": {
            "rope_type": "default",
            "rope_theta": 10000.0,
            "partial_rotary_factor": 0.5,
            "mrope_section": [6, 5, 5],
            "mrope_interleaved": True,
        },
    }
    vision = {"depth": 2, "hidden_size": 64, "intermediate_size": 128, "num_heads": 4, "out_hidden_size": 64}
    made = Qwen3_5Config(
        text_config=text,
        vision_config=vision | {"num_position_embeddings": 1024},
        **{f"{name}_token_id": token for name, token in tokens.items()},
    )
    random_model(Qwen3_5Model, made, 5).save_pretrained(path)  # type: ignore[operator]
    return path


@pytest.fixture(scope="module")
def encoder(folder: Path) -> Encoder:
    return load_encoder(folder)


def _vectors(encoder: Encoder) -> torch.Tensor:
    return torch.cat([encoder.encode_queries(TEXTS, [None, IMAGES[0], None]), encoder.encode_tiles(IMAGES)])


def test_a_successor_goes_all_the_way(encoder: Encoder, folder: Path, tmp_path: Path) -> None:
    assert encoder.contract.adapter == "qwen3_5"
    assert type(encoder.model).__name__ == "Qwen3_5Model"
    vectors = _vectors(encoder)
    torch.testing.assert_close(vectors.norm(dim=1), torch.ones(len(vectors)))
    saved = save_encoder(encoder, tmp_path / "checkpoint")
    loaded = load_encoder(tmp_path / "checkpoint")
    assert loaded.hash == saved
    assert torch.equal(_vectors(loaded), vectors)


def test_a_successor_learns_with_adapters(folder: Path, tmp_path: Path) -> None:
    import peft

    encoder = load_encoder(folder)
    targets = ["language_model.layers.3.self_attn.q_proj", "visual.blocks.0.attn.qkv"]
    encoder.model = peft.get_peft_model(encoder.model, peft.LoraConfig(r=2, target_modules=targets))
    encoder.forward(encoder.tile_batch(IMAGES)).sum().backward()
    gradients = {name: p.grad for name, p in encoder.model.named_parameters() if "lora_B" in name}
    assert len(gradients) == 2 and all(value is not None and value.abs().sum() > 0 for value in gradients.values())
    saved = save_encoder(encoder, tmp_path / "lora")
    assert load_encoder(tmp_path / "lora", base_folder=folder).hash == saved


def test_a_successor_equals_transformers(encoder: Encoder, folder: Path) -> None:
    """Its model on our ids and transformers' own pixels, positions and convolution."""
    from transformers import Qwen2VLImageProcessorPil, Qwen3_5Model

    model = Qwen3_5Model.from_pretrained(folder).eval()
    processor = Qwen2VLImageProcessorPil.from_pretrained(folder)
    token = encoder.batcher.rows.tokenizer.ids["<|image_pad|>"]
    for image, vector in zip(IMAGES, encoder.encode_tiles(IMAGES), strict=True):
        batch = encoder.tile_batch([image])
        with torch.no_grad():
            hidden = model(
                input_ids=batch.input_ids,
                attention_mask=batch.attention_mask,
                mm_token_type_ids=(batch.input_ids == token).int(),
                **processor([image], return_tensors="pt"),
            ).last_hidden_state
        assert F.cosine_similarity(hidden[0, -1], vector, dim=0) >= 0.99999


def test_a_successors_padding_and_order_change_nothing(encoder: Encoder) -> None:
    vectors = encoder.encode_queries(TEXTS)
    for padding in ("left", "right"):
        with torch.no_grad():
            found = encoder.forward(encoder.batcher.queries(TEXTS, padding=padding))  # type: ignore[arg-type]
        assert F.cosine_similarity(found, vectors).min() >= 0.99999
    alone = torch.cat([encoder.encode_queries([text]) for text in TEXTS])
    assert F.cosine_similarity(alone, vectors).min() >= 0.99999


def test_families_are_found_by_config(folder: Path, reader_parts: Any, tmp_path: Path) -> None:
    assert families.of_folder(Path(reader_parts.model)) is qwen3_vl.FAMILY
    assert families.of_folder(folder).NAME == "qwen3_5"
    (tmp_path / "config.json").write_text('{"model_type": "qwen3_vl"}')  # without architectures
    assert families.of_folder(tmp_path) is qwen3_vl.FAMILY


@pytest.mark.parametrize(
    "config",
    [
        {"model_type": "bert", "architectures": ["BertModel"]},
        {"model_type": "qwen3_vl", "architectures": ["Qwen3VLMoeModel"]},
        {"model_type": "bert", "architectures": ["Qwen3VLModel"]},
        {"model_type": "qwen3_vl", "architectures": ["Qwen3VLModel", "Qwen3VLForConditionalGeneration"]},
        {},
    ],
)
def test_an_unknown_architecture_is_refused_with_the_known_names(config: dict[str, Any], tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(json.dumps(config))
    found = f"found {config.get('model_type')!r} and {config.get('architectures')}"
    with pytest.raises(InputError, match=r"wanted one of .*Qwen3VLModel.*Qwen3VLForConditionalGeneration") as error:
        load_encoder(tmp_path)
    assert found in str(error.value)


@pytest.mark.parametrize("text", ["{", "[]", "3"])
def test_an_unreadable_config(text: str, tmp_path: Path) -> None:
    (tmp_path / "config.json").write_text(text)
    with pytest.raises(InputError, match=r"config\.json: not a readable model configuration"):
        families.of_folder(tmp_path)


def test_a_checkpoint_of_an_unknown_family(reader_parts: Any) -> None:
    with pytest.raises(InputError, match=r"model family: wanted one of \['nano', 'qwen3_.*found 'qwen9'"):
        families.by_name("qwen9")


def test_names_are_taken_once() -> None:
    with pytest.raises(ValueError, match="already belong to family qwen3_vl"):
        families.register(qwen3_vl.FAMILY)


def test_an_instruct_checkpoint_is_a_start(reader_parts: Any, tmp_path: Path) -> None:
    """It has a head (here tied to the embedding) and appends no token: the generation prompt's last one is pooled."""
    encoder = load_encoder(Path(reader_parts.model))
    assert encoder.contract.adapter == "qwen3_vl"
    assert type(encoder.model).__name__ == "Qwen3VLModel"
    assert encoder.contract.last_token == "Ċ"  # the newline, as a byte-level token
    vectors = _vectors(encoder)
    saved = save_encoder(encoder, tmp_path / "checkpoint")
    loaded = load_encoder(tmp_path / "checkpoint")
    assert loaded.hash == saved and torch.equal(_vectors(loaded), vectors)
    assert json.loads((tmp_path / "checkpoint" / "config.json").read_text())["architectures"] == ["Qwen3VLModel"]
