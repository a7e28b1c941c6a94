"""Exports give our vectors elsewhere, and nothing that was cut or edited loads."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file, save_file
from torch import Tensor
from torch.nn import functional as F

from tilewright.cli import main
from tilewright.configs.errors import InputError
from tilewright.train.encoder import Encoder, load_encoder, save_encoder
from tilewright.train.encoder_io import read_encoder_file
from tilewright.train.export import export
from tilewright.train.pixels import synthetic_image

torch.set_num_threads(1)
TEXTS = ["Who?", "In which year was the physicist Anders Ångström born?", "<|im_end|> is a text, 3 > 2"]
IMAGES = [synthetic_image(120, 90), synthetic_image(203, 151, 1), synthetic_image(64, 64, 2)]


def vectors(encoder: Encoder) -> Tensor:
    return torch.cat([encoder.encode_queries(TEXTS), encoder.encode_tiles(IMAGES)])


@pytest.fixture(scope="module")
def base(reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("models") / "base"
    return Path(shutil.copytree(Path(reader_parts.model).parent / "embedder", folder))


def _adapted(base: Path, **options: Any) -> Encoder:
    import peft

    encoder = load_encoder(base)
    torch.manual_seed(1)
    targets = ["language_model.layers.0.self_attn.q_proj", "language_model.layers.1.mlp.down_proj"]
    targets += ["visual.blocks.0.attn.qkv", "visual.merger.linear_fc1"]
    encoder.model = peft.get_peft_model(encoder.model, peft.LoraConfig(r=4, target_modules=targets, **options))
    for name, parameter in encoder.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    encoder.model.eval()
    return encoder


@pytest.fixture(scope="module")
def adapter(base: Path) -> Path:
    save_encoder(_adapted(base), base.parent / "lora" / "checkpoint")
    return base.parent / "lora" / "checkpoint"


@pytest.fixture(scope="module")
def full(base: Path) -> Path:
    encoder = load_encoder(base, dimension=48)
    with torch.no_grad():
        for parameter in encoder.model.parameters():
            parameter.mul_(1.1)
    save_encoder(encoder, base.parent / "full" / "checkpoint")
    return base.parent / "full" / "checkpoint"


@pytest.mark.parametrize("options", [{}, {"use_dora": True}, {"use_rslora": True}], ids=["lora", "dora", "rslora"])
def test_merged_and_adapter_vectors_agree(base: Path, tmp_path: Path, options: dict[str, bool]) -> None:
    encoder = _adapted(base, **options)
    save_encoder(encoder, tmp_path / "checkpoint")
    wanted = vectors(encoder)
    assert (F.cosine_similarity(wanted, vectors(load_encoder(base))) < 0.999).all()  # the adapter does something
    export(tmp_path / "checkpoint", tmp_path / "merged", "merged", dtype="float32", base_folder=base)
    export(tmp_path / "checkpoint", tmp_path / "adapter", "adapter", base_folder=base)
    merged = vectors(load_encoder(tmp_path / "merged"))
    alone = vectors(load_encoder(tmp_path / "adapter", base_folder=base))
    torch.testing.assert_close(merged, wanted, atol=1e-5, rtol=0)
    torch.testing.assert_close(alone, wanted, atol=0, rtol=0)


def test_peft_loads_an_adapter_export(adapter: Path, base: Path, tmp_path: Path) -> None:
    """By PEFT and transformers alone: the convolution, their own loading."""
    from peft import PeftModel
    from transformers import AutoModel

    done = export(adapter, tmp_path / "out", "adapter")
    assert done.hash == load_encoder(adapter).hash == load_encoder(done.folder, base_folder=base).hash
    encoder = load_encoder(base)
    encoder.model = PeftModel.from_pretrained(AutoModel.from_pretrained(base), done.folder).eval()
    torch.testing.assert_close(vectors(encoder), vectors(load_encoder(adapter)), atol=1e-5, rtol=0)


def test_an_adapter_export_tells_no_place(adapter: Path, tmp_path: Path) -> None:
    done = export(adapter, tmp_path / "out", "adapter")
    assert read_encoder_file(done.folder).base.folder == ""  # type: ignore[union-attr]
    for path in done.folder.iterdir():
        assert str(tmp_path).encode() not in path.read_bytes() and str(adapter).encode() not in path.read_bytes()
    with pytest.raises(InputError, match="an adapter without its base: pass base_folder, a folder of tiny random"):
        load_encoder(done.folder)


def test_transformers_loads_merged_weights(adapter: Path, tmp_path: Path) -> None:
    from transformers import AutoModel

    done = export(adapter, tmp_path / "out", "merged", dtype="float32")
    encoder = load_encoder(done.folder)
    encoder.model = AutoModel.from_pretrained(done.folder).eval()
    assert not any("lora" in name for name, _ in encoder.model.named_parameters())
    torch.testing.assert_close(vectors(encoder), vectors(load_encoder(adapter)), atol=1e-5, rtol=0)


def test_merged_in_float32_then_rounded(adapter: Path, tmp_path: Path) -> None:
    """bfloat16 weights are the rounded float32 ones: what was merged in bfloat16 would be further off."""
    export(adapter, tmp_path / "whole", "merged", dtype="float32")
    done = export(adapter, tmp_path / "half", "merged")
    whole, half = (load_file(tmp_path / name / "model.safetensors") for name in ("whole", "half"))
    assert {value.dtype for value in half.values()} == {torch.bfloat16}
    assert all(torch.equal(half[name], value.bfloat16()) for name, value in whole.items())
    loaded = load_encoder(done.folder)
    assert loaded.hash == done.hash != load_encoder(tmp_path / "whole").hash
    assert next(loaded.model.parameters()).dtype == torch.float32
    assert F.cosine_similarity(vectors(loaded), vectors(load_encoder(adapter))).min() > 0.99
    assert load_encoder(done.folder, dtype=torch.bfloat16).hash == done.hash


@pytest.fixture(scope="module", params=["adapter", "full"])
def sentences(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Encoder, Path]:
    """A SentenceTransformer of an export, the encoder it was made of, and the export's folder."""
    package = pytest.importorskip("sentence_transformers")
    checkpoint = request.getfixturevalue(request.param)
    out = tmp_path_factory.mktemp("export") / "out"
    export(checkpoint, out, "sentence-transformers", dtype="float32")
    model = package.SentenceTransformer(str(out), trust_remote_code=True, device="cpu")
    return model, load_encoder(checkpoint), out


