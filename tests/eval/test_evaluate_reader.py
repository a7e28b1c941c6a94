"""The grid of a reader: served, local and OCR readers on the rows of reader data; what is counted where; a kill -9."""

import base64
import dataclasses
import hashlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import yaml

from tilewright.configs.digests import plain
from tilewright.configs.errors import InputError
from tilewright.configs.stage import DryRunError, StageError, dry_run, partial_of, run_stage
from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.records import EvalRecord, QAPair, ReaderExample, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.evaluate_reader import STAGE, Config
from tilewright.eval.grading_cells import JudgeOptions
from tilewright.eval.readers.chat import ChatReader, png_of
from tilewright.eval.readers.ocr import OcrReader
from tilewright.eval.readers.string_evidence import StringEvidence
from tilewright.eval.workshop import OcrConfig
from tilewright.train.compress import compress

SERVER = Path(__file__).parent.parent / "data_gen/llm/scripted_server.py"
RULES = """
import os, time
REPLIES = {replies!r}

def read(prompt):
    while {waits!r} in prompt.text and not os.path.exists({go!r}):
        time.sleep(0.02)
    if {silent!r} in prompt.text:
        return ""
    return next((REPLIES[image] for image in prompt.images if image in REPLIES), "Cannot answer.")

RULES = [("Question: ", read), ("", lambda prompt: "CORRECT")]
"""
ABSENT = ("q11", "q31")
SILENT, WAITS = "Which river town is Nairobi?", "Which river town is Quito?"  # of q20: blank replies; of q30: held up


def examples_of(world: Any) -> list[ReaderExample]:
    """Three tiles each, two of pages that nobody asks about; the gold absent in two of eight."""
    pairs = read_jsonl(world.paths["pairs"], QAPair)
    others = list(TileStore.open(world.paths["tiles"]).tile_ids)
    unasked = [tile_id for tile_id in others if tile_id.partition("-")[0] not in {pair.page_id for pair in pairs}]
    made = []
    for number, pair in enumerate(pairs):
        absent = pair.query_id in ABSENT
        tiles = unasked[:3] if pair.query_id == "q31" else unasked[1:4] if absent else unasked[1:3]
        gold = None if absent else number % 3
        if gold is not None:
            tiles = [*tiles[:gold], pair.tile_id, *tiles[gold:]]
        answer = "cannot answer" if absent else pair.answer
        made.append(ReaderExample(pair.query_id, pair.query, answer, tuple(tiles), gold, 4.0))
    return made


