"""Nano is trained, exported and verified like any other encoder."""

import json
import os
import runpy
import socket
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file
from torch import Tensor
from torch.nn import functional as F

from tilewright.cli import main
from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import TrainingExample, to_json
from tilewright.train.adapters import GROUPS, LoraGroup, add_adapters, count_by_group, is_of_vision, resolve, trainable
from tilewright.train.encoder import Encoder, load_encoder, save_encoder
from tilewright.train.export import export
from tilewright.train.grad_cache import Chunking
from tilewright.train.learner import Learner
from tilewright.train.objective import LossConfig
from tilewright.train.pixels import synthetic_image
from tilewright.train.train_embedder import STAGE
from tilewright.train.verify import verify_probes

torch.set_num_threads(1)
PROGRAM = Path(__file__).with_name("gradients_program.py")
gradients = runpy.run_path(str(PROGRAM))["gradients"]
NANO_GROUPS = ("vit_attn", "vit_mlp", "heads")
TEXTS = ["Who?", "In which year was the physicist Anders Ångström born?", "3 > 2, or so"]
IMAGES = [synthetic_image(120, 90), synthetic_image(203, 151, 1), synthetic_image(64, 64, 2)]


def vectors(encoder: Encoder) -> Tensor:
    return torch.cat([encoder.encode_queries(TEXTS), encoder.encode_tiles(IMAGES)])


def case_of(ids: tuple[str, ...], rows: int | None) -> dict[str, Any]:
    """Four queries and six tiles, in chunks of ``rows``."""
    examples = [
        TrainingExample("q0", "What is the answer?", ids[0], (ids[5], ids[1])),
        TrainingExample("q1", "Which town is it?", ids[1], ()),
        TrainingExample("q2", "When did it begin?", ids[2], (ids[4],), (ids[5],)),
        TrainingExample("q3", "How far is it from Oslo to Lima, in km?", ids[3], ()),
    ]
    return {"examples": [to_json(example) for example in examples], "symmetric": True, "chunk_rows": rows}


def close(found: dict[str, Tensor], wanted: dict[str, Tensor]) -> None:
    assert found.keys() == wanted.keys() and len(found) > 30
    largest = max(value.abs().max().item() for name, value in wanted.items() if name.startswith("encoder."))
    assert largest > 0
    for name, value in wanted.items():
        tolerance = 1e-5 * largest if name.startswith("encoder.") else 1e-5
        torch.testing.assert_close(
            found[name], value, atol=tolerance, rtol=1e-3, msg=lambda text, n=name: f"{n}: {text}"
        )


def test_chunks_give_the_gradients_of_the_plain_step(nano_folder: Path, reader_parts: Any) -> None:
    plain, *chunked = (
        gradients(nano_folder, reader_parts.tiles, case_of(reader_parts.tile_ids, rows), 0, 1) for rows in (None, 1, 2)
    )
    for found in chunked:
        close(found, plain)
    assert not any("start_head" in name for name in plain)


@pytest.mark.slow
def test_two_ranks_give_the_gradients_of_one(nano_folder: Path, reader_parts: Any, tmp_path: Path) -> None:
    case = case_of(reader_parts.tile_ids, None)
    (tmp_path / "cases.json").write_text(json.dumps({"nano": case}))
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    arguments = [nano_folder, reader_parts.tiles, tmp_path / "cases.json", tmp_path]
    group = {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port), "WORLD_SIZE": "2", "OMP_NUM_THREADS": "1"}
    processes = [
        subprocess.Popen([sys.executable, str(PROGRAM), *map(str, arguments)], env=os.environ | group | {"RANK": rank})
        for rank in ("0", "1")
    ]
    assert [process.wait(timeout=300) for process in processes] == [0, 0]
    close(load_file(tmp_path / "nano.safetensors"), gradients(nano_folder, reader_parts.tiles, case, 0, 1))


