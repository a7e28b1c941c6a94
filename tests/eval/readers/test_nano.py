"""A nano reader from training to grid: its stage resumes, its answers are words of the pictures, texts are errors."""

import dataclasses
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from tests.eval.workshops import workshop_of

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.stage import read_manifest, run_stage
from tilewright.data_gen.records import EvalRecord, QAPair, ReaderExample, read_jsonl, write_jsonl
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.evaluate_reader import STAGE, Config
from tilewright.eval.parts import Asked, Item, Picture, Prediction, Question
from tilewright.eval.readers.nano import NanoReaderOptions, nano_reader
from tilewright.eval.workshop import OcrConfig
from tilewright.train import make_nano, train_nano_reader
from tilewright.train.adapters import LoraGroup
from tilewright.train.nano_reader_checkpoint import load_scorer
from tilewright.train.train_nano_reader import TowerConfig


def rows_of(world: Any) -> list[ReaderExample]:
    """Two tiles each; the last one's answer isn't there."""
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    tiles = [pair.tile_id for pair in pairs]
    rows = [
        ReaderExample(pair.query_id, pair.query, pair.answer, (pair.tile_id, tiles[number - 2]), 0, 1.0 + number % 2)
        for number, pair in enumerate(pairs)
    ]
    last = rows[-1]
    rows[-1] = ReaderExample(last.query_id, last.query, "cannot answer", (tiles[0], tiles[2]), None, 1.0)
    return rows


def config_of(world: Any, root: Path, out: str, **options: Any) -> train_nano_reader.Config:
    values = {
        "out": root / out,
        "model": root / "nano/embedder",
        "examples": root / "rows",
        "tiles": world.paths["tiles"],
        "compression": 1.0,
        "tower": None,
        "width": 8,
        "epochs": 2,
        "batch_size": 4,
        "learning_rate": 0.01,
        "weight_decay": 0.0,
        "warmup_steps": 0,
        "held_out_share": 0.0,
        "seed": 0,
        "threads": 1,
        "readings": root / "readings",
    }
    return train_nano_reader.Config(**(values | options))


