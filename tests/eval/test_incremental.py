"""Rows of every kind in one run; what a rerun works out; served readers, judges and their failures."""

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError, run_stage
from tilewright.data_gen.llm import LlmSettings, Prices
from tilewright.data_gen.records import EvalRecord, read_jsonl
from tilewright.eval import deliveries as give
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.evaluate import STAGE, Config
from tilewright.eval.grading_cells import JudgeOptions
from tilewright.eval.readers.chat import ChatReader
from tilewright.eval.readers.string_evidence import StringEvidence
from tilewright.eval.retrievers.simple import Hybrid
from tilewright.eval.retrievers.texts import DomChunks, TextChunks
from tilewright.eval.rows import RowSpec
from tilewright.mining import build_index, embed_tiles

SERVER = Path(__file__).parent.parent / "data_gen/llm/scripted_server.py"
RULES = """
import re

def read(prompt):
    if "founded" in prompt.text and "[1]" in prompt.text:
        return next(iter(re.findall(r"\\b1[0-9]{3}\\b", prompt.text)), "no year")
    return "<script>alert(1)</script>" if "[1]" in prompt.text or prompt.images else "cannot answer"

def judge(prompt):
    return "CORRECT"

RULES = [("Question: ", read), ("", judge)]
"""


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., tuple[str, Path]]]:
    """serve(*options) -> (base URL, log of calls) of a scripted server that lives as long as the test."""
    (tmp_path / "rules.py").write_text(RULES)
    with ExitStack() as stack:

        def start(*options: str) -> tuple[str, Path]:
            log = tmp_path / f"calls{len(list(tmp_path.glob('calls*')))}.jsonl"
            command = [sys.executable, str(SERVER), "--log", str(log), "--rules", str(tmp_path / "rules.py"), *options]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            return process.stdout.readline().strip(), log

        yield start


def calls(log: Path) -> int:
    return sum(json.loads(line)["event"] == "start" for line in log.read_text().splitlines()) if log.exists() else 0


def model(url: str, **changes: Any) -> LlmSettings:
    values: dict[str, Any] = {"model": "m", "temperature": 0.0, "max_tokens": 50, "base_url": url}
    return LlmSettings(**(values | {"call_timeout_s": 5.0, "max_retries": 1, "attempts": 1} | changes))


def texts(world: Any, out: Path, *rows: Any, **changes: Any) -> Config:
    """A config without models of ours: rows of text and stand-ins."""
    settings: dict[str, Any] = {
        "rows": rows,
        "compare": (),
        "checkpoints": {},
        "reader_checkpoints": {},
        "pages": world.root / "pages",
        "retrievers": {
            "text": TextChunks("text_chunks", tokens=12),
            "dom": DomChunks("dom_chunks", tokens=12),
            "hybrid": Hybrid("hybrid", ("bm25", "text")),
        },
        "deliveries": {
            "c4": give.Compressed("compressed", 4.0),
            "html": give.HtmlLookup("html_lookup"),
            "chunks": give.HtmlChunks("html_chunks"),
            "dom_text": give.DomText("dom_text"),
        },
        "readers": {"string": StringEvidence("string_evidence")},
        "read_questions": None,
    }
    return world.config(out, **(settings | changes))


def cells(folder: Path) -> dict[str, Any]:
    return {cell["name"]: cell for cell in json.loads((folder / "metrics.json").read_text())["readers"]}


