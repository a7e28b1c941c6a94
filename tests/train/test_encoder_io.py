"""Encoders on disk: round trips, and an error for everything that doesn't belong together."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from tilewright.configs.errors import InputError
from tilewright.train.adapter_io import adapter_digest
from tilewright.train.contract import check_same_space
from tilewright.train.encoder import Encoder, load_encoder, save_encoder
from tilewright.train.encoder_io import read_encoder_file, write_encoder_file
from tilewright.train.pixels import load_policy, synthetic_image
from tilewright.train.tokenizer import PromptTokenizer, train_tokenizer
from tilewright.train.weights import weights_digest

torch.set_num_threads(1)
TEXTS = ["Who?", "In which year was the physicist Anders Ångström born?"]
IMAGES = [synthetic_image(120, 90)]


@pytest.fixture(scope="module")
def base(reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of its own, so that relative places can be tested."""
    folder = tmp_path_factory.mktemp("models") / "base"
    shutil.copytree(Path(reader_parts.model).parent / "embedder", folder)
    return folder


def _vectors(encoder: Encoder) -> torch.Tensor:
    return torch.cat([encoder.encode_queries(TEXTS), encoder.encode_tiles(IMAGES)])


def _trained(base: Path) -> Encoder:
    encoder = load_encoder(base)
    with torch.no_grad():
        for parameter in encoder.model.parameters():
            parameter.mul_(1.1)
    return encoder


def _with_lora(base: Path, seed: int = 0) -> Encoder:
    import peft

    encoder = load_encoder(base)
    torch.manual_seed(seed)
    targets = [f"language_model.layers.{i}.self_attn.q_proj" for i in (0, 1)] + ["visual.blocks.0.attn.qkv"]
    encoder.model = peft.get_peft_model(encoder.model, peft.LoraConfig(r=4, target_modules=targets))
    for name, parameter in encoder.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    encoder.model.eval()
    return encoder


@pytest.fixture(scope="module")
def full(base: Path) -> Path:
    save_encoder(_trained(base), base.parent / "full")
    return base.parent / "full"


@pytest.fixture(scope="module")
def adapter(base: Path) -> Path:
    save_encoder(_with_lora(base), base.parent / "lora" / "checkpoint")
    return base.parent / "lora" / "checkpoint"


@pytest.fixture
def copy(tmp_path: Path) -> Callable[[Path], Path]:
    return lambda folder: Path(shutil.copytree(folder, tmp_path / folder.name))


@pytest.mark.parametrize("make", [_trained, _with_lora])
def test_round_trip(base: Path, tmp_path: Path, make: Callable[[Path], Encoder]) -> None:
    encoder = make(base)
    with pytest.raises(InputError, match="changed since it was loaded"):
        _ = encoder.hash
    saved = save_encoder(encoder, tmp_path / "checkpoint")
    loaded = load_encoder(tmp_path / "checkpoint")
    assert loaded.hash == saved == encoder.hash
    assert loaded.contract == encoder.contract
    assert torch.equal(_vectors(loaded), _vectors(encoder))
    assert save_encoder(loaded, tmp_path / "again") == saved
    with torch.no_grad():
        next(loaded.model.parameters()).add_(1e-3)
    with pytest.raises(InputError, match="changed since it was loaded"):
        _ = loaded.hash


def test_the_base_and_what_comes_of_it_differ_in_hash(base: Path, full: Path, adapter: Path) -> None:
    encoders = [load_encoder(folder) for folder in (base, full, adapter)]
    assert len({encoder.hash for encoder in encoders}) == 3
    assert len({encoder.contract.hash for encoder in encoders}) == 1
    assert {encoder.contract.base_model for encoder in encoders} == {"tiny random weights"}
    assert len({encoder.contract.base_digest for encoder in encoders}) == 1


def test_an_adapter_checkpoint_is_small_and_names_no_place(adapter: Path) -> None:
    assert not list(adapter.glob("*.safetensors"))
    assert read_encoder_file(adapter).base.folder == "../../base"  # type: ignore[union-attr]
    config = json.loads((adapter / "adapter" / "adapter_config.json").read_text())
    assert config["base_model_name_or_path"] is None
    assert config["target_modules"] == sorted(config["target_modules"])


def test_an_adapter_can_be_trained_on(adapter: Path) -> None:
    encoder = load_encoder(adapter)
    encoder.forward(encoder.query_batch(TEXTS)).sum().backward()
    trainable = {name: p.grad for name, p in encoder.model.named_parameters() if p.requires_grad}
    assert len(trainable) == 6
    assert all("lora" in name for name in trainable)


def test_an_adapter_finds_its_base_elsewhere_if_told(base: Path, adapter: Path, copy: Callable[[Path], Path]) -> None:
    moved = copy(adapter)
    with pytest.raises(InputError, match="its base model isn't at"):
        load_encoder(moved)
    assert load_encoder(moved, base_folder=base).hash == load_encoder(adapter).hash


