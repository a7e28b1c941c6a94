"""Embedder training: it learns, keeps the best, resumes to the byte, stops when asked, refuses what it can't use."""

import dataclasses
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.load import ConfigError
from tilewright.configs.stage import StageError, partial_of, run_stage
from tilewright.data_gen.records import QAPair, TrainingExample, write_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.train import embedder_run
from tilewright.train.adapters import AdapterError, LoraGroup
from tilewright.train.embedder_run import Run
from tilewright.train.encoder import load_encoder
from tilewright.train.grad_cache import Chunking
from tilewright.train.objective import LossConfig
from tilewright.train.step_inputs import TileInputs
from tilewright.train.train_embedder import STAGE, Config
from tilewright.train.training_data import load_training_data
from tilewright.train.validation import retrieval_figures

WORDS = ("Nairobi", "Oslo", "Quito", "Lima", "1815", "42 km", "Ada", "question")


@dataclasses.dataclass(frozen=True)
class Inputs:
    """Folders and files of a training run over eight tiles: six for training, two for validation."""

    root: Path
    tiles: Path
    model: Path
    tile_ids: tuple[str, ...]

    def config(self, out: Path, **changes: Any) -> Config:
        values: dict[str, Any] = {
            "out": out,
            "model": self.model,
            "examples": self.root / "examples.jsonl",
            "tiles": self.tiles,
            "validation": self.root / "validation.jsonl",
            "splits": self.root,
            "seed": 7,
            "trainable": "full",
            "loss": LossConfig(0.1, learn_temperature=True),
            "steps": 8,
            "batch_size": 4,
            "hard_negatives": 2,
            "random_tiles": 2,
            "learning_rate": 2e-3,
            "warmup_steps": 2,
            "weight_decay": 0.01,
            "max_grad_norm": 1.0,
            "validate_every": 2,
            "save_every": 3,
            "keep": "best",
            "validation_metric": "mrr",
            "validation_queries": 100,
            "train_recall_every": 4,
            "threads": 1,
            "cache_mib": 64,
        }
        return Config(**(values | changes))


def pair(number: int, tile_id: str) -> QAPair:
    page_id = tile_id.partition("-")[0]
    return QAPair(
        f"v{number}", f"Where is {WORDS[number]}?", WORDS[number], (), tile_id, page_id, "", "p", "s", "test/1"
    )