def test_rows_of_every_kind_on_one_question_set(world: Any, tmp_path: Path) -> None:
    rows = (
        RowSpec(("bm25", "text", "dom", "hybrid", "none"), ("as_is", "html", "chunks"), "string", (1, 3)),
        RowSpec("bm25", ("c4", "dom_text"), "string", (1,)),
    )
    run_stage(STAGE, texts(world, tmp_path / "out", *rows))
    metrics, found = json.loads((tmp_path / "out" / "metrics.json").read_text()), cells(tmp_path / "out")
    assert {row["status"] for row in [*metrics["rows"].values(), *metrics["readers"]]} == {"complete"}
    assert {row["n_questions"] for row in metrics["readers"]} == {8}
    recall = {name: row["page"]["recall@1"]["value"] for name, row in metrics["rows"].items() if "page" in row}
    assert recall == dict.fromkeys(("bm25", "text", "dom", "hybrid"), 1.0) and "page" not in metrics["rows"]["none"]
    assert "tile" not in metrics["rows"]["text"] and "tile" in metrics["rows"]["hybrid"]
    assert metrics["rows"]["text"]["n_items"] == metrics["rows"]["text"]["facts"]["items"] > 12
    accuracy = {name: cell["accuracy"]["alias"]["value"] for name, cell in found.items()}
    assert accuracy["bm25.as_is.string.k1"] == accuracy["bm25.dom_text.string.k1"] == 0.5
    assert accuracy["dom.chunks.string.k3"] == accuracy["dom.as_is.string.k3"] == 0.625, "and the title"
    assert accuracy["none.as_is.string.k1"] == 0.0 and found["none.as_is.string.k1"]["tokens"]["visual"] == 0
    assert (
        found["bm25.c4.string.k1"]["tokens"]["visual"] == 20 and found["bm25.as_is.string.k1"]["tokens"]["visual"] == 80
    )
    assert (
        found["dom.chunks.string.k1"]["tokens"]["retrieved_text"]
        > found["dom.as_is.string.k1"]["tokens"]["retrieved_text"]
    )
    modes = metrics["analyses"]["failure_modes"]["text.as_is.string.k1"]
    assert sum(modes[mode] for mode in ("ok", "ok without evidence", "parser", "rank", "reader", "error")) == 8
    said = [line for line in metrics["stand_ins"] if "stand-in for a reader" in line]
    assert len(said) == 1 and "knows the gold answers" in said[0]


def test_a_row_more_works_out_that_row_alone(world: Any, tmp_path: Path, serve: Any) -> None:
    url, log = serve()
    readers = {"vlm": ChatReader("openai", model(url))}
    changes = {"cache": tmp_path / "cache", "readers": readers}
    first = RowSpec("bm25", "as_is", "vlm", (1,))
    run_stage(STAGE, texts(world, tmp_path / "a", first, **changes))
    assert calls(log) == 8
    run_stage(STAGE, texts(world, tmp_path / "b", first, RowSpec("text", "as_is", "vlm", (1,)), **changes))
    assert calls(log) == 16
    name = "records/bm25.as_is.vlm.k1.jsonl"
    assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    run_stage(STAGE, texts(world, tmp_path / "c", first, ks=(1, 2), graders=("alias",), **changes))
    assert calls(log) == 16, "other cut-offs and graders ask and search nothing"
    timings = [json.loads(line) for line in (tmp_path / "c" / "logs" / "timings.jsonl").read_text().splitlines()]
    assert {line["part"] for line in timings} >= {"search bm25", "read bm25.as_is.vlm.k1", "grade"}
    latency = json.loads((tmp_path / "c" / "metrics.json").read_text())["latency"]
    assert next(line for line in latency if line["part"] == "search bm25")["mean_s"] is None


def test_served_reader_gets_pictures_inline_and_compressed(world: Any, tmp_path: Path, serve: Any) -> None:
    url, _ = serve()
    readers = {"vlm": ChatReader("openai", model(url, prices=Prices(1.0, 2.0)))}
    rows = (RowSpec("bm25", ("as_is", "c4"), "vlm", (2,)), RowSpec(("text", "none"), "as_is", "vlm", (2,)))
    run_stage(STAGE, texts(world, tmp_path / "out", *rows, readers=readers))
    found = cells(tmp_path / "out")
    (whole, small) = (found[f"bm25.{delivery}.vlm.k2"]["tokens"] for delivery in ("as_is", "c4"))
    assert whole["visual"] == small["visual"] == 200 and whole["estimated"] == 0, "as the server told"
    records = read_jsonl(tmp_path / "out" / "records" / "bm25.c4.vlm.k2.jsonl", EvalRecord)
    assert [item.size_px for item in records[0].given] == [(160, 128), (160, 128)]
    assert found["none.as_is.vlm.k2"]["n_cannot_answer"] == 8
    assert found["text.as_is.vlm.k2"]["accuracy"]["alias"]["value"] == 0.5
    metrics = json.loads((tmp_path / "out" / "metrics.json").read_text())
    assert all(entry["cost"] > 0 for entry in metrics["analyses"]["costs"])
    report = (tmp_path / "out" / "report.html").read_text()
    assert "<script>alert(1)" not in report and "\\u003cscript\\u003ealert(1)" in report