@pytest.fixture(scope="module")
def examples(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("rows") / "validation.jsonl"
    write_jsonl(path, examples_of(world))
    return path


@pytest.fixture
def serve(world: Any, tmp_path: Path) -> Iterator[Callable[[], tuple[str, Path, Path]]]:
    """serve() -> (base URL, log of calls, a file: until it exists, one question gets no reply).

    It knows a picture by its bytes at 4x, and says what stands on it: so it answers only if pictures are compressed
    before they are sent, and sent inline.
    """
    store = TileStore.open(world.paths["tiles"])
    replies = {}
    for pair in read_jsonl(world.paths["pairs"], QAPair):
        replies[_sent(store, pair.tile_id)] = pair.aliases[0] if pair.query_id == "q01" else pair.answer
    replies[_sent(store, examples_of(world)[-1].tile_ids[0])] = "Atlantis"  # shown to q31, whose gold is absent
    go, log = tmp_path / "go", tmp_path / "calls.jsonl"
    rules = RULES.format(replies=replies, waits=WAITS, go=str(go), silent=SILENT)
    (tmp_path / "rules.py").write_text(rules)
    with ExitStack() as stack:

        def start() -> tuple[str, Path, Path]:
            command = [sys.executable, str(SERVER), "--log", str(log), "--rules", str(tmp_path / "rules.py")]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            return process.stdout.readline().strip(), log, go

        yield start


def _sent(store: TileStore, tile_id: str) -> str:
    encoded = base64.b64encode(png_of(compress(store.image(tile_id), 4.0))).decode("ascii")
    return hashlib.sha256(f"data:image/png;base64,{encoded}".encode()).hexdigest()


def config_of(world: Any, examples: Path, out: Path, **changes: Any) -> Config:
    settings: dict[str, Any] = {
        "readers": {"dom": StringEvidence("string_evidence")},
        "compressions": (4.0, 9.0),
        "ks": (1, 3),
        "compare": (),
        "count": None,
        "max_error_share": 0.02,
        "resamples": 100,
        "confidence": 0.95,
        "threads": 1,
        "seed": 0,
        "ocr": OcrConfig("eng", 1.0, 60.0, 2),
        "pairs": world.paths["pairs"],
    }
    return Config(out=out, examples=examples, tiles=world.paths["tiles"], **(settings | changes))


def model(url: str, **changes: Any) -> LlmSettings:
    values: dict[str, Any] = {"model": "m", "temperature": 0.0, "max_tokens": 50, "base_url": url}
    return LlmSettings(**(values | {"call_timeout_s": 60.0, "max_retries": 1, "attempts": 1} | changes))


def grid(out: Path) -> dict[tuple[str, float, int], dict[str, Any]]:
    metrics = json.loads((out / "metrics.json").read_text())
    return {(entry["reader"], entry["compression"], entry["k"]): entry for entry in metrics["grid"]}


def test_a_served_reader_sees_compressed_pictures_and_every_outcome_is_counted_apart(
    world: Any, examples: Path, serve: Any, tmp_path: Path
) -> None:
    url, log, go = serve()
    go.touch()
    readers = {"vlm": ChatReader("openai", model(url)), "dom": StringEvidence("string_evidence")}
    judge = JudgeOptions(model(url))
    config = config_of(world, examples, tmp_path / "out", readers=readers, judge=judge, compare=(("vlm", "dom"),))
    counts = run_stage(STAGE, config)["counts"]
    assert counts["examples"] == 8 and counts["gold_absent"] == 2 and counts["cells"] == 8
    cells = grid(config.out)
    for k in (1, 3):
        entry = cells["vlm", 4.0, k]
        shown, absent = entry["shown"], entry["absent"]
        assert (entry["n_questions"], entry["n_errors"], entry["status"]) == (8, 1, "incomplete")  # q20 said nothing
        alias, exact = shown["accuracy"]["alias"], shown["accuracy"]["exact"]
        assert (alias["value"], alias["n_questions"], alias["n_errors"]) == (1.0, 5, 1)
        assert (exact["value"], shown["abstained"]["value"]) == (0.8, 0.0)  # q01 got an alias
        assert shown["accuracy"]["judge"]["value"] == 1.0  # a column of its own
        assert absent["n_questions"] == 2 and absent["n_false_but_gold"] == absent["n_blank"] == 0
        told = entry["tokens"]
        assert told["visual"] == 100 * k and told["estimated"] == 0  # as the server counts
    at_1 = {row.query_id: row for row in read_jsonl(config.out / "predictions/examples.c4.vlm.k1.jsonl", EvalRecord)}
    at_3 = {row.query_id: row for row in read_jsonl(config.out / "predictions/examples.c4.vlm.k3.jsonl", EvalRecord)}
    assert cells["vlm", 4.0, 3]["absent"]["false_answers"]["value"] == 0.5
    assert at_3["q31"].prediction == "Atlantis" and at_3["q31"].verdict == "WRONG"
    assert at_3["q11"].verdict == "CORRECT" and at_3["q11"].flags == ("gold_absent",)
    assert at_3["q20"].prediction is None and "reader failed" in (at_3["q20"].error or "")
    shown_3 = {row.query_id: row.gold_position for row in read_jsonl(examples, ReaderExample)}
    for name, record in at_3.items():
        assert record.ranks["tile"] == (0 if shown_3[name] is None else shown_3[name] + 1)
        assert len(record.given) == 3 and len(at_1[name].given) == 1
    blind = cells["vlm", 9.0, 3]
    assert blind["shown"]["accuracy"]["alias"]["value"] == 0.0 and blind["shown"]["abstained"]["value"] == 1.0
    assert blind["absent"]["abstained"]["value"] == 1.0 and blind["absent"]["false_answers"]["value"] == 0.0
    positions = cells["vlm", 4.0, 3]["shown"]["by_gold_position"]
    assert [figure["n_questions"] + figure["n_errors"] for figure in positions] == [2, 2, 2]
    metrics = json.loads((config.out / "metrics.json").read_text())
    assert {(pair["compression"], pair["k"]) for pair in metrics["differences"]} == {
        (c, k) for c in (4, 9) for k in (1, 3)
    }
    blinder = [pair["alias"]["value"] for pair in metrics["differences"] if pair["compression"] == 9]
    assert blinder == pytest.approx([-0.4, -0.4])  # the years of q01 and q21 stand in the DOM text, q20 isn't compared
    assert cells["dom", 9.0, 3]["shown"]["accuracy"]["alias"]["value"] == pytest.approx(1 / 3)
    report = (config.out / "report.html").read_text()
    assert "Pareto front" in report and "Accuracy by compression" in report and "<script" not in report
    lines = (config.out / "table.md").read_text().splitlines()
    assert len(lines) == 2 + 8 and "judge" in lines[0]
    before = len(log.read_text().splitlines())
    again = dataclasses.replace(config, out=tmp_path / "again", cache=None)
    with pytest.raises(DryRunError):
        STAGE.run(again.as_dry_run(again.out), {"examples": examples, "tiles": config.tiles}, _made(again.out))
    assert "examples.c9.vlm.k3" in dry_run(STAGE, again) and len(log.read_text().splitlines()) == before


def _made(folder: Path) -> Path:
    folder.mkdir()
    return folder


def test_killed_and_resumed_equals_uninterrupted(world: Any, examples: Path, serve: Any, tmp_path: Path) -> None:
    url, log, go = serve()
    readers = {"vlm": ChatReader("openai", model(url, concurrency=1))}
    config = config_of(world, examples, tmp_path / "killed", readers=readers, ks=(3,), max_error_share=1.0)
    text = plain(dataclasses.asdict(config)) | {"kind": "stage"}
    del text["reader_folders"]
    path = tmp_path / "grid.yaml"
    path.write_text(yaml.safe_dump(json.loads(json.dumps(text, default=str))))
    command = [sys.executable, "-m", "tilewright.cli", "evaluate_reader", str(path)]
    log_of_stage = tmp_path / "stage.log"
    with log_of_stage.open("w") as file, subprocess.Popen(command, stderr=file, stdout=file) as process:
        while process.poll() is None and not _journalled(partial_of(config.out), 3):
            time.sleep(0.05)
        assert process.poll() is None, log_of_stage.read_text()  # one question is held up: it can't have ended
        os.kill(process.pid, signal.SIGKILL)
    assert not config.out.exists()
    go.touch()
    resumed = run_stage(STAGE, config)
    starts = [json.loads(line) for line in log.read_text().splitlines()]
    calls = sum(line["event"] == "start" for line in starts)
    assert calls <= 2 * 8 + 2 + 1  # each cell's once, a blank one's second try, and the one in flight
    whole = run_stage(STAGE, dataclasses.replace(config, out=tmp_path / "whole"))
    assert {key: resumed[key] for key in ("outputs", "counts")} == {key: whole[key] for key in ("outputs", "counts")}


def _journalled(partial: Path, lines: int) -> bool:
    journals = list(partial.glob(".cache/answers/*/.journal.jsonl"))
    return bool(journals) and journals[0].read_bytes().count(b"\n") >= lines


def test_ocr_is_charged_for_what_is_shown_and_reads_less_when_little_is(
    world: Any, examples: Path, tmp_path: Path
) -> None:
    readers = {"ocr": OcrReader("ocr"), "small": OcrReader("ocr", 0.0)}
    changes: dict[str, Any] = {"compressions": (1.0, 25.0), "ks": (1,), "count": 3}
    config = config_of(world, examples, tmp_path / "out", readers=readers, **changes)
    run_stage(STAGE, config)
    cells = grid(config.out)
    for factor in (1.0, 25.0):
        assert cells["ocr", factor, 1]["tokens"]["visual"] == cells["small", factor, 1]["tokens"]["visual"]
    assert cells["ocr", 25.0, 1]["tokens"]["visual"] < cells["ocr", 1.0, 1]["tokens"]["visual"]
    read = [cells["ocr", factor, 1]["shown"]["accuracy"]["alias"]["value"] for factor in (1.0, 25.0)]
    assert read[0] > read[1]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"query": "another question"}, "wanted its pair"),
        ({"gold_position": 2}, "stands at 0"),
        ({"tile_ids": ("0123456789abcdef-0000-00",), "gold_position": None}, "q00 shows tile 0123456789abcdef-0000-00"),
        ({"tile_ids": (), "gold_position": None}, "wanted tiles"),
    ],
)
def test_examples_that_belong_elsewhere_are_refused(
    world: Any, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    rows = examples_of(world)
    write_jsonl(tmp_path / "rows.jsonl", [dataclasses.replace(rows[0], **change), *rows[1:]])
    with pytest.raises(InputError, match=message):
        run_stage(STAGE, config_of(world, tmp_path / "rows.jsonl", tmp_path / "out"))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"ks": (3, 1)}, "rising"),
        ({"compressions": (0.5,)}, "rising"),
        ({"compare": (("dom", "nobody"),)}, "nobody"),
        ({"readers": {}}, "at least one reader"),
    ],
)
def test_configs_that_make_no_sense_are_refused(
    world: Any, examples: Path, tmp_path: Path, change: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        config_of(world, examples, tmp_path / "out", **change)


def test_more_tiles_than_any_example_has_are_refused_and_fewer_are_counted(
    world: Any, examples: Path, tmp_path: Path
) -> None:
    with pytest.raises(InputError, match="ks: 4: none"):
        run_stage(STAGE, config_of(world, examples, tmp_path / "out", ks=(4,)))
    rows = examples_of(world)
    short = dataclasses.replace(rows[0], tile_ids=(rows[0].tile_ids[rows[0].gold_position or 0],), gold_position=0)
    write_jsonl(tmp_path / "rows.jsonl", [short, *rows[1:]])
    config = config_of(world, tmp_path / "rows.jsonl", tmp_path / "out")
    assert run_stage(STAGE, config)["counts"]["fewer_tiles"] == {"1": 0, "3": 1}
    assert "Left out for showing fewer tiles than k: 1 at k = 3." in (config.out / "report.html").read_text()


def test_a_dry_run_needs_a_served_reader(world: Any, examples: Path, tmp_path: Path) -> None:
    with pytest.raises((InputError, StageError), match="served model"):
        dry_run(STAGE, config_of(world, examples, tmp_path / "out"))
