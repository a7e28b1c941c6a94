"""Recall by step against a single run of evaluate, the pick, ranks, and what is refused."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import QAPair, read_jsonl, write_jsonl
from tilewright.eval.evaluate import STAGE as EVALUATE
from tilewright.eval.evaluate_checkpoints import STAGE, Config, checkpoints_of


@pytest.fixture(scope="module")
def run(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A training run that kept one checkpoint."""
    folder = tmp_path_factory.mktemp("kept")
    shutil.copytree(world.root / "trained", folder / "checkpoints" / "step-20")
    return folder


@pytest.fixture(scope="module")
def split(world: Any, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Questions on two pages for validation, on two others for test."""
    folder = tmp_path_factory.mktemp("split")
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    pages = sorted({pair.page_id for pair in pairs})
    write_jsonl(folder / "validation.jsonl", [pair for pair in pairs if pair.page_id in pages[:2]])
    write_jsonl(folder / "test.jsonl", [pair for pair in pairs if pair.page_id in pages[2:]])
    return {name: folder / f"{name}.jsonl" for name in ("validation", "test")}


def config(world: Any, out: Path, run: Path, split: dict[str, Path], **changes: Any) -> Config:
    settings: dict[str, Any] = {
        "checkpoints": (run,), "tiles": world.paths["tiles"], "base": world.root / "tiny" / "embedder",
        "ks": (1, 3), "depth": 12, "pick": "mrr", "level": "tile", "resamples": 50, "confidence": 0.9,
        "seed": 0, "threads": 1,
    }  # fmt: skip
    return Config(out=out, **(settings | split | changes))


def test_each_step_scores_as_a_row_of_evaluate_and_the_best_is_picked(
    world: Any, run: Path, split: dict[str, Path], tmp_path: Path
) -> None:
    out = tmp_path / "sweep"
    manifest = run_stage(STAGE, config(world, out, run, split))
    found = json.loads((out / "metrics.json").read_text())
    for name in ("validation", "test"):
        plain = {"rows": ("base", "trained"), "compare": (), "pairs": split[name], "splits": None}
        run_stage(EVALUATE, world.config(tmp_path / name, **plain))
    rows = json.loads((tmp_path / "validation" / "metrics.json").read_text())["rows"]
    for step, row in (("0", "base"), ("20", "trained")):
        for level in ("page", "tile"):
            for measure in ("recall@1", "recall@3", "mrr"):
                assert found["validation"][step][level][measure]["value"] == rows[row][level][measure]["value"]
    values = {step: found["validation"][step]["tile"]["mrr"]["value"] for step in ("0", "20")}
    picked = max(values, key=lambda step: values[step])
    assert len(set(values.values())) == 2 and manifest["counts"]["picked_step"] == int(picked)
    tested = json.loads((tmp_path / "test" / "metrics.json").read_text())["rows"]
    row = {"0": "base", "20": "trained"}[picked]
    assert found["test"]["tile"]["mrr"]["value"] == tested[row]["tile"]["mrr"]["value"]
    curve = [json.loads(line) for line in (out / "curve.jsonl").read_text().splitlines()]
    assert [line["step"] for line in curve] == [0, 20] and curve[1]["tile_mrr"] == values["20"]
    page = (out / "curves.html").read_text()
    assert page.count("<svg") == 1 and "tile Recall@1, chance" in page and "http://" not in page
    assert not [path for path in out.iterdir() if path.name.startswith(".")]


@pytest.mark.slow
def test_two_ranks_give_the_same_files(world: Any, run: Path, split: dict[str, Path], tmp_path: Path) -> None:
    files = {}
    for ranks in (1, 2):
        out = tmp_path / f"ranks{ranks}"
        settings = {key: str(value) if isinstance(value, Path) else value for key, value in split.items()}
        text = yaml.safe_dump(
            settings
            | {
                "kind": "stage", "out": str(out), "checkpoints": [str(run)], "tiles": str(world.paths["tiles"]),
                "ks": [1], "depth": 12, "pick": "recall@1", "level": "page", "resamples": 50, "confidence": 0.9,
                "seed": 0, "threads": 1, "device": "cpu",
            }
        )  # fmt: skip
        (tmp_path / "c.yaml").write_text(text)
        launch = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc_per_node={ranks}"]
        command = [*launch, "-m", "tilewright.eval.evaluate_checkpoints", str(tmp_path / "c.yaml")]
        subprocess.run(command, check=True, capture_output=True, env=os.environ | {"OMP_NUM_THREADS": "1"})
        files[ranks] = {name: (out / name).read_bytes() for name in ("metrics.json", "curve.jsonl", "curves.html")}
    assert files[1] == files[2]


def test_steps_are_found_in_runs_and_folders(run: Path, tmp_path: Path) -> None:
    for step in (3, 100, 20):
        (tmp_path / "checkpoints" / f"step-{step}").mkdir(parents=True)
    (tmp_path / "checkpoints" / "step-x").mkdir()
    assert list(checkpoints_of([tmp_path], tmp_path / "base")) == [0, 3, 20, 100]
    assert list(checkpoints_of([tmp_path / "checkpoints" / "step-100"], None)) == [100]
    with pytest.raises(InputError, match=r"step 20 in .* and "):
        checkpoints_of([tmp_path, run], None)
    with pytest.raises(InputError, match="keep_last above 0"):
        checkpoints_of([tmp_path / "checkpoints"], None)


def test_questions_that_would_leak_or_cannot_be_found_are_refused(
    world: Any, run: Path, split: dict[str, Path], tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="found 2 of both"):
        run_stage(STAGE, config(world, tmp_path / "a", run, split | {"test": split["validation"]}, base=None))
    pairs = [*read_jsonl(split["test"], QAPair)]
    elsewhere = [pairs[0].__class__(**{**vars(pairs[0]), "page_id": "f" * 16, "tile_id": f"{'f' * 16}-0000-00"})]
    write_jsonl(tmp_path / "other.jsonl", [*pairs[1:], *elsewhere])
    with pytest.raises(InputError, match="mini_datastore"):
        run_stage(STAGE, config(world, tmp_path / "b", run, split | {"test": tmp_path / "other.jsonl"}, base=None))
    with pytest.raises(ValueError, match="pick"):
        config(world, tmp_path / "c", run, split, pick="recall@10")