def _close(found: Any, wanted: Tensor) -> None:
    torch.testing.assert_close(torch.as_tensor(found), wanted, atol=1e-5, rtol=0)


def test_sentence_transformers_gives_our_vectors(sentences: tuple[Any, Encoder, Path]) -> None:
    model, encoder, _ = sentences
    assert model.get_embedding_dimension() == encoder.dimension
    _close(model.encode(TEXTS, prompt_name="query"), encoder.encode_queries(TEXTS))
    _close(model.encode_query(TEXTS), encoder.encode_queries(TEXTS))
    _close(model.encode(IMAGES), encoder.encode_tiles(IMAGES))
    _close(model.encode_document(IMAGES, batch_size=2), encoder.encode_tiles(IMAGES))
    _close(model.encode(IMAGES[0]), encoder.encode_tiles(IMAGES[:1])[0])
    pictured = [{"text": text, "image": image} for text, image in zip(TEXTS, IMAGES, strict=True)]
    _close(model.encode(pictured, prompt_name="query"), encoder.encode_queries(TEXTS, IMAGES))
    with torch.no_grad():
        _close(model.encode(TEXTS), encoder.forward(encoder.document_batch(TEXTS)))
    assert model.similarity(model.encode_query(TEXTS), model.encode(IMAGES)).shape == (3, 3)


def test_transparent_and_bad_inputs_of_sentence_transformers(sentences: tuple[Any, Encoder, Path]) -> None:
    model, encoder, _ = sentences
    clear = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    _close(model.encode([clear]), encoder.encode_tiles([Image.new("RGB", (64, 64), "white")]))
    with pytest.raises(InputError, match=r"prompt: wanted .*prompt_name 'query'.*found 'Find it\.'"):
        model.encode(TEXTS, prompt="Find it.")
    with pytest.raises(InputError, match="of the batch is empty"):
        model.encode([""])
    with pytest.raises(InputError, match="an image is of type str: wanted a PIL image"):
        model.encode([{"text": "a", "image": "picture.png"}])