def test_an_adapter_on_a_trained_checkpoint(full: Path, tmp_path: Path) -> None:
    encoder = _with_lora(full)
    saved = save_encoder(encoder, tmp_path / "second")
    assert load_encoder(tmp_path / "second").hash == saved


def test_another_base_is_refused(full: Path, adapter: Path) -> None:
    with pytest.raises(InputError, match="another base model"):
        load_encoder(adapter, base_folder=full)


def test_missing_and_foreign_adapter_keys(adapter: Path, base: Path, copy: Callable[[Path], Path]) -> None:
    broken = copy(adapter)
    path = broken / "adapter" / "adapter_model.safetensors"
    weights = {name.replace("base_model.model.", "base_model."): value for name, value in load_file(path).items()}
    save_file(weights, path)
    with pytest.raises(InputError, match="replaced after it was written"):
        load_encoder(broken, base_folder=base)
    _accept_weights(broken, load_encoder(adapter))
    with pytest.raises(InputError, match=r"6 missing \(first: .*6 unexpected"):
        load_encoder(broken, base_folder=base)


def _accept_weights(folder: Path, encoder: Encoder) -> None:
    """Make ``encoder.json`` say that the adapter's weights now there are the right ones."""
    stored = read_encoder_file(folder)
    assert stored.base is not None
    digest = adapter_digest(stored.base.weights_digest, folder / "adapter")
    write_encoder_file(folder, encoder.contract, digest, stored.base)


@pytest.mark.parametrize("change", ["missing", "unexpected", "shape"])
def test_weights_must_match_one_to_one(base: Path, copy: Callable[[Path], Path], change: str) -> None:
    folder = copy(base)
    path = folder / "model.safetensors"
    weights = load_file(path)
    name = "visual.merger.linear_fc1.weight"
    if change == "missing":
        del weights[name]
    elif change == "unexpected":
        weights["visual.merger.linear_fc9.weight"] = weights[name].clone()
    else:
        weights[name] = weights[name][:-1].contiguous()
    save_file(weights, path, metadata={"format": "pt"})
    with pytest.raises(InputError, match=rf"weights don't match the model: 1 (of another )?{change}"):
        load_encoder(folder)


def test_a_generative_folder_loads_without_its_head(base: Path, reader_parts: Any, tmp_path: Path) -> None:
    from transformers import Qwen3VLForConditionalGeneration

    folder = tmp_path / "generative"
    shutil.copytree(base, folder)
    model = Qwen3VLForConditionalGeneration.from_pretrained(reader_parts.model)
    encoder = load_encoder(base)
    model.model.load_state_dict(encoder.model.state_dict())
    model.lm_head.weight = torch.nn.Parameter(model.lm_head.weight.clone())
    model.config.tie_word_embeddings = model.config.text_config.tie_word_embeddings = False
    (folder / "model.safetensors").unlink()
    model.save_pretrained(folder, max_shard_size="200KB")
    assert len(list(folder.glob("*.safetensors"))) > 1
    assert "lm_head.weight" in json.loads((folder / "model.safetensors.index.json").read_text())["weight_map"]
    assert torch.equal(_vectors(load_encoder(folder)), _vectors(encoder))


def test_the_digest_does_not_depend_on_sharding(base: Path, tmp_path: Path) -> None:
    weights = load_file(base / "model.safetensors")
    names = sorted(weights)
    save_file({name: weights[name] for name in names[::2]}, tmp_path / "b.safetensors")
    save_file({name: weights[name] for name in names[1::2]}, tmp_path / "a.safetensors")
    assert weights_digest(tmp_path) == weights_digest(base)


def test_a_moved_folder_is_the_same_encoder(base: Path, full: Path, copy: Callable[[Path], Path]) -> None:
    assert load_encoder(copy(base)).hash == load_encoder(base).hash
    assert load_encoder(copy(full)).hash == load_encoder(full).hash


def test_a_checkpoint_from_another_tokenizer(base: Path, full: Path, copy: Callable[[Path], Path]) -> None:
    vocabulary = PromptTokenizer.from_folder(base).vocab_size
    other = train_tokenizer(["quite another corpus of words and wards"] * 3, 288, append_end=True)
    broken = copy(full)
    other.save_pretrained(broken)
    with pytest.raises(InputError, match="this tokenizer belongs to another model"):
        load_encoder(broken)
    texts = ["".join(chr(97 + i * j % 26) for j in range(1, 8)) for i in range(500)]
    train_tokenizer(texts, vocabulary, append_end=True).save_pretrained(broken)
    with pytest.raises(InputError, match="this checkpoint belongs to another tokenizer"):
        load_encoder(broken)