def test_lora_groups_cover_what_reads(nano_folder: Path) -> None:
    model = load_encoder(nano_folder).model
    found = resolve(model, {group: LoraGroup(2, 2) for group in NANO_GROUPS})
    assert {group: len(names) for group, names in found.items()} == {"vit_attn": 4, "vit_mlp": 4, "heads": 2}
    assert found["heads"] == ["character_head", "context_head"]
    for group in GROUPS.keys() - set(NANO_GROUPS):
        with pytest.raises(InputError, match="match no linear layer of NanoModel"):
            resolve(model, {group: LoraGroup(2, 2)})
    assert all(map(is_of_vision, trainable(model)))
    assert count_by_group(model).keys() == {*NANO_GROUPS, "other"}


RUNS: dict[str, dict[str, Any]] = {
    "heads": {"trainable": "adapters", "adapters": {"heads": LoraGroup(4, 4)}},
    "tower": {
        "trainable": "adapters",
        "adapters": {"vit_attn": LoraGroup(4, 4), "vit_mlp": LoraGroup(2, 4)},
        "gradient_checkpointing": True,
        "chunking": Chunking(rows=2),
        "precision": "bfloat16",
    },
    "full": {"trainable": "full", "ema_decay": 0.9, "gradient_checkpointing": True, "learning_rate": 1e-3},
}


@pytest.fixture(scope="module", params=RUNS)
def run(request: pytest.FixtureRequest, inputs: Any, nano_folder: Path, tmp_path_factory: Any) -> tuple[str, Path]:
    """The name of a run and its output."""
    out = tmp_path_factory.mktemp(f"run_{request.param}") / "out"
    changes = {"model": nano_folder, "steps": 4, "keep": "last", "save_every": 2} | RUNS[request.param]
    run_stage(STAGE, inputs.config(out, **changes))
    return request.param, out


def test_training_moves_what_is_trained_alone(run: tuple[str, Path], nano_folder: Path) -> None:
    name, out = run
    counts = json.loads((out / "manifest.json").read_text())["counts"]
    curve = [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]
    assert counts["steps"] == 4 and all(entry["grad_norm"] > 0 for entry in curve[1:])
    groups = set(counts["trainable_by_group"])
    assert groups == {"heads": {"heads"}, "tower": {"vit_attn", "vit_mlp"}, "full": {*NANO_GROUPS, "other"}}[name]
    base, trained = load_encoder(nano_folder), load_encoder(out / "checkpoint")
    assert torch.equal(trained.encode_queries(TEXTS), base.encode_queries(TEXTS))  # nothing of a text is trained
    assert not torch.equal(trained.encode_tiles(IMAGES), base.encode_tiles(IMAGES))
    for buffer in ("binding.signs", "binding.weights"):
        stored = dict(trained.model.named_buffers())
        (found,) = (value for key, value in stored.items() if key.endswith(buffer))
        assert torch.equal(found, base.model.get_buffer(buffer))
    if name == "full":
        before, after = base.model.state_dict(), trained.model.state_dict()
        assert torch.equal(before["start_head.weight"], after["start_head.weight"])
        assert not torch.equal(before["visual.blocks.0.attn.qkv.weight"], after["visual.blocks.0.attn.qkv.weight"])


