"""Pretraining: its loss in closed form, readers that load, kills and ranks that change nothing."""

import dataclasses
import json
import math
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.train.stage_process import wait_for, write_yaml
from tests.train.test_nano_data import characters

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.characters import CHARACTERS, page_file, write_page, write_table
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.encoder import load_encoder
from tilewright.train.nano import CELLS, CLASSES, Reading
from tilewright.train.nano_characters import BLANK
from tilewright.train.nano_data import IGNORED, WindowBatch
from tilewright.train.pretrain_nano import (
    BLANK_WEIGHT,
    CONTEXT_WEIGHT,
    STAGE,
    START_WEIGHT,
    Config,
    Phase,
    reading_loss,
)

PHASES = (Phase("nano-full", 4, 2e-3, 1), Phase("nano", 3, 1e-3, 1, (1.0, 4.0)))


@pytest.fixture(scope="module")
def tiles(reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The eight tiles' folder with a table of characters beside it; the pictures don't show them."""
    folder = tmp_path_factory.mktemp("reading")
    (folder / "store").symlink_to(reader_parts.tiles)
    store = TileStore.open(folder)
    (folder / "work").mkdir()
    for number, tile_id in enumerate(store.tile_ids):
        shown = characters("Sphinx of black quartz, judge my vow", top_px=10.0 + 12 * number)
        write_page(page_file(folder / "work", tile_id.partition("-")[0]), {tile_id: shown})
    write_table(folder / CHARACTERS, store, folder / "work")
    return folder


@pytest.fixture
def config(tiles: Path, tmp_path: Path) -> Config:
    return Config(
        out=tmp_path / "readers",
        seed=5,
        phases=PHASES,
        batch_windows=4,
        weight_decay=0.02,
        max_grad_norm=1.0,
        validate_every=3,
        save_every=2,
        held_out_tiles=2,
        threads=1,
        tiles=tiles,
        held_out=tiles,
        depth=1,
        width=32,
        inner_width=64,
        heads=1,
        dimension=128,
        window_rows=4,
        window_columns=8,
    )


def test_uniform_readings_lose_the_logs_of_what_could_be() -> None:
    zero = torch.zeros(2, 1, 1, CELLS, CLASSES)
    reading = Reading(zero, zero, zero, torch.zeros(2, 1, 1, CELLS))
    labels = torch.full((2, 1, 1, CELLS), BLANK)
    ignored = torch.full((2, 1, 1, CELLS), IGNORED)
    pixels = torch.zeros(2, 16, 16, 3, dtype=torch.uint8)
    loss, accuracy = reading_loss(reading, WindowBatch(pixels, labels, ignored, ignored, ignored))
    assert loss == pytest.approx(math.log(CLASSES)) and accuracy == 0.0
    filled = [label.clone() for label in (labels, ignored, ignored, ignored)]
    for label, value in zip(filled, (0, 7, BLANK, 1), strict=True):
        label[0, 0, 0, 2] = value
    loss, accuracy = reading_loss(reading, WindowBatch(pixels, *filled))
    wanted = (1 + 2 * CONTEXT_WEIGHT) * math.log(CLASSES) + START_WEIGHT * math.log(2)
    assert loss == pytest.approx(wanted) and accuracy == 1.0, "class 0 wins a tie"
    assert 0 < BLANK_WEIGHT < 1


def test_readers_load_and_the_curve_tells_what_they_read(config: Config) -> None:
    counts = run_stage(STAGE, config)["counts"]
    curve = [json.loads(line) for line in (config.out / "curve.jsonl").read_text().splitlines()]
    assert [entry["step"] for entry in curve] == list(range(1, 8))
    assert [entry["phase"] for entry in curve] == ["nano-full"] * 4 + ["nano"] * 3
    assert [entry["step"] for entry in curve if "word_recall@4" in entry] == [3, 4, 6, 7]
    assert counts["tiles"] == 8 and counts["held_out_tiles"] == 2 and set(counts["phases"]) == {"nano-full", "nano"}
    assert counts["phases"]["nano"]["character_recall@1"] == curve[-1]["character_recall@1"]
    hashes = set()
    for name in counts["phases"]:
        encoder = load_encoder(config.out / name)
        hashes.add(encoder.hash)
        assert encoder.encode_queries(["quartz"]).shape == (1, 128)
        weights = encoder.model.binding.weights
        assert weights.unique().numel() > 1, "trigrams have weights by how rare they are"
    assert len(hashes) == 2
    again = run_stage(STAGE, config)
    assert again["counts"] == counts


def test_killed_after_any_checkpoint_it_ends_with_the_same_bytes(config: Config) -> None:
    whole = dataclasses.replace(config, out=config.out.with_name("whole"))
    run_stage(STAGE, whole)
    for step, number in ((2, signal.SIGKILL), (4, signal.SIGTERM)):
        command = [sys.executable, "-m", "tilewright.train.pretrain_nano", str(write_yaml(config))]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        partial = config.out.with_name(f"{config.out.name}.partial")
        wait_for(partial / f".resume/step-{step}", process)
        process.send_signal(number)
        process.communicate(timeout=120)
    run_stage(STAGE, config)
    assert output_digests(config.out) == output_digests(whole.out)


@pytest.mark.slow
def test_two_processes_share_a_step(config: Config) -> None:
    command = [sys.executable, "-m", "torch.distributed.run", "--nproc_per_node=2", "--master_port=29617"]
    command += ["-m", "tilewright.train.pretrain_nano", str(write_yaml(config))]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run(command, env=environment, check=True, capture_output=True, timeout=300)
    manifest = json.loads((config.out / "manifest.json").read_text())
    assert manifest["counts"]["phases"].keys() == {"nano-full", "nano"}


def test_tiles_without_characters_are_refused(config: Config, reader_parts: Any) -> None:
    with pytest.raises(InputError, match="run render_tiles with"):
        run_stage(STAGE, dataclasses.replace(config, tiles=reader_parts.tiles))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"phases": ()}, "at least one"),
        ({"phases": (PHASES[0], PHASES[0])}, "a name of its own"),
        ({"precision": "float16"}, "wanted bfloat16 or float32"),
        ({"batch_windows": 0}, "batch_windows"),
    ],
)
def test_configs_that_can_not_be(config: Config, changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(config, **changes)


@pytest.mark.parametrize(
    "values",
    [("a", 3, 1e-3, 4), ("a", 0, 1e-3, 0), ("a", 3, 1e-3, 0, (0.5,)), ("a/b", 3, 1e-3, 0), ("", 3, 1e-3, 0)],
)
def test_phases_that_can_not_be(values: Any) -> None:
    with pytest.raises(ValueError, match=r"wanted|steps"):
        Phase(*values)
