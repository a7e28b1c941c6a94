"""Mining with a model as judge, over real HTTP: the two-step judge decides as its replies say."""

import base64
import dataclasses
import hashlib
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.stage import dry_run, run_stage
from tilewright.data_gen.grounded.judge import GroundedJudge
from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.records import QAPair, TrainingExample, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.verdicts import Verdict
from tilewright.mining.mine_negatives import STAGE, Config

SERVER = Path(__file__).parent.parent / "data_gen/llm/scripted_server.py"
RULES = """
import json, re
from pathlib import Path

SAID = json.loads(Path({said!r}).read_text())
QUERY = re.compile(r"\\[BEGIN query [0-9a-f]+\\]\\n(.*?)\\n\\[END", re.DOTALL)

def answer(prompt):
    return SAID[QUERY.search(prompt.text)[1]][prompt.images[0]]

def judge(prompt):
    return "WRONG"

RULES = [("Answer the question from this tile alone", answer), ("whether the given answer says the same", judge)]
"""


@pytest.fixture
def config(corpus: Any, tmp_path: Path) -> Config:
    common: dict[str, Any] = {"top_k": 30, "negatives": 12, "short": "keep", "same_page": "allow", "block": 3}
    inputs = {"pairs": corpus.root / "train.jsonl", "pages": corpus.root / "pages.json", **corpus.inputs}
    return Config(out=tmp_path / "grounded", mode="judged", **common, **inputs)


@pytest.fixture
def server(config: Config, tmp_path: Path) -> Iterator[tuple[str, Path]]:
    """(URL, log of calls) of a server that reads each tile as the offline judge does."""
    store, judge = TileStore.open(config.tiles), GroundedJudge()
    replies = {Verdict.CORRECT: None, Verdict.WRONG: "quite another thing", Verdict.CANNOT_ANSWER: "CANNOT_ANSWER"}
    said: dict[str, dict[str, str]] = {}
    for pair in read_jsonl(config.pairs, QAPair):
        for tile_id in store.tile_ids:
            tile = store.get(tile_id)
            url = f"data:image/png;base64,{base64.b64encode(tile.image).decode()}"
            verdict = judge.judge(pair.query, (pair.answer, *pair.aliases), tile)
            reply = json.dumps({"answer": replies[verdict] or pair.answer})
            said.setdefault(pair.query, {})[hashlib.sha256(url.encode()).hexdigest()] = reply
    (tmp_path / "said.json").write_text(json.dumps(said))
    (tmp_path / "rules.py").write_text(RULES.format(said=str(tmp_path / "said.json")))
    log = tmp_path / "calls.jsonl"
    command = [sys.executable, str(SERVER), "--log", str(log), "--rules", str(tmp_path / "rules.py")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        yield process.stdout.readline().strip(), log
        process.kill()


def test_the_same_negatives_as_a_judge_that_says_the_same(
    config: Config, server: tuple[str, Path], tmp_path: Path
) -> None:
    url, log = server
    offline = run_stage(STAGE, config)["counts"]
    llm = LlmSettings("m", 0.0, 200, base_url=url, concurrency=8)
    asked = dataclasses.replace(config, out=tmp_path / "asked", judge="openai", llm=llm)
    report = dry_run(STAGE, asked)
    assert "answer: calls" in report and "judge: calls" in report and not log.read_text()
    counts = run_stage(STAGE, asked)["counts"]
    assert {**counts, "verdicts": 0} == {**offline, "verdicts": 0} and counts["dropped_error"] == 0
    assert counts["verdicts"]["WRONG"] + counts["verdicts"]["CANNOT_ANSWER"] == counts["negatives"]
    files = [folder / "examples.jsonl" for folder in (config.out, asked.out)]
    assert files[0].read_bytes() == files[1].read_bytes()
    assert any(example.known_positive_tile_ids for example in read_jsonl(files[1], TrainingExample))
    assert json.loads((asked.out / "logs/ledger.json").read_text())["by_purpose"]["answer"]["calls"] > 0


def test_a_judge_and_its_settings_belong_together(config: Config) -> None:
    with pytest.raises(ValueError, match="llm"):
        dataclasses.replace(config, judge="openai")
    llm = LlmSettings("m", 0.0, 200, base_url="http://127.0.0.1:9/v1")
    for mode in ("naive", "in_batch"):  # no judge is wanted: it would be paid for, and naive negatives would be judged
        with pytest.raises(ValueError, match="mode judged"):
            dataclasses.replace(config, judge="openai", llm=llm, mode=mode)