def test_a_replaced_image_processor(full: Path, copy: Callable[[Path], Path]) -> None:
    broken = copy(full)
    path = broken / "preprocessor_config.json"
    config = json.loads(path.read_text())
    path.write_text(json.dumps(config | {"image_mean": [0.4, 0.4, 0.4]}))
    with pytest.raises(InputError, match=r"contract doesn't match .*pixels\.mean"):
        load_encoder(broken)
    path.write_text(json.dumps(config | {"patch_size": 14}))
    with pytest.raises(InputError, match="patch_size: the image processor says 14, the model 16"):
        load_encoder(broken)


def test_replaced_weights_and_probes(base: Path, full: Path, copy: Callable[[Path], Path]) -> None:
    broken = copy(full)
    shutil.copyfile(base / "model.safetensors", broken / "model.safetensors")
    with pytest.raises(InputError, match="replaced after the checkpoint was written"):
        load_encoder(broken)
    shutil.copyfile(full / "model.safetensors", broken / "model.safetensors")
    probes = np.load(full / "probes.npy")
    np.save(broken / "probes.npy", probes[::-1])
    with pytest.raises(InputError, match="lowest probe cosine"):
        load_encoder(broken)
    np.save(broken / "probes.npy", probes[:, :-1])
    with pytest.raises(InputError, match="probe vectors have shape"):
        load_encoder(broken)
    np.save(broken / "probes.npy", 1000 * probes)
    with pytest.raises(InputError, match="aren't of unit length"):
        load_encoder(broken)
    whole = (full / "probes.npy").read_bytes()
    for damaged in (b"", whole[:10] + b"{'descr': '<f4', ".ljust(117) + b"\n" + whole[128:]):
        (broken / "probes.npy").write_bytes(damaged)
        with pytest.raises(InputError, match="probe vectors can't be read"):
            load_encoder(broken)


def test_an_edited_contract(full: Path, copy: Callable[[Path], Path]) -> None:
    broken = copy(full)
    path = broken / "encoder.json"
    data = json.loads(path.read_text())
    data["contract"]["query_instruction"] = "Find something else."
    path.write_text(json.dumps(data))
    with pytest.raises(InputError, match="contract and hash don't belong together"):
        load_encoder(broken)
    path.write_text(json.dumps(data | {"extra": 1}))
    with pytest.raises(InputError, match=r"unknown keys \['extra'\]"):
        load_encoder(broken)
    path.write_text("{")
    with pytest.raises(InputError, match="not a readable encoder file"):
        load_encoder(broken)


def test_options_of_a_base_and_of_a_checkpoint(base: Path, full: Path) -> None:
    wide = load_encoder(base, max_pixels=262144)
    assert wide.contract.pixels.max_pixels == 262144
    assert wide.hash != load_encoder(base).hash
    assert load_encoder(full, max_pixels=65536).hash == load_encoder(full).hash
    with pytest.raises(InputError, match="max_pixels: the checkpoint's contract says 65536, asked for 262144"):
        load_encoder(full, max_pixels=262144)
    with pytest.raises(InputError, match="dimension: wanted 1 to 64, found 65"):
        load_encoder(base, dimension=65)


def test_limits_set_at_loading_are_kept_by_a_checkpoint(base: Path, tmp_path: Path) -> None:
    encoder = load_encoder(base, max_pixels=262144, dimension=32)
    saved = save_encoder(encoder, tmp_path / "wide")
    loaded = load_encoder(tmp_path / "wide")
    assert loaded.hash == saved
    assert loaded.contract.pixels.max_pixels == 262144
    assert load_policy(tmp_path / "wide").max_pixels == 262144
    assert loaded.dimension == 32
    save_encoder(_lora_on(encoder), tmp_path / "wide_lora")
    assert load_encoder(tmp_path / "wide_lora").contract == encoder.contract


def _lora_on(encoder: Encoder) -> Encoder:
    import peft

    encoder.model = peft.get_peft_model(encoder.model, peft.LoraConfig(r=2, target_modules=["q_proj"]))
    return encoder


def test_folders_that_are_no_encoders(base: Path, copy: Callable[[Path], Path], tmp_path: Path) -> None:
    with pytest.raises(InputError, match="no such folder"):
        load_encoder(tmp_path / "nothing")
    with pytest.raises(InputError, match=r"no config\.json"):
        load_encoder(tmp_path)
    folder = copy(base)
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"architectures": ["BertModel"]}))
    with pytest.raises(InputError, match=r"architectures: wanted one of .*Qwen3VLModel.*BertModel"):
        load_encoder(folder)
    (folder / "config.json").write_text(json.dumps(config))
    (folder / "model.safetensors").write_bytes(b"123")
    with pytest.raises(InputError, match="not a readable safetensors file"):
        load_encoder(folder)
    (folder / "model.safetensors").unlink()
    with pytest.raises(InputError, match="no weights"):
        load_encoder(folder)


def test_vectors_of_two_encoders_are_not_compared() -> None:
    check_same_space("a" * 64, "a" * 64, "the index")
    with pytest.raises(InputError, match="vectors of two encoders can't be compared"):
        check_same_space("a" * 64, "b" * 64, "the index")