def test_sentence_transformers_saves_and_loads_it_again(sentences: tuple[Any, Encoder, Path], tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer

    model, encoder, _ = sentences
    model.save(str(tmp_path / "again"))
    again = SentenceTransformer(str(tmp_path / "again"), trust_remote_code=True, device="cpu")
    _close(again.encode(TEXTS, prompt_name="query"), encoder.encode_queries(TEXTS))
    _close(again.encode(IMAGES), encoder.encode_tiles(IMAGES))


def test_a_sentence_transformers_folder_is_a_checkpoint_too(sentences: tuple[Any, Encoder, Path]) -> None:
    _, encoder, out = sentences
    torch.testing.assert_close(vectors(load_encoder(out)), vectors(encoder), atol=1e-5, rtol=0)
    assert not list(out.rglob("*.py"))  # no code travels


def _truncate(folder: Path) -> None:
    path = folder / "model.safetensors"
    path.write_bytes(path.read_bytes()[:-1000])


def _edit_weight(folder: Path) -> None:
    weights = load_file(folder / "model.safetensors")
    weights["visual.merger.linear_fc1.weight"][0, 0] += 0.5
    save_file(weights, folder / "model.safetensors", metadata={"format": "pt"})


def _edit_json(name: str, change: Callable[[Any], None]) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        data = json.loads((folder / name).read_text())
        change(data)
        (folder / name).write_text(json.dumps(data))

    return edit


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (_truncate, "not a readable safetensors file"),
        (_edit_weight, "replaced after the checkpoint was written"),
        (lambda folder: (folder / "model.safetensors").unlink(), "no weights"),
        (lambda folder: (folder / "tokenizer.json").unlink(), r"no tokenizer\.json"),
        (lambda folder: (folder / "probes.npy").unlink(), "probe vectors can't be read"),
        (lambda folder: (folder / "preprocessor_config.json").unlink(), r"no preprocessor_config\.json"),
        (
            _edit_json("config.json", lambda data: data["text_config"]["rope_parameters"].update(rope_theta=1e9)),
            "gives other vectors than the saved one",
        ),
        (
            _edit_json("preprocessor_config.json", lambda data: data.update(image_mean=[0.4, 0.5, 0.5])),
            "contract doesn't match",
        ),
        (
            _edit_json("encoder.json", lambda data: data["contract"].update(query_instruction="Other.")),
            "contract and hash don't belong together",
        ),
    ],
)
def test_a_cut_or_edited_export_is_refused(
    sentences: tuple[Any, Encoder, Path], tmp_path: Path, spoil: Callable[[Path], None], message: str
) -> None:
    from sentence_transformers import SentenceTransformer

    folder = Path(shutil.copytree(sentences[2], tmp_path / "copy"))
    spoil(folder)
    with pytest.raises(InputError, match=message):
        SentenceTransformer(str(folder), trust_remote_code=True, device="cpu")


def test_an_edited_adapter_export_is_refused(adapter: Path, base: Path, tmp_path: Path) -> None:
    done = export(adapter, tmp_path / "out", "adapter")
    path = done.folder / "adapter_model.safetensors"
    weights = load_file(path)
    next(iter(weights.values())).mul_(2)
    save_file(weights, path)
    with pytest.raises(InputError, match="replaced after it was written"):
        load_encoder(done.folder, base_folder=base)
    path.write_bytes(path.read_bytes()[:100])
    with pytest.raises(InputError, match="not a readable safetensors file"):
        load_encoder(done.folder, base_folder=base)


