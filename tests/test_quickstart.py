"""The quickstart's promises, on the whole recipe (a quarter of an hour on 2 cores); no test page is trained on."""

import dataclasses
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import STAGES, find_stage
from tilewright.configs.load import load
from tilewright.configs.recipe import load_recipe
from tilewright.configs.stage import run_stage
from tilewright.data_gen import split_pairs
from tilewright.data_gen.records import Page, QAPair, read_jsonl, write_jsonl
from tilewright.train.adapters import LoraGroup

ROOT = Path(__file__).parent.parent
RECIPE = ROOT / "configs/quickstart.yaml"
COMMAND = [sys.executable, "-m", "tilewright.cli", "run", str(RECIPE)]
SPLITS = ("train", "validation", "test")
ARMS = ("embedder", "embedder_frozen")


def counts(runs: Path, stage: str) -> dict[str, Any]:
    manifest: dict[str, Any] = json.loads((runs / "quickstart" / stage / "manifest.json").read_text())
    return manifest["counts"]  # type: ignore[no-any-return]


def configs() -> dict[str, Any]:
    """{name of the folder that a stage of the recipe writes: its config}."""
    loaded = [load(step.config, find_stage(step.stage).config) for step in load_recipe(RECIPE, list(STAGES))]
    return {config.out.name: config for config in loaded}


def pairs_of(part: str, pages: list[str]) -> list[QAPair]:
    """Three pairs a page; kinds of evidence differ by ``part``, as they do between whole tiles and crops."""
    kinds = {"tiles": ("infobox", "paragraph"), "crops": ("paragraph", "table", "list")}[part]
    return [
        QAPair(
            query_id=f"{part}-{number}-{page}",
            query=f"Which {part} stands on {page} as number {number}?",
            answer="x",
            aliases=(),
            tile_id=f"{page}-{number:04d}-00",
            page_id=page,
            source_span="x",
            source_type=kinds[int(page, 16) % len(kinds)],
            subject=page,
            annotator="grounded/2",
        )
        for page in pages
        for number in range(3)
    ]


def test_crops_of_test_pages_never_reach_training(tmp_path: Path) -> None:
    """The two split stages of the recipe, on pairs of the same pages that differ in number and kind."""
    pages = [f"{number:016x}" for number in range(60)]
    given = {"splits": ("tiles", pages), "crop_splits": ("crops", pages[5:])}  # five pages give no pairs on crops
    shown = configs()
    found = {}
    for name, (part, of_pages) in given.items():
        folder = tmp_path / part
        (folder / "pairs").mkdir(parents=True)
        (folder / "rendered").mkdir()
        write_jsonl(folder / "pairs" / "pairs.jsonl", pairs_of(part, of_pages))
        records = [
            Page(page, f"https://example.org/{page}", page, "", "wiki_dump", 875, 1024, True, 3) for page in pages
        ]
        write_jsonl(folder / "rendered" / "pages.jsonl", records)
        places = {"pairs": folder / "pairs", "tiles": folder / "rendered", "out": tmp_path / name}
        sets = {
            "evaluation_sets": tuple(tmp_path / path.parent.name / path.name for path in shown[name].evaluation_sets)
        }
        run_stage(split_pairs.STAGE, dataclasses.replace(shown[name], **places, **sets))
        listed = json.loads((tmp_path / name / "pages.json").read_text())
        found[name] = {split: listed[split] for split in SPLITS}
    assert found["splits"] == found["crop_splits"] and all(found["splits"].values())
    trained_on = {
        pair.page_id for split in SPLITS[:2] for pair in read_jsonl(tmp_path / "crop_splits" / f"{split}.jsonl", QAPair)
    }
    tested = {pair.page_id for pair in read_jsonl(tmp_path / "splits" / "test.jsonl", QAPair)}
    assert trained_on and tested and not trained_on & tested


def test_training_is_held_to_the_splits_of_the_tiles() -> None:
    """Mining and training refuse pairs about other pages than those of the splits that the evaluation goes by."""
    shown = configs()
    evaluation, mined = shown["evaluation"], shown["negatives"]
    assert mined.pages == shown["splits"].out / "pages.json"
    assert evaluation.pairs == shown["splits"].out / "test.jsonl" and evaluation.splits == shown["splits"].out
    assert shown["crop_splits"].evaluation_sets == (evaluation.pairs,)
    for name in ("embedder", "embedder_frozen"):
        assert shown[name].splits == shown["splits"].out and shown[name].examples == mined.out / "examples.jsonl"
    assert {config.compression for config in map(shown.get, ("nano", "nano_full", "tiles_9x", "crops_9x"))} == {9.0}


def test_the_arms_differ_in_what_is_trained_alone() -> None:
    shown = configs()
    arms = [dataclasses.replace(shown[name], out=Path(), adapters={"heads": LoraGroup(1, 1.0)}) for name in ARMS]
    assert arms[0] == arms[1]
    tower, heads = (shown[name].adapters for name in ARMS)
    assert set(tower) == {"vit_attn", "vit_mlp"} and set(heads) == {"heads"}
    assert len({(group.rank, group.alpha, group.learning_rate) for group in (*tower.values(), *heads.values())}) == 1


@pytest.mark.slow
@pytest.mark.browser
def test_quickstart_keeps_its_promises(tmp_path: Path) -> None:
    environment = os.environ | {"TILEWRIGHT_RUNS": str(tmp_path)}
    interrupted = subprocess.Popen(COMMAND, env=environment, stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "quickstart/tiles.partial/.journal.jsonl").exists():
        time.sleep(0.1)
    interrupted.send_signal(signal.SIGINT)
    _, said = interrupted.communicate(timeout=60)
    assert interrupted.returncode == 130 and "the same command goes on where it was" in said
    subprocess.run(COMMAND, env=environment, check=True, timeout=3600)

    assert counts(tmp_path, "tiles")["tiles"] <= 300 and counts(tmp_path, "tiles")["failed"] == 0
    pairs = counts(tmp_path, "filtered")
    assert pairs["kept"] >= 1500 and pairs["pages_with_pairs"] >= 90
    assert pairs["without_title"] >= pairs["kept"] / 3
    metrics = json.loads((tmp_path / "quickstart/evaluation/metrics.json").read_text())
    assert metrics["rows"]["trained"]["n_questions"] == counts(tmp_path, "splits")["test"]
    assert metrics["questions"]["on_train_pages"] == metrics["questions"]["on_validation_pages"] == 0
    recall = {name: row["tile"]["recall@10"]["value"] for name, row in metrics["rows"].items()}
    assert recall["trained"] >= 2 * recall["base"] > recall["frozen"], recall
    better = {(pair["row"], pair["against"]): pair["tile"]["recall@10"]["low"] for pair in metrics["differences"]}
    assert better["trained", "base"] > 0 and better["trained", "frozen"] > 0
    said = " ".join(metrics["stand_ins"])
    assert "lexical reader" in said and "accuracy by resolution" in said
    assert (tmp_path / "quickstart/evaluation/report.html").stat().st_size > 100_000

    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    subprocess.run(COMMAND, env=environment, check=True, timeout=300)
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()} == before