def test_a_run_s_checkpoint_verifies_and_exports(
    run: tuple[str, Path], nano_folder: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    name, out = run
    checkpoint = out / "checkpoint"
    encoder, checks = verify_probes(checkpoint)
    assert len(checks) == 4 and all(check.good for check in checks)
    main(["encoder", "verify", str(checkpoint)])
    assert capsys.readouterr().out.count("ok  ") == 4
    wanted = vectors(encoder)
    whole = export(checkpoint, tmp_path / "whole", "merged", dtype="float32")
    torch.testing.assert_close(vectors(load_encoder(whole.folder)), wanted, atol=1e-4, rtol=0)
    half = export(checkpoint, tmp_path / "half", "merged")
    assert F.cosine_similarity(vectors(load_encoder(half.folder)), wanted).min() > 0.99
    if name != "full":
        alone = export(checkpoint, tmp_path / "adapter", "adapter")
        found = load_encoder(alone.folder, base_folder=nano_folder)
        assert found.hash == encoder.hash and torch.equal(vectors(found), wanted)
    card = " ".join((whole.folder / "README.md").read_text().split())
    assert "lexical reader" in card and "tilewright.train.nano.NanoModel.from_pretrained" in card
    assert "padded to whole tokens" in card and "damped bag of trigrams read" in card


@pytest.fixture(scope="module")
def adapted(nano_folder: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A checkpoint of adapters that do something."""
    encoder = load_encoder(nano_folder)
    encoder.model = add_adapters(encoder.model, dict.fromkeys(NANO_GROUPS, LoraGroup(4, 4)))
    torch.manual_seed(1)
    for name, parameter in encoder.model.named_parameters():
        if "lora_B" in name:
            torch.nn.init.normal_(parameter, std=0.2)
    encoder.model.eval()
    folder = tmp_path_factory.mktemp("adapted") / "checkpoint"
    save_encoder(encoder, folder)
    assert (F.cosine_similarity(vectors(encoder), vectors(load_encoder(nano_folder)))[3:] < 0.999).all()
    return folder


def test_an_adapter_checkpoint_goes_round(adapted: Path, tmp_path: Path) -> None:
    encoder = load_encoder(adapted)
    assert save_encoder(encoder, tmp_path / "again") == encoder.hash
    assert torch.equal(vectors(load_encoder(tmp_path / "again")), vectors(encoder))


def test_peft_and_transformers_load_the_exports(adapted: Path, nano_folder: Path, tmp_path: Path) -> None:
    from peft import PeftModel

    from tilewright.train.nano import NanoModel

    wanted = vectors(load_encoder(adapted))
    encoder = load_encoder(nano_folder)
    done = export(adapted, tmp_path / "adapter", "adapter")
    encoder.model = PeftModel.from_pretrained(NanoModel.from_pretrained(nano_folder), done.folder).eval()
    torch.testing.assert_close(vectors(encoder), wanted, atol=1e-5, rtol=0)
    merged = export(adapted, tmp_path / "merged", "merged", dtype="float32")
    encoder.model = NanoModel.from_pretrained(merged.folder).eval()
    torch.testing.assert_close(vectors(encoder), wanted, atol=1e-4, rtol=0)


def test_sentence_transformers_gives_our_vectors(adapted: Path, tmp_path: Path) -> None:
    package = pytest.importorskip("sentence_transformers")
    done = export(adapted, tmp_path / "out", "sentence-transformers", dtype="float32")
    model = package.SentenceTransformer(str(done.folder), trust_remote_code=True, device="cpu")
    encoder = load_encoder(adapted)
    assert model.get_embedding_dimension() == 256

    def same(found: Any, wanted: Tensor) -> None:
        torch.testing.assert_close(torch.as_tensor(found), wanted, atol=1e-4, rtol=0)

    same(model.encode(TEXTS, prompt_name="query"), encoder.encode_queries(TEXTS))
    same(model.encode(IMAGES), encoder.encode_tiles(IMAGES))
    with torch.no_grad():
        same(model.encode(TEXTS), encoder.forward(encoder.document_batch(TEXTS)))
    pictured = [{"text": text, "image": image} for text, image in zip(TEXTS, IMAGES, strict=True)]
    same(model.encode(pictured, prompt_name="query"), encoder.encode_queries(TEXTS, IMAGES))


def test_what_nano_cannot_be_trained_by(
    inputs: Any, nano_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pairs = tmp_path / "text_pairs.jsonl"
    pair = {"pair_id": "t0", "query": "a b", "passage": "a b c", "page_id": "0" * 16}
    pairs.write_text(json.dumps(pair) + "\n")
    config = inputs.config(
        tmp_path / "texts", model=nano_folder, text_pairs=pairs, text_steps=2, loss=LossConfig(0.1, False), steps=4
    )
    with pytest.raises(InputError, match="text_steps: wanted 0, found 2: texts reach nothing that is trained"):
        Learner(config, load_encoder(nano_folder), 0)
    monkeypatch.setenv("ACCELERATE_USE_FSDP", "true")
    monkeypatch.setenv("FSDP_VERSION", "2")
    with pytest.raises(InputError, match="family nano isn't sharded by FSDP"):
        Learner(inputs.config(tmp_path / "fsdp", model=nano_folder), load_encoder(nano_folder), 0)
