"""The recipe of two rounds as it ships: mine, train, mine with the trained checkpoint, train."""

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.cli import STAGES, main
from tilewright.configs.recipe import load_recipe
from tilewright.data_gen.records import TrainingExample, read_jsonl
from tilewright.train.encoder import load_encoder
from tilewright.train.encoder_io import read_encoder_file

RECIPES = Path(__file__).parents[2] / "configs/recipes"


def counts(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "manifest.json").read_text())["counts"]
    return found


@pytest.mark.slow
def test_two_rounds_run_and_the_second_mines_with_what_the_first_trained(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TILEWRIGHT_RUNS", str(tmp_path))
    main(["run", str(RECIPES / "two_rounds.yaml"), "steps=2", "top_k=5"])
    runs = tmp_path / "two_rounds"
    hashes = [json.loads((runs / f"index_{n}/index.json").read_text())["encoder_hash"] for n in (1, 2)]
    trained = read_encoder_file(runs / "embedder_1/checkpoint").hash
    assert hashes[1] == trained != hashes[0] == load_encoder(runs / "base/embedder").hash
    first, second = (read_jsonl(runs / f"negatives_{n}/examples.jsonl", TrainingExample) for n in (1, 2))
    assert [one.query_id for one in first] == [one.query_id for one in second]
    for before, after in zip(first, second, strict=True):
        assert set(before.known_positive_tile_ids) <= set(after.known_positive_tile_ids)
    assert [counts(runs / f"negatives_{n}")["round"] for n in (1, 2)] == [1, 2]
    assert counts(runs / "negatives_2")["negatives"] > 0 < counts(runs / "embedder_2")["examples"]
    times = {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()}
    main(["run", str(RECIPES / "two_rounds.yaml"), "steps=2", "top_k=5"])
    assert times == {path: path.stat().st_mtime_ns for path in runs.rglob("*") if path.is_file()}


@pytest.mark.parametrize("name", ["two_rounds.yaml", "two_rounds_paper.yaml"])
def test_rounds_are_mine_and_train_twice(name: str) -> None:
    steps = [step.stage for step in load_recipe(RECIPES / name, list(STAGES))]
    round_ = ["embed_tiles", "build_index", "mine_negatives", "train_embedder"]
    assert steps[-8:] == round_ * 2