def test_out_must_be_new_or_empty_and_outside(adapter: Path, tmp_path: Path) -> None:
    (tmp_path / "used").mkdir()
    (tmp_path / "used" / "mine.txt").write_text("keep me")
    with pytest.raises(InputError, match="wanted a new or empty folder, found 1 files in it"):
        export(adapter, tmp_path / "used", "merged")
    assert (tmp_path / "used" / "mine.txt").read_text() == "keep me"
    (tmp_path / "file").write_text("x")
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    for name in ("file", "link"):
        with pytest.raises(InputError, match="found a link or a file"):
            export(adapter, tmp_path / name, "merged")
    for out in (adapter / "export", adapter.parent):
        with pytest.raises(InputError, match=r"wanted a folder outside of the checkpoint|found \d+ files"):
            export(adapter, out, "merged")
    (tmp_path / "empty").mkdir()
    assert export(adapter, tmp_path / "empty", "merged").folder == tmp_path / "empty"
    export(adapter, tmp_path / "deep" / "er" / "out", "adapter")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["deep", "empty", "file", "link", "used"]


def test_the_command_line(adapter: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    main(["export", str(adapter), str(tmp_path / "out"), "--as", "merged", "--dtype", "float32"])
    encoder = load_encoder(tmp_path / "out")
    assert capsys.readouterr().out == f"{tmp_path / 'out'}: merged, encoder {encoder.hash}\n"
    torch.testing.assert_close(vectors(encoder), vectors(load_encoder(adapter)), atol=1e-5, rtol=0)
    with pytest.raises(SystemExit, match=r"tilewright export: error: .*wanted a new or empty folder"):
        main(["export", str(adapter), str(tmp_path / "out"), "--as", "adapter"])


def test_what_cannot_be_exported(base: Path, full: Path, tmp_path: Path) -> None:
    with pytest.raises(InputError, match="it holds full weights, no adapter"):
        export(full, tmp_path / "out", "adapter")
    with pytest.raises(InputError, match=r"no encoder\.json: wanted a checkpoint"):
        export(base, tmp_path / "out", "merged")
    with pytest.raises(InputError, match="found 'onnx' and 'bfloat16'"):
        export(full, tmp_path / "out", "onnx")
    assert not list(tmp_path.iterdir())  # nothing half done stays


def test_the_card_tells_the_run(adapter: Path, tmp_path: Path) -> None:
    from tilewright.configs.manifest import digest_file

    run = tmp_path / "run"
    shutil.copytree(adapter, run / "checkpoint")
    manifest = {
        "identity": "d" * 64,
        "request": {"stage": "train_embedder", "config": {"learning_rate": 0.125}, "inputs": {}, "schema": 1},
        "counts": {"kept": {"validation_mrr": 0.4375}, "note": "a fence ``` inside"},
        "outputs": {"checkpoint/encoder.json": digest_file(run / "checkpoint" / "encoder.json")},
        "sizes": {},
        "provenance": {"commit": "abc123", "inputs": {"model": "/home/someone/model"}},
    }
    (run / "manifest.json").write_text(json.dumps(manifest))
    base = adapter.parent.parent / "base"
    done = export(run / "checkpoint", tmp_path / "out", "merged", base_folder=base)
    card = (done.folder / "README.md").read_text()
    assert "0.4375" in card and '"learning_rate": 0.125' in card and "abc123" in card and "/home/someone" not in card
    assert "````json" in card  # longer than the fence inside
    assert "**A stand-in.**" in card and "model_name: trained from tiny random weights" in card
    assert load_encoder(done.folder).contract.hash in card and done.hash in card
    manifest["outputs"] = {"checkpoint/encoder.json": "0" * 64}  # the manifest of another checkpoint
    (run / "manifest.json").write_text(json.dumps(manifest))
    other = export(run / "checkpoint", tmp_path / "other", "adapter", base_folder=base)
    card = (other.folder / "README.md").read_text()
    assert "0.4375" not in card and "isn't known" in card


def test_the_card_of_a_real_base_is_no_stand_in(adapter: Path) -> None:
    import dataclasses

    from tilewright.train.model_card import model_card

    contract = dataclasses.replace(load_encoder(adapter).contract, base_model="Qwen/Qwen3-VL-Embedding-2B")
    assert "stand-in" not in model_card(contract, "f" * 64, "merged", None)