@pytest.fixture(scope="module")
def inputs(reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    root = tmp_path_factory.mktemp("embedder_inputs")
    ids = reader_parts.tile_ids
    examples = [
        TrainingExample(
            f"q{number}", f"Tell of {WORDS[number % 8]} {number}", ids[number % 6], (ids[(number + 1) % 6],)
        )
        for number in range(10)
    ]
    write_jsonl(root / "examples.jsonl", examples)
    write_jsonl(root / "validation.jsonl", [pair(number, ids[6 + number % 2]) for number in range(4)])
    pages = [tile_id.partition("-")[0] for tile_id in ids]
    (root / "pages.json").write_text(json.dumps({"train": pages[:6], "validation": pages[6:], "test": []}))
    return Inputs(root, reader_parts.tiles, reader_parts.model.parent / "embedder", ids)


@pytest.fixture(scope="module")
def finished(inputs: Inputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of an uninterrupted run."""
    out = tmp_path_factory.mktemp("finished") / "embedder"
    run_stage(STAGE, inputs.config(out))
    return out


def curve_of(out: Path) -> list[dict[str, float]]:
    return [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]


def counts_of(out: Path) -> dict[str, Any]:
    counts: dict[str, Any] = json.loads((out / "manifest.json").read_text())["counts"]
    return counts


def test_curve_has_a_line_a_step_and_no_timings(finished: Path) -> None:
    curve = curve_of(finished)
    assert [entry["step"] for entry in curve] == list(range(9))
    assert {"loss", "learning_rate", "grad_norm", "accuracy", "positive_similarity", "temperature"} <= curve[1].keys()
    assert [entry["step"] for entry in curve if "validation_mrr" in entry] == [0, 2, 4, 6, 8]
    assert [entry["step"] for entry in curve if "train_recall_at_1" in entry] == [0, 4, 8]
    assert curve[8]["temperature"] != curve[1]["temperature"]
    assert not any("second" in name or name.endswith("_s") or "share" in name for entry in curve for name in entry)
    progress = [json.loads(line) for line in (finished / "logs/progress.jsonl").read_text().splitlines()]
    assert {"loss", "samples_per_s", "data_wait_share"} <= progress[-1].keys()


def test_the_best_validation_is_kept_and_the_checkpoint_is_it(finished: Path, inputs: Inputs) -> None:
    curve, counts = curve_of(finished), counts_of(finished)
    found = {
        int(entry["step"]): entry["validation_mrr"] for entry in curve if "validation_mrr" in entry and entry["step"]
    }
    assert counts["kept_step"] == min(found, key=lambda step: (-found[step], step))
    assert counts["best_beats_start"] == (max(found.values()) > curve[0]["validation_mrr"])
    encoder = load_encoder(finished / "checkpoint")
    config = inputs.config(finished)
    folders = {name: getattr(config, name) for name in ("examples", "tiles", "validation", "splits")}
    data = load_training_data(folders, seed=7, limit_examples=None, validation_queries=500, train_recall_queries=64)
    figures = retrieval_figures(encoder, TileInputs(encoder, data.store), data.validation, 0, 1)
    kept = {name: value for name, value in counts["kept"].items() if name.startswith("validation_")}
    assert {f"validation_{name}": value for name, value in figures.items()} == pytest.approx(kept)
    assert (
        counts["validation_pool"] == {"queries": 4, "tiles": 2, "pages": 2} and counts["validation_chance_at_1"] == 0.5
    )
    assert sorted(path.name for path in finished.iterdir()) == ["checkpoint", "curve.jsonl", "logs", "manifest.json"]


def test_it_learns_and_keep_last_is_the_last(inputs: Inputs, tmp_path: Path) -> None:
    """Ten questions and six tiles from random weights: found in a minute of toy training, not before."""
    loss = LossConfig(0.05, learn_temperature=False)
    options = {"batch_size": 10, "learning_rate": 1e-3, "warmup_steps": 5, "loss": loss, "hard_negatives": 0}
    config = inputs.config(tmp_path / "out", keep="last", steps=40, validate_every=40, train_recall_every=40, **options)
    run_stage(STAGE, config)
    counts, curve = counts_of(config.out), curve_of(config.out)
    assert counts["kept_step"] == 40 and counts["train_recall_at_1"] == curve[-1]["train_recall_at_1"] >= 0.6
    assert counts["before"]["train_recall_at_1"] <= 0.3 and curve[-1]["loss"] < 0.5 * curve[1]["loss"]
    assert counts["train_recall_pool"] == {"queries": 10, "tiles": 6, "pages": 6}


class Killed(BaseException):
    """Stands for a kill: nothing in the stage may catch it."""


def interrupt(monkeypatch: pytest.MonkeyPatch, owner: Any, name: str, call: int, act: Callable[[], None]) -> None:
    """Do ``act`` right after the ``call``-th call of ``owner.name``."""
    original, calls = getattr(owner, name), [0]

    def wrapped(*arguments: Any, **options: Any) -> Any:
        result = original(*arguments, **options)
        calls[0] += 1
        if calls[0] == call:
            act()
        return result

    monkeypatch.setattr(owner, name, wrapped)


def killed() -> None:
    raise Killed


@pytest.mark.parametrize(
    ("owner", "name", "call"),
    [
        (Run, "record", 1),  # before the first update
        (Run, "record", 6),  # between two saves
        (embedder_run.training_checkpoint, "save_best", 1),  # best weights of a step that is made again
        (embedder_run.training_checkpoint, "save_resume", 2),
        (embedder_run, "save_encoder", 1),  # all but the manifest is written
    ],
)
def test_a_run_that_goes_on_is_byte_identical(
    owner: Any, name: str, call: int, finished: Path, inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = inputs.config(tmp_path / "embedder")
    with monkeypatch.context() as patch:
        interrupt(patch, owner, name, call, killed)
        with pytest.raises(Killed):
            run_stage(STAGE, config)
    assert not config.out.exists()
    run_stage(STAGE, config)
    assert output_digests(config.out) == output_digests(finished)


def test_sigterm_saves_and_exits(
    finished: Path, inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = inputs.config(tmp_path / "embedder", save_every=100)
    before = signal.getsignal(signal.SIGTERM)
    with monkeypatch.context() as patch:
        interrupt(patch, Run, "update", 5, lambda: os.kill(os.getpid(), signal.SIGTERM))
        with pytest.raises(SystemExit, match="stopped after step 5; run it again"):
            run_stage(STAGE, config)
    assert signal.getsignal(signal.SIGTERM) is before
    assert (partial_of(config.out) / ".resume/step-5").is_dir()
    interrupt(monkeypatch, Run, "update", 4, killed)  # three updates remain
    run_stage(STAGE, config)
    assert output_digests(config.out) == output_digests(finished)


def as_yaml(config: Config) -> str:
    lines = ["kind: stage"]
    for name, value in dataclasses.asdict(config).items():
        lines.append(f"{name}: {json.dumps(value, default=str)}")
    return "\n".join(lines).replace("e-05", ".0e-05") + "\n"


def test_kill_9_and_again_is_byte_identical(finished: Path, inputs: Inputs, tmp_path: Path) -> None:
    """A process of its own, another hash seed, killed while it writes the curve; then finished here."""
    config = inputs.config(tmp_path / "embedder")
    (tmp_path / "run.yaml").write_text(as_yaml(config))
    command = [sys.executable, "-m", "tilewright.train.train_embedder", str(tmp_path / "run.yaml")]
    process = subprocess.Popen(command, env=os.environ | {"PYTHONHASHSEED": "99", "OMP_NUM_THREADS": "1"})
    curve = partial_of(config.out) / "curve.jsonl"
    deadline = time.monotonic() + 300
    while not curve.is_file() or curve.read_bytes().count(b"\n") < 6:
        assert process.poll() is None and time.monotonic() < deadline
        time.sleep(0.01)
    process.kill()
    process.wait()
    assert not config.out.exists()
    with curve.open("a") as file:
        file.write('{"step": 9')  # as if cut off in the middle of a line
    run_stage(STAGE, config)
    assert output_digests(config.out) == output_digests(finished)


@pytest.mark.parametrize("option", [{"symmetric": True, "margin": 0.2}, {"matryoshka": (16, 64)}])
def test_loss_options_reach_the_loss(option: dict[str, Any], finished: Path, inputs: Inputs, tmp_path: Path) -> None:
    loss = LossConfig(0.1, learn_temperature=False, **option)
    run_stage(STAGE, inputs.config(tmp_path / "out", steps=2, warmup_steps=1, keep="last", loss=loss))
    first, plain = curve_of(tmp_path / "out"), curve_of(finished)
    assert first[1]["loss"] != pytest.approx(plain[1]["loss"]) and first[2]["temperature"] == pytest.approx(0.1)


def test_patience_ends_a_run_that_gets_no_better(inputs: Inputs, tmp_path: Path) -> None:
    config = inputs.config(tmp_path / "out", learning_rate=1e-9, steps=20, validate_every=1, patience=2)
    run_stage(STAGE, config)
    counts = counts_of(config.out)
    assert counts["steps"] == 3 and counts["kept_step"] == 1
    assert counts["best_beats_start"] is False
    assert counts["train_recall_at_1"] == curve_of(config.out)[-1]["train_recall_at_1"]  # step 3 is no fourth step


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_adapters_train_and_load(precision: str, inputs: Inputs, tmp_path: Path) -> None:
    groups = {"llm_attn": LoraGroup(2, 4), "vit_attn": LoraGroup(4, 4), "vit_mlp": LoraGroup(2, 2)}
    config = inputs.config(tmp_path / "out", trainable="adapters", adapters=groups, steps=3, keep="last")
    run_stage(STAGE, dataclasses.replace(config, precision=precision))
    counts = counts_of(config.out)
    assert counts["trainable_by_group"].keys() == groups.keys()
    assert counts["trainable_parameters"] == sum(counts["trainable_by_group"].values()) < 100_000
    trained, base = load_encoder(config.out / "checkpoint"), load_encoder(inputs.model)
    image = TileStore.open(inputs.tiles).image(inputs.tile_ids[0])
    assert not torch.allclose(trained.encode_tiles([image]), base.encode_tiles([image]), atol=1e-3)


def test_adapters_resume_to_the_byte(inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    changes = {"trainable": "adapters", "adapters": {"llm_mlp": LoraGroup(2, 4)}, "steps": 5, "save_every": 2}
    one, two = (inputs.config(tmp_path / name, **changes) for name in ("one", "two"))
    run_stage(STAGE, one)
    with monkeypatch.context() as patch:
        interrupt(patch, Run, "record", 5, killed)
        with pytest.raises(Killed):
            run_stage(STAGE, two)
    run_stage(STAGE, two)
    assert output_digests(one.out) == output_digests(two.out)


def test_the_last_checkpoints_stay_and_survive_a_kill(
    inputs: Inputs, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    changes = {"keep_last": 2, "save_every": 2, "steps": 8, "validate_every": 8}
    one, two = (inputs.config(tmp_path / name, **changes) for name in ("one", "two"))
    run_stage(STAGE, one)
    assert sorted(path.name for path in (one.out / "checkpoints").iterdir()) == ["step-6", "step-8"]
    image = TileStore.open(inputs.tiles).image(inputs.tile_ids[0])
    vectors = [load_encoder(one.out / "checkpoints" / name).encode_tiles([image]) for name in ("step-6", "step-8")]
    assert not torch.equal(*vectors)
    with monkeypatch.context() as patch:
        interrupt(patch, embedder_run.training_checkpoint, "keep_last", 3, killed)  # resumes from step 4
        with pytest.raises(Killed):
            run_stage(STAGE, two)
    run_stage(STAGE, two)
    assert output_digests(one.out) == output_digests(two.out)


def test_chunks_change_nothing_but_rounding(finished: Path, inputs: Inputs, tmp_path: Path) -> None:
    run_stage(STAGE, inputs.config(tmp_path / "out", chunking=Chunking(rows=2), steps=2, warmup_steps=1, keep="last"))
    chunked, whole = curve_of(tmp_path / "out"), curve_of(finished)
    assert chunked[1]["loss"] == pytest.approx(whole[1]["loss"], abs=1e-5)
    assert chunked[1]["grad_norm"] == pytest.approx(whole[1]["grad_norm"], rel=1e-4)


def test_checkpointing_changes_nothing_but_rounding(finished: Path, inputs: Inputs, tmp_path: Path) -> None:
    run_stage(STAGE, inputs.config(tmp_path / "out", gradient_checkpointing=True, steps=2, warmup_steps=1, keep="last"))
    found, plain = curve_of(tmp_path / "out"), curve_of(finished)
    assert found[1]["loss"] == pytest.approx(plain[1]["loss"], abs=1e-5)
    assert found[1]["grad_norm"] == pytest.approx(plain[1]["grad_norm"], rel=1e-4)


def test_bfloat16_full_training_keeps_float32_weights(finished: Path, inputs: Inputs, tmp_path: Path) -> None:
    config = inputs.config(tmp_path / "out", precision="bfloat16", steps=2, warmup_steps=1, keep="last")
    run_stage(STAGE, config)
    found, plain = curve_of(tmp_path / "out"), curve_of(finished)
    assert found[1]["loss"] != plain[1]["loss"] and found[1]["loss"] == pytest.approx(plain[1]["loss"], abs=0.05)
    weights = load_file(tmp_path / "out/checkpoint/model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_memorise_run_takes_examples_by_digest(inputs: Inputs, tmp_path: Path) -> None:
    run_stage(STAGE, inputs.config(tmp_path / "out", limit_examples=3, steps=2, keep="last"))
    counts = counts_of(tmp_path / "out")
    assert counts["examples"] == 3 and counts["train_recall_pool"]["queries"] == 3
    assert counts["train_recall_pool"]["tiles"] == 6


def test_nothing_to_validate_on_needs_keep_last(inputs: Inputs, tmp_path: Path) -> None:
    (tmp_path / "validation.jsonl").write_text("")
    config = inputs.config(tmp_path / "out", validation=tmp_path / "validation.jsonl", steps=2)
    with pytest.raises(InputError, match="keep: last"):
        run_stage(STAGE, config)
    run_stage(STAGE, dataclasses.replace(config, out=tmp_path / "last", keep="last"))
    assert counts_of(tmp_path / "last")["validation_pool"]["queries"] == 0
    assert counts_of(tmp_path / "last")["best_beats_start"] is None


def test_a_model_with_another_tokenizer_is_refused(inputs: Inputs, finished: Path, tmp_path: Path) -> None:
    """A checkpoint whose tokenizer files come from elsewhere: the encoder's check reaches the user."""
    checkpoint = tmp_path / "checkpoint"
    shutil.copytree(finished / "checkpoint", checkpoint)
    tokenizer = json.loads((checkpoint / "tokenizer.json").read_text())
    vocabulary = tokenizer["model"]["vocab"]
    words = sorted(vocabulary, key=vocabulary.__getitem__)[-2:]
    vocabulary[words[0]], vocabulary[words[1]] = vocabulary[words[1]], vocabulary[words[0]]
    (checkpoint / "tokenizer.json").write_text(json.dumps(tokenizer))
    with pytest.raises(InputError, match="tokenizer"):
        run_stage(STAGE, inputs.config(tmp_path / "out", model=checkpoint))


def test_a_group_that_matches_nothing_is_refused(inputs: Inputs, tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="wanted one or more of"):
        run_stage(STAGE, inputs.config(tmp_path / "out", trainable="adapters", adapters={"llm": LoraGroup(2, 2)}))


def test_a_loss_that_is_not_finite_stops_the_run(inputs: Inputs, tmp_path: Path) -> None:
    with pytest.raises(StageError, match="lower learning_rate"):
        run_stage(STAGE, inputs.config(tmp_path / "out", learning_rate=1e30, max_grad_norm=1e30, warmup_steps=0))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"steps": 0}, "steps: wanted at least 1"),
        ({"hard_negatives": -1}, "hard_negatives: wanted at least 0"),
        ({"warmup_steps": 9}, "warmup_steps: wanted 0 to steps"),
        ({"trainable": "adapters"}, "LoRA groups"),
        ({"adapters": {"llm_attn": LoraGroup(2, 2)}}, "none with `trainable: full`"),
        ({"text_steps": 3}, "text_steps: wanted 1 to steps"),
        ({"ema_decay": 1.0}, "ema_decay: wanted between 0 and 1"),
        ({"keep_last": -1}, "keep_last: wanted at least 0"),
    ],
)
def test_contradictory_configs_are_refused(
    changes: dict[str, Any], message: str, inputs: Inputs, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        inputs.config(tmp_path / "out", **changes)
    with pytest.raises((ValueError, ConfigError), match="temperature: wanted at least"):
        LossConfig(0.001, learn_temperature=True)
