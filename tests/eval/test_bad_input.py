"""Bad input to `tilewright evaluate`: graders that are down for some or all, searches that fail; exact counts."""

import dataclasses
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tilewright.configs.load import load
from tilewright.configs.stage import StageError, run_stage
from tilewright.data_gen.records import EvalRecord, QAPair, read_jsonl, write_jsonl
from tilewright.eval.evaluate import STAGE, Config
from tilewright.eval.readers.chat import ChatReader
from tilewright.eval.retrievers.simple import Hybrid
from tilewright.eval.rows import RowSpec

CELL = "bm25.as_is.string.k1"
GRADE = """
def grade(prompt):
    if "unlucky" in prompt.text:
        raise ConnectionError("hangs up")  # as a server that dies does
    return "CORRECT"

RULES = [("Grade the given answer", grade)]
"""
READ = """
def read(prompt):
    return "an answer" if prompt.images else "by memory"

RULES = [("Question: ", read)]
"""


@pytest.fixture
def many(world: Any, tmp_path: Path) -> Path:
    """Twenty questions, two of which the grader can't be asked about."""
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    made = [
        dataclasses.replace(
            pairs[number % 8], query_id=f"q{number:02d}", query=f"{pairs[number % 8].query} ({number}{odd})"
        )
        for number in range(20)
        for odd in [", unlucky" if number in (6, 12) else ""]
    ]
    write_jsonl(tmp_path / "many.jsonl", made)
    return tmp_path / "many.jsonl"


def yaml_of(folder: Path, world: Any, pairs: Path, url: str, share: float) -> Path:
    """A config as a user writes it."""
    llm = {"model": "m", "temperature": 0.0, "max_tokens": 50, "base_url": url, "max_retries": 0, "attempts": 1}
    settings: dict[str, Any] = {
        "kind": "stage", "out": str(folder / "out"), "tiles": str(world.paths["tiles"]), "pairs": str(pairs),
        "rows": [{"retriever": "bm25", "reader": "string", "k": [1]}], "compare": [], "ks": [1], "depth": 5,
        "readers": {"string": {"kind": "string_evidence"}}, "judge": {"llm": llm}, "missing_tool": "error",
        "ocr": {"language": "eng", "scale": 1.0, "processes": 1, "timeout_s": 30.0}, "max_error_share": share,
        "resamples": 100, "confidence": 0.95, "shown_questions": 1, "shown_hits": 1, "threads": 1, "seed": 0,
    }  # fmt: skip
    path = folder / "evaluate.yaml"
    path.write_text(yaml.safe_dump(settings))
    return path


def evaluate(*config: Any) -> dict[str, Any]:
    """The counts of `tilewright evaluate`, run in this process."""
    return run_stage(STAGE, load(yaml_of(*config), Config))["counts"]


def cell_of(folder: Path, name: str = CELL) -> dict[str, Any]:
    return {cell["name"]: cell for cell in json.loads((folder / "out/metrics.json").read_text())["readers"]}[name]


def test_a_grader_that_is_down_for_a_tenth_leaves_the_run_incomplete_and_says_n(
    world: Any, many: Path, tmp_path: Path, scripted: Callable[..., Any]
) -> None:
    command = [sys.executable, "-m", "tilewright.cli", "evaluate"]
    command.append(str(yaml_of(tmp_path, world, many, scripted(GRADE).url, 0.05)))
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    cell = cell_of(tmp_path)
    assert (cell["status"], cell["n_questions"], cell["n_graded"], cell["n_errors"]) == ("incomplete", 20, 18, 2)
    assert cell["errors"] == {"retrieval failed": 0, "delivery failed": 0, "reader failed": 0, "not graded": 2}
    assert cell["accuracy"]["judge"]["n_questions"] == 18 and cell["accuracy"]["alias"]["n_questions"] == 20
    records = read_jsonl(tmp_path / f"out/records/{CELL}.jsonl", EvalRecord)
    ungraded = {record.query_id for record in records if record.error is not None}
    assert ungraded == {"q06", "q12"} and all(
        record.verdict is None for record in records if record.query_id in ungraded
    )
    assert "INCOMPLETE, 2 errors" in done.stdout and "18 of 20" in done.stdout
    report = (tmp_path / "out/report.html").read_text()
    assert "INCOMPLETE, 2 errors" in report
    assert json.loads((tmp_path / "out/manifest.json").read_text())["counts"]["incomplete"] == 1


def test_a_tenth_may_be_allowed(world: Any, many: Path, tmp_path: Path, scripted: Callable[..., Any]) -> None:
    assert evaluate(tmp_path, world, many, scripted(GRADE).url, 0.1)["incomplete"] == 0
    cell = cell_of(tmp_path)
    assert (cell["status"], cell["n_graded"], cell["n_errors"]) == ("complete", 18, 2), "the errors are shown still"


@pytest.mark.parametrize("options", [("--refuse", "500"), ("--refuse", "404"), ("--key", "another")])
def test_a_grader_that_is_down_for_all_fails_the_run(
    world: Any, many: Path, tmp_path: Path, scripted: Callable[..., Any], options: tuple[str, ...]
) -> None:
    with pytest.raises(StageError):
        evaluate(tmp_path, world, many, scripted(GRADE, *options).url, 0.2)
    assert not (tmp_path / "out").exists()
    evaluate(tmp_path, world, many, scripted(GRADE).url, 0.2)
    assert cell_of(tmp_path)["n_graded"] == 18, "the same config, once the server is up"


def test_a_search_that_fails_is_an_error_of_its_question_never_a_closed_book_answer(
    world: Any, tmp_path: Path, scripted: Callable[..., Any]
) -> None:
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    stranger = dataclasses.replace(pairs[0], query_id="stranger", page_id="f" * 16, tile_id=f"{'f' * 16}-0000-00")
    write_jsonl(tmp_path / "pairs.jsonl", [*pairs, stranger])
    server = scripted(READ)
    changes: dict[str, Any] = {
        "pairs": tmp_path / "pairs.jsonl",
        "rows": (RowSpec(("gold", "both"), "as_is", "vlm", (1,)),),
        "retrievers": {"both": Hybrid("hybrid", ("bm25", "gold"))},
        "readers": {"vlm": ChatReader("openai", server.model())},
        "compare": (), "deliveries": {}, "checkpoints": {}, "reader_checkpoints": {}, "read_questions": None,
    }  # fmt: skip
    run_stage(STAGE, world.config(tmp_path / "out", **changes))
    metrics = json.loads((tmp_path / "out/metrics.json").read_text())
    for name in ("gold", "both"):
        cell = cell_of(tmp_path, f"{name}.as_is.vlm.k1")
        assert (cell["n_questions"], cell["n_graded"], cell["errors"]["retrieval failed"]) == (9, 8, 1)
        assert (metrics["rows"][name]["n_errors"], metrics["rows"][name]["status"]) == (1, "incomplete")
        (failed,) = (
            record
            for record in read_jsonl(tmp_path / f"out/records/{name}.as_is.vlm.k1.jsonl", EvalRecord)
            if record.query_id == "stranger"
        )
        assert failed.prediction is None and failed.verdict is None and failed.given == ()
        assert failed.error == "retrieval failed: the gold tile isn't among the tiles searched"
    assert server.calls <= 16, "a question without items isn't asked"