@pytest.fixture(scope="module")
def trained(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with base/ and trained/, the second with two steps of its tower."""
    root = tmp_path_factory.mktemp("nano_reader")
    (root / "rows").mkdir()
    write_jsonl(root / "rows/train.jsonl", rows_of(world))
    run_stage(make_nano.STAGE, make_nano.Config(root / "nano", "nano-full", dimension=64))
    run_stage(train_nano_reader.STAGE, config_of(world, root, "base"))
    tower = TowerConfig(2, 2, 1e-3, 1, {"vit_mlp": LoraGroup(2, 4.0), "heads": LoraGroup(2, 4.0)})
    more = config_of(world, root, "trained", compression=None, tower=tower, reader=root / "base/checkpoint", epochs=1)
    run_stage(train_nano_reader.STAGE, more)
    return root


def test_a_trained_reader_says_what_it_counted(trained: Path) -> None:
    base, more = (_manifest(trained / name) for name in ("base", "trained"))
    assert base["examples"] == more["examples"] == 8
    assert base["training_rows"] == 8 and base["rows_whose_answer_was_not_read"] < 7
    assert more["eyes"]["pieces"] > 0 and more["eyes"]["pieces"] + more["eyes"]["rows_without_piece"] == 7
    assert set(more["held_out"]) == {"all"}  # no page was held out
    curve = (trained / "trained/curve.jsonl").read_text(encoding="utf-8")
    assert curve.count('"part": "eyes"') == 2 and curve.count('"part": "pointing"') == 1


def _manifest(folder: Path) -> Any:
    manifest = read_manifest(folder)
    assert manifest is not None
    return manifest["counts"]


def test_the_tower_has_learnt_and_the_same_run_gives_the_same_bytes(world: Any, trained: Path) -> None:
    before, after = (
        (trained / place / "model.safetensors").read_bytes() for place in ("nano/embedder", "trained/checkpoint/tower")
    )
    assert before != after
    again = config_of(world, trained, "again")
    run_stage(train_nano_reader.STAGE, again)
    assert (again.out / "checkpoint/scorer.safetensors").read_bytes() == (
        trained / "base/checkpoint/scorer.safetensors"
    ).read_bytes()


class Killed(train_nano_reader.Run):
    """Ends where the eyes are trained."""

    def pointing(self) -> dict[str, Any]:
        raise KeyboardInterrupt


def test_killed_after_its_eyes_a_run_goes_on_to_the_same_bytes(
    world: Any, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = trained / "trained"
    tower = TowerConfig(2, 2, 1e-3, 1, {"vit_mlp": LoraGroup(2, 4.0), "heads": LoraGroup(2, 4.0)})
    base = trained / "base/checkpoint"
    config = config_of(world, trained, "killed", compression=None, tower=tower, reader=base, epochs=1, readings=None)
    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(train_nano_reader, "Run", Killed)
        run_stage(train_nano_reader.STAGE, config)
    eyes = trained / "killed.partial/checkpoint/tower/model.safetensors"
    before = eyes.stat()
    run_stage(train_nano_reader.STAGE, config)
    assert output_digests(config.out) == output_digests(whole) and _manifest(config.out) == _manifest(whole)
    assert (config.out / "checkpoint/tower/model.safetensors").stat().st_ino == before.st_ino, "not trained again"


def test_without_rows_held_out_the_last_epoch_is_kept(world: Any, trained: Path) -> None:
    """Rates of the four steps: 1/4, 1/2 | 3/4, 1 of the peak. A step of AdamW moves a weight by its rate or less."""
    learnt = config_of(world, trained, "learnt", warmup_steps=4)
    start = dataclasses.replace(learnt, out=trained / "start", learning_rate=1e-12)
    for config in (learnt, start):
        run_stage(train_nano_reader.STAGE, config)
    after, before = (load_scorer(config.out / "checkpoint").ends.weight for config in (learnt, start))
    assert (after - before).abs().max() > 1.2 * 0.01 > 0.75 * 0.01


def test_what_a_run_would_leave_aside_is_refused(world: Any, trained: Path, tmp_path: Path) -> None:
    base = trained / "base/checkpoint"
    with pytest.raises(InputError, match="width: wanted 8"):
        run_stage(train_nano_reader.STAGE, config_of(world, trained, "wide", width=9, reader=base))
    with pytest.raises(ValueError, match=r"wanted no learning_rate.*\['heads'\]"):
        TowerConfig(2, 2, 1e-3, 1, {"heads": LoraGroup(2, 4.0, learning_rate=1e-4)})
    rows = [dataclasses.replace(row, gold_position=2) for row in rows_of(world)]
    write_jsonl(tmp_path / "train.jsonl", rows)
    with pytest.raises(InputError, match="gold_position: wanted one of 2 tiles, found 2"):
        run_stage(train_nano_reader.STAGE, config_of(world, trained, "gold", examples=tmp_path))


def test_a_tower_with_dropout_is_the_same_in_any_process(world: Any, trained: Path) -> None:
    tower = TowerConfig(1, 2, 1e-3, 1, {"heads": LoraGroup(2, 4.0, dropout=0.5)})
    base, towers = trained / "base/checkpoint", []
    for name in ("first", "second"):
        torch.rand(len(name))  # what else the process drew
        config = config_of(world, trained, name, tower=tower, reader=base, epochs=1, compression=None)
        run_stage(train_nano_reader.STAGE, config)
        towers.append((config.out / "checkpoint/tower/model.safetensors").read_bytes())
    assert towers[0] == towers[1]


def test_a_grid_of_nano_readers(world: Any, trained: Path, tmp_path: Path) -> None:
    names = ("base", "trained")
    config = Config(
        out=tmp_path / "out",
        examples=trained / "rows/train.jsonl",
        pairs=world.paths["pairs"],
        tiles=world.paths["tiles"],
        readers={name: NanoReaderOptions("nano", name) for name in names},
        reader_checkpoints={name: Checkpoint(name, trained / name / "checkpoint") for name in names},
        compressions=(1.0, 4.0),
        ks=(1, 2),
        compare=(("trained", "base"),),
        count=None,
        ocr=OcrConfig("eng", 1.0, 60.0, 1),
        max_error_share=0.0,
        resamples=20,
        confidence=0.95,
        threads=1,
        seed=0,
    )
    counts = run_stage(STAGE, config)["counts"]
    assert counts["cells"] == 8 and counts["errors"] == 0
    said = read_jsonl(config.out / "predictions/examples.c1.base.k2.jsonl", EvalRecord)
    assert all(record.prediction for record in said)
    seen = read_jsonl(config.out / "predictions/examples.c4.base.k2.jsonl", EvalRecord)
    assert sum(record.visual_tokens for record in seen) < sum(record.visual_tokens for record in said)


def test_texts_and_broken_pictures_are_errors_of_their_question(world: Any, trained: Path, tmp_path: Path) -> None:
    def broken() -> Image.Image:
        raise InputError("not a picture")

    base = Checkpoint("base", trained / "base/checkpoint")
    workshop = workshop_of(world.paths["tiles"], tmp_path, readers={"base": base})
    reader = nano_reader(NanoReaderOptions("nano", "base"), workshop)
    question = Question("q", "When was Oslo founded?", ("1700",))
    white = Picture("ab", (320, 64), lambda: Image.new("RGB", (320, 64), "white"))
    items = [
        Item("text", "p", "text_chunk", "Oslo, founded 1700"),
        Item("broken", "p", "tile", "", Picture("cd", (320, 64), broken)),
        Item("blank", "p", "tile", "", white),
    ]
    (nothing,) = reader.answer([Asked(question, ())], tmp_path)
    assert isinstance(nothing[1], Prediction) and nothing[1].text == "cannot answer"
    found = dict(
        zip(
            ("text", "broken", "blank"),
            [value for _, value in reader.answer([Asked(question, (item,)) for item in items], tmp_path)],
            strict=True,
        )
    )
    assert isinstance(found["text"], ItemError) and isinstance(found["broken"], ItemError)
    assert isinstance(found["blank"], Prediction) and found["blank"].text == "cannot answer"
    with pytest.raises(InputError, match="wanted one of reader_checkpoints"):
        nano_reader(NanoReaderOptions("nano", "other"), workshop)
    adapted = dataclasses.replace(workshop.readers["base"], adapter=tmp_path)
    with pytest.raises(InputError, match="base: adapter: wanted none"):
        nano_reader(NanoReaderOptions("nano", "base"), dataclasses.replace(workshop, readers={"base": adapted}))