def test_judge_decides_and_its_failures_are_no_grades(world: Any, tmp_path: Path, serve: Any) -> None:
    url, _ = serve()
    judge = JudgeOptions(model(url))
    run_stage(STAGE, texts(world, tmp_path / "out", RowSpec("bm25", "as_is", "string", (1,)), judge=judge))
    (cell,) = cells(tmp_path / "out").values()
    assert cell["accuracy"]["judge"]["value"] == 1.0 and cell["accuracy"]["alias"]["value"] == 0.5
    some, _ = serve("--fault-rate", "0.5", "--faults", "http_500", "--most-faults", "9")
    partly = JudgeOptions(model(some, max_retries=0))
    run_stage(STAGE, texts(world, tmp_path / "c", RowSpec("bm25", "as_is", "string", (1,)), judge=partly))
    (cell,) = cells(tmp_path / "c").values()
    assert cell["status"] == "incomplete" and 0 < cell["errors"]["not graded"] == cell["n_errors"] < 8
    assert cell["accuracy"]["judge"]["n_questions"] == cell["n_graded"] == 8 - cell["n_errors"]
    assert cell["accuracy"]["alias"]["n_questions"] == 8 and cell["accuracy"]["judge"]["value"] == 1.0
    down, _ = serve("--refuse", "500")
    with pytest.raises(StageError, match=r"no verdict on any|keeps failing|server"):
        run_stage(
            STAGE,
            texts(world, tmp_path / "b", RowSpec("bm25", "as_is", "string", (1,)), judge=JudgeOptions(model(down))),
        )


def test_dry_run_says_what_would_be_asked_and_asks_nothing(world: Any, tmp_path: Path, serve: Any) -> None:
    from tilewright.configs.stage import dry_run

    url, log = serve()
    readers = {
        "vlm": ChatReader("openai", model(url, prices=Prices(1.0, 2.0))),
        "string": StringEvidence("string_evidence"),
    }
    rows = (RowSpec("bm25", "as_is", ("vlm", "string"), (1, 3)),)
    said = dry_run(STAGE, texts(world, tmp_path / "out", *rows, readers=readers, judge=JudgeOptions(model(url))))
    assert calls(log) == 0 and not (tmp_path / "out").exists()
    assert "bm25.as_is.vlm.k1" in said and "calls 8" in said and "most_cost" in said and "judge" in said
    assert "bm25.as_is.string.k3: asks no served model" in said


def test_an_index_of_another_encoder_is_refused(world: Any, tmp_path: Path) -> None:
    base, trained = world.paths["checkpoints"]["base"], world.paths["checkpoints"]["trained"]
    run_stage(
        embed_tiles.STAGE, embed_tiles.Config(tmp_path / "vectors", base.folder, world.paths["tiles"], device="cpu")
    )
    run_stage(build_index.STAGE, build_index.Config(out=tmp_path / "index", vectors=(tmp_path / "vectors",)))
    changes: dict[str, Any] = {"rows": ("one",), "compare": (), "readers": {}, "deliveries": {}}
    own = {"one": Checkpoint("own index", base.folder, index=tmp_path / "index")}
    run_stage(STAGE, world.config(tmp_path / "own", **changes, checkpoints=own))
    rebuilt = {"one": Checkpoint("own index", base.folder)}
    run_stage(STAGE, world.config(tmp_path / "rebuilt", **changes, checkpoints=rebuilt))
    assert (tmp_path / "own/runs/one.trec").read_bytes() == (tmp_path / "rebuilt/runs/one.trec").read_bytes()
    other = {"one": Checkpoint("another's", trained.folder, index=tmp_path / "index")}
    changes |= {"rows": ("bm25", "one"), "cache": tmp_path / "cache"}
    with pytest.raises(InputError, match="encoder"):
        run_stage(STAGE, world.config(tmp_path / "other", **changes, checkpoints=other))
    assert not (tmp_path / "cache" / "hits").exists(), "before any row is worked out"
