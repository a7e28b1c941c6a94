"""Two runs side by side: figures equal those of one run that holds both, and other questions are refused."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import QAPair, read_jsonl, write_jsonl
from tilewright.eval.compare_runs import compare_runs
from tilewright.eval.evaluate import STAGE
from tilewright.eval.show_results import USAGE, read_metrics, run, show_comparison


def both(left: Path, right: Path) -> list[dict[str, Any]]:
    return compare_runs(left, right, (read_metrics(left), read_metrics(right)))


@pytest.fixture(scope="module")
def swapped(world: Any, evaluation: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same run, but the row ``base`` is the trained checkpoint and the other way round."""
    base, trained = (world.paths["checkpoints"][name] for name in ("base", "trained"))
    checkpoints = {"base": trained, "trained": base}
    out = tmp_path_factory.mktemp("swapped") / "out"
    changes = {"rows": ("base", "trained", "bm25"), "compare": (("trained", "base"),), "readers": {}, "deliveries": {}}
    run_stage(STAGE, world.config(out, **changes, reader_checkpoints={}, checkpoints=checkpoints))
    return out


def test_differences_equal_those_within_one_run(evaluation: Path, swapped: Path) -> None:
    within = json.loads((evaluation / "metrics.json").read_text())["differences"][0]
    found = {(entry["row"], entry["figure"]): entry for entry in both(evaluation, swapped)}
    assert {row for row, _ in found} == {"base", "trained", "bm25"}
    for level in ("page", "tile"):
        for k in (1, 3, 10):
            entry, wanted = found["base", f"recall@{k} by {level}"], within[level][f"recall@{k}"]
            assert [entry[name] for name in ("value", "low", "high", "gained", "lost")] == [
                wanted[name] for name in ("value", "low", "high", "gained", "lost")
            ]
            assert found["trained", f"recall@{k} by {level}"]["value"] == -wanted["value"]
            assert found["bm25", f"recall@{k} by {level}"]["value"] == 0.0


def test_a_run_equals_itself_in_every_figure(evaluation: Path) -> None:
    found = both(evaluation, evaluation)
    assert any(entry["figure"] == "accuracy: alias" for entry in found)
    assert all(entry["value"] in (0.0, None) and entry["gained"] == entry["lost"] == 0 for entry in found)


def test_printed_and_wrong_calls(evaluation: Path, swapped: Path) -> None:
    console = Console(file=io.StringIO(), width=140)
    show_comparison(evaluation, swapped, console)
    assert "base: recall@10 by tile" in console.file.getvalue()  # type: ignore[attr-defined]
    for arguments in ([], ["--compare", "a"], ["-x"], ["a", "b"]):
        with pytest.raises(SystemExit, match="usage"):
            run(arguments)
    assert "--compare" in USAGE


def test_other_questions_and_other_rows_are_refused(world: Any, evaluation: Path, tmp_path: Path) -> None:
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    write_jsonl(tmp_path / "pairs.jsonl", [dataclasses.replace(pair, query=pair.query + "!") for pair in pairs])
    light = {"compare": (), "readers": {}, "checkpoints": {}, "reader_checkpoints": {}, "deliveries": {}}
    run_stage(STAGE, world.config(tmp_path / "a", rows=("bm25",), pairs=tmp_path / "pairs.jsonl", **light))
    with pytest.raises(InputError, match="bm25: question q00 is another"):
        both(evaluation, tmp_path / "a")
    run_stage(STAGE, world.config(tmp_path / "b", rows=("none",), **light))
    with pytest.raises(InputError, match="wanted a row that both have"):
        both(evaluation, tmp_path / "b")
