"""Embedder training: it learns, keeps the best, resumes to the byte, stops when asked, refuses what it can't use."""

import dataclasses
import json
import math
import shutil
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image
from safetensors.torch import load_file
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tilewright.configs.errors import InputError
from tilewright.configs.load import ConfigError
from tilewright.configs.stage import StageError, partial_of, run_stage
from tilewright.data_gen.records import TrainingExample, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.train import embedder_run
from tilewright.train.adapters import AdapterError, LoraGroup
from tilewright.train.batch_plan import BatchPlan
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.grad_cache import Chunking
from tilewright.train.learner import Learner
from tilewright.train.objective import LOWEST_TEMPERATURE, LossConfig
from tilewright.train.step_inputs import StepInputMaker, TileInputs
from tilewright.train.train_embedder import STAGE, Config
from tilewright.train.training_data import load_training_data
from tilewright.train.validation import retrieval_figures


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


@pytest.mark.parametrize(("limit", "warned"), [(embedder_run.WAIT_WARNING, True), (1.1, False)])
def test_waiting_for_tiles_is_warned_of(
    limit: float,
    warned: bool,
    inputs: Any,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    """A slow disk; no share is above one."""
    image = TileStore.image

    def slow(store: TileStore, tile_id: str) -> Image.Image:
        time.sleep(0.1)
        return image(store, tile_id)

    monkeypatch.setattr(TileStore, "image", slow)
    monkeypatch.setattr(embedder_run, "WAIT_WARNING", limit)
    run_stage(STAGE, inputs.config(tmp_path / "out", steps=3, validate_every=3, train_recall_every=None, keep="last"))
    assert ("of the steps' time was waiting for tiles" in capsys.readouterr().err) == warned
    progress = [json.loads(line) for line in (tmp_path / "out/logs/progress.jsonl").read_text().splitlines()]
    assert progress[-1]["data_wait_share"] > 0.1


def test_trackers_are_told_every_line_of_the_curve(inputs: Any, tmp_path: Path) -> None:
    run_stage(STAGE, inputs.config(tmp_path / "out", steps=2, warmup_steps=1, keep="last", trackers=("tensorboard",)))
    told = EventAccumulator(str(next((tmp_path / "out/logs").rglob("events*")).parent))
    told.Reload()
    for name in ("validation_mrr", "loss"):
        wanted = {entry["step"]: entry[name] for entry in curve_of(tmp_path / "out") if name in entry}
        assert {event.step: event.value for event in told.Scalars(name)} == pytest.approx(wanted)


def test_the_best_validation_is_kept_and_the_checkpoint_is_it(finished: Path, inputs: Any) -> None:
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
    figures = retrieval_figures(encoder, TileInputs(encoder.batcher, data.store), data.validation, 0, 1)
    kept = {name: value for name, value in counts["kept"].items() if name.startswith("validation_")}
    assert {f"validation_{name}": value for name, value in figures.items()} == pytest.approx(kept)
    assert (
        counts["validation_pool"] == {"queries": 4, "tiles": 2, "pages": 2} and counts["validation_chance_at_1"] == 0.5
    )
    assert sorted(path.name for path in finished.iterdir()) == ["checkpoint", "curve.jsonl", "logs", "manifest.json"]


def test_it_learns_and_keep_last_is_the_last(inputs: Any, tmp_path: Path) -> None:
    """Ten questions and six tiles from random weights: found in a minute of toy training, not before."""
    loss = LossConfig(0.05, learn_temperature=False)
    options = {"batch_size": 10, "learning_rate": 1e-3, "warmup_steps": 5, "loss": loss, "hard_negatives": 0}
    config = inputs.config(tmp_path / "out", keep="last", steps=40, validate_every=40, train_recall_every=40, **options)
    run_stage(STAGE, config)
    counts, curve = counts_of(config.out), curve_of(config.out)
    assert counts["kept_step"] == 40 and counts["train_recall_at_1"] == curve[-1]["train_recall_at_1"] >= 0.6
    assert counts["before"]["train_recall_at_1"] <= 0.3 and curve[-1]["loss"] < 0.5 * curve[1]["loss"]
    assert counts["train_recall_pool"] == {"queries": 10, "tiles": 6, "pages": 6}


@pytest.mark.parametrize("option", [{"symmetric": True, "margin": 0.2}, {"matryoshka": (16, 64)}])
def test_loss_options_reach_the_loss(option: dict[str, Any], finished: Path, inputs: Any, tmp_path: Path) -> None:
    loss = LossConfig(0.1, learn_temperature=False, **option)
    run_stage(STAGE, inputs.config(tmp_path / "out", steps=2, warmup_steps=1, keep="last", loss=loss))
    first, plain = curve_of(tmp_path / "out"), curve_of(finished)
    assert first[1]["loss"] != pytest.approx(plain[1]["loss"]) and first[2]["temperature"] == pytest.approx(0.1)


def first_steps(config: Config, encoder: Encoder) -> StepInputMaker:
    """Step inputs of the run's examples."""
    plan = BatchPlan(read_jsonl(config.examples, TrainingExample), batch_size=4, seed=0)
    return StepInputMaker(plan, TileInputs(encoder.batcher, TileStore.open(config.tiles)), 0, 1)


def test_a_temperature_below_its_bound_is_lifted_by_the_next_update(inputs: Any, tmp_path: Path) -> None:
    config, encoder = inputs.config(tmp_path, temperature_learning_rate=1e-9), load_encoder(inputs.model)
    learner, make = Learner(config, encoder, 0), first_steps(config, encoder)
    learner.load_weights(learner.weights() | {"objective.log_temperature": torch.tensor(-6.0)})
    used = [learner.update(step, make(step))["temperature"] for step in range(2)]
    assert used == pytest.approx([math.exp(-6), LOWEST_TEMPERATURE])


def test_a_group_that_gets_no_gradient_ends_the_run_at_its_first_update(inputs: Any, tmp_path: Path) -> None:
    groups = {"llm_attn": LoraGroup(2, 4), "vit_mlp": LoraGroup(2, 4)}
    config = inputs.config(tmp_path, trainable="adapters", adapters=groups)
    encoder = load_encoder(inputs.model)
    learner, make = Learner(config, encoder, 0), first_steps(config, encoder)
    for name, weight in encoder.model.named_parameters():
        weight.requires_grad_(weight.requires_grad and ".visual." not in name)
    with pytest.raises(AdapterError, match=r"\['vit_mlp'\] did not move"):
        learner.update(0, make(0))


def test_patience_ends_a_run_that_gets_no_better(inputs: Any, tmp_path: Path) -> None:
    config = inputs.config(tmp_path / "out", learning_rate=1e-9, steps=20, validate_every=1, patience=2)
    run_stage(STAGE, config)
    counts = counts_of(config.out)
    assert counts["steps"] == 3 and counts["kept_step"] == 1
    assert counts["best_beats_start"] is False
    assert counts["train_recall_at_1"] == curve_of(config.out)[-1]["train_recall_at_1"]  # step 3 is no fourth step


@pytest.mark.parametrize("precision", ["float32", "bfloat16"])
def test_adapters_train_and_load(precision: str, inputs: Any, tmp_path: Path) -> None:
    groups = {"llm_attn": LoraGroup(2, 4), "vit_attn": LoraGroup(4, 4), "vit_mlp": LoraGroup(2, 2)}
    config = inputs.config(tmp_path / "out", trainable="adapters", adapters=groups, steps=3, keep="last")
    run_stage(STAGE, dataclasses.replace(config, precision=precision))
    counts = counts_of(config.out)
    assert counts["trainable_by_group"].keys() == groups.keys()
    assert counts["trainable_parameters"] == sum(counts["trainable_by_group"].values()) < 100_000
    trained, base = load_encoder(config.out / "checkpoint"), load_encoder(inputs.model)
    image = TileStore.open(inputs.tiles).image(inputs.tile_ids[0])
    assert not torch.allclose(trained.encode_tiles([image]), base.encode_tiles([image]), atol=1e-3)
    again = dataclasses.replace(inputs.config(tmp_path / "again"), model=config.out / "checkpoint")
    with pytest.raises(InputError, match="trainable: full: wanted a model without adapters"):
        run_stage(STAGE, again)


def test_chunks_change_nothing_but_rounding(finished: Path, inputs: Any, tmp_path: Path) -> None:
    run_stage(STAGE, inputs.config(tmp_path / "out", chunking=Chunking(rows=2), steps=2, warmup_steps=1, keep="last"))
    chunked, whole = curve_of(tmp_path / "out"), curve_of(finished)
    assert chunked[1]["loss"] == pytest.approx(whole[1]["loss"], abs=1e-5)
    assert chunked[1]["grad_norm"] == pytest.approx(whole[1]["grad_norm"], rel=1e-4)


def test_checkpointing_changes_nothing_but_rounding(finished: Path, inputs: Any, tmp_path: Path) -> None:
    run_stage(STAGE, inputs.config(tmp_path / "out", gradient_checkpointing=True, steps=2, warmup_steps=1, keep="last"))
    found, plain = curve_of(tmp_path / "out"), curve_of(finished)
    assert found[1]["loss"] == pytest.approx(plain[1]["loss"], abs=1e-5)
    assert found[1]["grad_norm"] == pytest.approx(plain[1]["grad_norm"], rel=1e-4)


def test_bfloat16_full_training_keeps_float32_weights(finished: Path, inputs: Any, tmp_path: Path) -> None:
    config = inputs.config(tmp_path / "out", precision="bfloat16", steps=2, warmup_steps=1, keep="last")
    run_stage(STAGE, config)
    found, plain = curve_of(tmp_path / "out"), curve_of(finished)
    assert found[1]["loss"] != plain[1]["loss"] and found[1]["loss"] == pytest.approx(plain[1]["loss"], abs=0.05)
    weights = load_file(tmp_path / "out/checkpoint/model.safetensors")
    assert {weight.dtype for weight in weights.values()} == {torch.float32}


def test_schedules_groups_and_kinds_of_adapters_reach_the_optimiser(inputs: Any, tmp_path: Path) -> None:
    groups = {"llm_attn": LoraGroup(2, 4, learning_rate=1e-9), "vit_mlp": LoraGroup(2, 4, dropout=0.1)}
    options = {"use_dora": True, "use_rslora": True, "schedule": "linear", "final_share": 0.5, "keep": "last"}
    config = inputs.config(tmp_path / "out", trainable="adapters", adapters=groups, steps=4, **options)
    run_stage(STAGE, config)
    assert [entry["learning_rate"] for entry in curve_of(config.out)[1:]] == pytest.approx([1e-3, 2e-3, 2e-3, 1.5e-3])
    weights = load_file(config.out / "checkpoint/adapter/adapter_model.safetensors")
    moved = {
        group: max(float(value.abs().max()) for name, value in weights.items() if part in name and "lora_B" in name)
        for group, part in {"llm_attn": "self_attn", "vit_mlp": "visual"}.items()
    }
    assert 0 < moved["llm_attn"] < 1e-7 < 1e-4 < moved["vit_mlp"]
    assert any("magnitude" in name for name in weights)


@pytest.mark.parametrize(
    "changes", [{"batch_size": 1, "hard_negatives": 0, "random_tiles": 0}, {"loss": LossConfig(0.1, True, margin=-5.0)}]
)
def test_a_step_without_any_negative_is_an_error(changes: dict[str, Any], inputs: Any, tmp_path: Path) -> None:
    with pytest.raises(StageError, match="has a negative, so there is nothing to learn"):
        run_stage(STAGE, inputs.config(tmp_path / "out", **changes))


def test_memorise_run_takes_examples_by_digest(inputs: Any, tmp_path: Path) -> None:
    run_stage(STAGE, inputs.config(tmp_path / "out", limit_examples=3, steps=2, keep="last"))
    counts = counts_of(tmp_path / "out")
    assert counts["examples"] == 3 and counts["train_recall_pool"]["queries"] == 3
    assert counts["train_recall_pool"]["tiles"] == 6


def test_nothing_to_validate_on_needs_keep_last(inputs: Any, tmp_path: Path) -> None:
    (tmp_path / "validation.jsonl").write_text("")
    config = inputs.config(tmp_path / "out", validation=tmp_path / "validation.jsonl", steps=2)
    with pytest.raises(InputError, match="keep: last"):
        run_stage(STAGE, config)
    run_stage(STAGE, dataclasses.replace(config, out=tmp_path / "last", keep="last"))
    assert counts_of(tmp_path / "last")["validation_pool"]["queries"] == 0
    assert counts_of(tmp_path / "last")["best_beats_start"] is None


def test_a_model_with_another_tokenizer_is_refused(inputs: Any, finished: Path, tmp_path: Path) -> None:
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


def test_a_group_that_matches_nothing_is_refused(inputs: Any, tmp_path: Path) -> None:
    with pytest.raises(AdapterError, match="wanted one or more of"):
        run_stage(STAGE, inputs.config(tmp_path / "out", trainable="adapters", adapters={"llm": LoraGroup(2, 2)}))


def test_a_loss_that_is_not_finite_stops_the_run(inputs: Any, tmp_path: Path) -> None:
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
        (
            {
                "text_steps": 3,
                "text_pairs": Path("text_pairs.jsonl"),
                "trainable": "adapters",
                "adapters": {"vit_attn": LoraGroup(2, 2)},
                "loss": LossConfig(0.1, learn_temperature=False),
            },
            "texts reach none of",
        ),
        ({"ema_decay": 1.0}, "ema_decay: wanted between 0 and 1"),
        ({"keep_last": -1}, "keep_last: wanted at least 0"),
        ({"temperature_learning_rate": -1.0}, "temperature_learning_rate: wanted more than 0"),
        ({"train_recall_every": 0}, "train_recall_every: wanted at least 1, or null"),
        ({"use_dora": True}, "wanted false with `trainable: full`"),
        ({"trackers": ("tensorboard", "tensorboard")}, "trackers: wanted none twice"),
    ],
)
def test_contradictory_configs_are_refused(changes: dict[str, Any], message: str, inputs: Any, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        inputs.config(tmp_path / "out", **changes)
    with pytest.raises((ValueError, ConfigError), match="temperature: wanted at least"):
        LossConfig(0.001, learn_temperature=True)
    with pytest.raises((ValueError, ConfigError), match="matryoshka: wanted different dimensions above 0"):
        LossConfig(0.1, learn_temperature=True, matryoshka=(16, 16))


@pytest.mark.parametrize("changes", [{}, {"keep_last": 1, "validate_every": 5, "save_every": 1, "steps": 2}])
def test_weights_that_give_no_vectors_of_tiles_are_never_kept(changes: Any, inputs: Any, tmp_path: Path) -> None:
    """Loss and gradients of the only update are finite, queries don't see the broken part: tiles alone are NaN."""
    options = {
        "trainable": "adapters",
        "adapters": {"vit_mlp": LoraGroup(2, 4)},
        "warmup_steps": 0,
        "validate_every": 1,
    }
    config = inputs.config(tmp_path / "out", **(options | {"steps": 1, "learning_rate": 1e20} | changes))
    with pytest.raises(StageError, match=r"step 1: the encoder gave NaN or infinity .*lower learning_rate"):
        run_stage(STAGE, config)
    partial = partial_of(config.out)
    assert not list(partial.glob(".best/*")) and not list(partial.glob(".resume/*"))
    assert [entry["step"] for entry in curve_of(partial) if "validation_mrr" in entry] == [0]


def test_matryoshka_beyond_the_model_is_refused(inputs: Any, tmp_path: Path) -> None:
    loss = LossConfig(0.1, learn_temperature=True, matryoshka=(16, 4096))
    with pytest.raises(InputError, match=r"loss\.matryoshka: wanted at most 64, .*, found 4096"):
        run_stage(STAGE, inputs.config(tmp_path / "out", loss=loss))
