"""Judged evidence in whole runs: a real server says what each hit answers; kept, counted, never taken from an error."""

import base64
import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.lineage import finished
from tilewright.configs.load import load
from tilewright.configs.stage import StageError, dry_run, run_stage
from tilewright.data_gen.llm import Budget
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.evaluate import STAGE, Config
from tilewright.eval.evidence_judge import EvidenceJudge, GroundedEvidence, ModelEvidence
from tilewright.eval.readers.chat import png_of
from tilewright.eval.report.markdown_tables import markdown_of
from tilewright.eval.results_tables import tables_of
from tilewright.eval.retrievers.texts import TextChunks

JUDGED, STRING = "evidence_recall_judged", "evidence_recall_string"
RULES = r"""
import re
TEXTS = {texts!r}

def answer(prompt):
    # Of a tile of the place asked about, or of its text: its year, if it has one; else the last word it says.
    text = TEXTS[prompt.images[0]] if prompt.images else prompt.text.split("[BEGIN tile")[1].split("[END")[0]
    asked = prompt.text.split("[BEGIN query")[1]
    if {mumbled!r} in asked:
        return "Perhaps.\n\nOr perhaps not."
    place = next((word for word in {places!r} if word in asked), "nowhere")
    years = re.findall(r"founded(?: in the year)? (1[0-9]{{3}})", text)
    said = years[0] if years and place in text else "CANNOT_ANSWER"
    return '{{"answer": "' + ("in " + said if years and place in text else said) + '"}}'

def judge(prompt):
    blocks = dict(re.findall(r"\[BEGIN (\w+) [0-9a-f]+\]\n(.*?)\n\[END", prompt.text, re.DOTALL))
    return "CORRECT" if blocks["answer"] in blocks["given"] else "WRONG"

RULES = [("Decide whether the given answer", judge), ("CANNOT_ANSWER", answer)]
"""


@pytest.fixture
def rules(world: Any) -> Callable[..., str]:
    """rules(mumbled): what the server says; a picture is told by the digest of the address that holds it."""
    store, texts = TileStore.open(world.paths["tiles"]), {}
    for tile in store.iterate_light():
        address = "data:image/png;base64," + base64.b64encode(png_of(store.image(tile.tile_id))).decode()
        texts[hashlib.sha256(address.encode()).hexdigest()] = tile.text
    places = ("Warsaw", "Lisbon", "Nairobi", "Quito", "Hanoi", "Oslo")
    return lambda mumbled="no such question": RULES.format(texts=texts, places=places, mumbled=mumbled)


def config(world: Any, out: Path, judge: EvidenceJudge | None, **changes: Any) -> Config:
    """Rows of tiles and of texts, without models of ours."""
    settings: dict[str, Any] = {
        "rows": ("bm25", "text", "none"),
        "compare": (("bm25", "text"),),
        "checkpoints": {},
        "reader_checkpoints": {},
        "readers": {},
        "deliveries": {},
        "pages": world.root / "pages",
        "retrievers": {"text": TextChunks("text_chunks", tokens=12)},
        "evidence_judge": judge,
        "cache": out.parent / "cache",
    }
    return world.config(out, **(settings | changes))


def rows_of(out: Path) -> dict[str, Any]:
    return json.loads((out / "metrics.json").read_text())["rows"]


def held_of(out: Path, row: str) -> dict[str, list[bool | None]]:
    lines = (out / "evidence" / f"{row}.jsonl").read_text().splitlines()
    return {line["query_id"]: line["held"] for line in map(json.loads, lines)}


def test_a_model_judges_pictures_and_texts_each_once(
    world: Any, tmp_path: Path, scripted: Any, rules: Callable[..., str]
) -> None:
    server = scripted(rules())
    judge = ModelEvidence("openai", server.model(), depth=3)
    manifest = run_stage(STAGE, config(world, tmp_path / "a", judge))
    rows = rows_of(tmp_path / "a")
    assert list(rows["bm25"][JUDGED]) == ["recall@1", "recall@3"] and JUDGED not in rows["none"]
    assert "recall@10" in rows["bm25"][STRING], "the string's figures stay what they are"
    for row in ("bm25", "text"):
        assert rows[row][JUDGED]["recall@3"]["value"] == 0.5, "four of eight questions ask for a year"
        assert rows[row]["evidence_judge"] | {"by": "", "n_verdicts": 0} == {
            "by": "", "depth": 3, "n_questions": 8, "n_undecided": 0, "n_verdicts": 0, "n_errors": 0, "n_unparsed": 0
        }  # fmt: skip
        assert rows[row]["status"] == "complete" and "judge.v1@" in rows[row]["evidence_judge"]["by"]
    held = held_of(tmp_path / "a", "bm25")
    assert all(sum(map(bool, one)) <= 1 and (True not in one or one[-1]) for one in held.values()), "stops at the first"
    (pair,) = json.loads((tmp_path / "a" / "metrics.json").read_text())["differences"]
    assert pair[JUDGED]["recall@3"]["value"] == 0 and pair[JUDGED]["recall@3"]["p_holm"] is not None
    report = (tmp_path / "a" / "report.html").read_text()
    assert "Recall@3 judged" in report and "Recall@3 by string" in report
    assert manifest["counts"]["incomplete"] == 0
    asked = server.calls
    assert asked >= sum(len(one) for one in held.values()) + 4, "an answer of each hit, a verdict where it says one"
    run_stage(STAGE, config(world, tmp_path / "b", judge, ks=(1, 2)))
    assert server.calls == asked and list(rows_of(tmp_path / "b")["text"][JUDGED]) == ["recall@1", "recall@2"]
    run_stage(STAGE, config(world, tmp_path / "c", None))
    assert JUDGED not in rows_of(tmp_path / "c")["bm25"] and "judged" not in (tmp_path / "c/report.html").read_text()
    assert not (tmp_path / "c" / "evidence").exists()


def test_what_fails_is_no_verdict_and_is_asked_again(
    world: Any, tmp_path: Path, scripted: Any, rules: Callable[..., str]
) -> None:
    faulty = scripted(rules("founded in Oslo"), "--fault-rate", "0.3", "--faults", "http_500", "--most-faults", "99")
    settings = {"rows": ("bm25",), "compare": ()}
    run_stage(STAGE, config(world, tmp_path / "a", ModelEvidence("openai", faulty.model(), depth=2), **settings))
    row = rows_of(tmp_path / "a")["bm25"]
    counts = row["evidence_judge"]
    assert counts["n_errors"] > 0 and 0 < counts["n_undecided"] < 8 and row["status"] == "incomplete"
    assert row[JUDGED]["recall@1"]["n_questions"] == 8 - sum(
        one[0] is None for one in held_of(tmp_path / "a", "bm25").values()
    )
    assert row["page"]["recall@1"]["n_questions"] == row[STRING]["recall@1"]["n_questions"] == 8, "other figures stand"
    healthy = scripted(rules())
    run_stage(STAGE, config(world, tmp_path / "b", ModelEvidence("openai", healthy.model(), depth=2), **settings))
    whole = rows_of(tmp_path / "b")["bm25"]
    assert whole["status"] == "complete" and whole["evidence_judge"]["n_errors"] == 0
    assert whole[JUDGED]["recall@1"]["value"] == 0.5
    kept = [one for one in held_of(tmp_path / "a", "bm25").values() if None not in one]
    assert 0 < healthy.calls < faulty.calls and kept, "what was known isn't asked again"
    down = scripted(rules(), "--refuse", "500")
    with pytest.raises(StageError):
        other = {"cache": tmp_path / "another"}
        run_stage(
            STAGE, config(world, tmp_path / "c", ModelEvidence("openai", down.model(), depth=2), **settings, **other)
        )
    assert not (tmp_path / "c").exists()


def test_a_hit_without_a_verdict_has_none_in_any_row(
    world: Any, tmp_path: Path, scripted: Any, rules: Callable[..., str]
) -> None:
    """Two rows find the same tiles at other ranks: one comes to a hit after its call failed for the other."""
    faulty = scripted(rules(), "--fault-rate", "0.5", "--faults", "http_500", "--most-faults", "99")
    judge = ModelEvidence("openai", faulty.model(max_retries=0), depth=6)
    settings = {"rows": ("bm25", "base"), "compare": (), "checkpoints": world.paths["checkpoints"]}
    run_stage(STAGE, config(world, tmp_path / "a", judge, **settings))
    verdicts: dict[tuple[str, str], set[bool | None]] = {}
    for row in ("bm25", "base"):
        run = [line.split() for line in (tmp_path / "a" / "runs" / f"{row}.trec").read_text().splitlines()]
        held = held_of(tmp_path / "a", row)
        for query, one in held.items():
            tiles = [tile for name, _, tile, *_ in run if name == query]
            for tile, verdict in zip(tiles, one, strict=False):
                verdicts.setdefault((query, tile), set()).add(verdict)
        counts = rows_of(tmp_path / "a")[row]["evidence_judge"]
        failed = sum(verdict is None for one in held.values() for verdict in one)
        assert (counts["n_errors"], counts["n_unparsed"]) == (failed, 0)
    assert {None} in verdicts.values() and all(len(found) == 1 for found in verdicts.values())


def test_replies_that_cannot_be_read_are_counted_apart(
    world: Any, tmp_path: Path, scripted: Any, rules: Callable[..., str]
) -> None:
    server = scripted(rules("When was Lisbon"))
    judge = ModelEvidence("openai", server.model(), depth=2)
    run_stage(STAGE, config(world, tmp_path / "a", judge, rows=("bm25",), compare=()))
    counts = rows_of(tmp_path / "a")["bm25"]["evidence_judge"]
    assert (counts["n_unparsed"], counts["n_errors"], counts["n_undecided"]) == (2, 0, 1)
    assert held_of(tmp_path / "a", "bm25")["q11"] == [None, None]
    assert rows_of(tmp_path / "a")["bm25"][JUDGED]["recall@1"]["value"] == pytest.approx(3 / 7)


def test_a_budget_ends_it_and_a_dry_run_says_how_much_it_takes(
    world: Any, tmp_path: Path, scripted: Any, rules: Callable[..., str]
) -> None:
    server = scripted(rules())
    settings = {"rows": ("bm25", "none"), "compare": ()}
    judge = ModelEvidence("openai", server.model(concurrency=1, budget=Budget(max_calls=5)), depth=3, questions=4)
    said = dry_run(STAGE, config(world, tmp_path / "a", judge, **settings))
    assert server.calls == 0 and "evidence judge, if no hit is evidence" in said
    assert "answer: calls 12" in said and "judge: calls 12" in said, "four questions, three hits, two steps"
    with pytest.raises(StageError, match="max_calls"):
        run_stage(STAGE, config(world, tmp_path / "a", judge, **settings))
    assert server.calls == 5
    more = ModelEvidence("openai", server.model(), depth=3, questions=4)
    run_stage(STAGE, config(world, tmp_path / "a", more, **settings))
    row = rows_of(tmp_path / "a")["bm25"]
    assert row["evidence_judge"]["n_questions"] == row[JUDGED]["recall@1"]["n_questions"] == 4
    assert 5 < server.calls <= 24, "no call twice"


def test_rules_judge_offline_and_say_so(world: Any, tmp_path: Path) -> None:
    run_stage(STAGE, config(world, tmp_path / "a", GroundedEvidence("grounded", depth=10)))
    metrics = json.loads((tmp_path / "a" / "metrics.json").read_text())
    row = metrics["rows"]["bm25"]
    assert row["evidence_judge"]["by"] == "grounded/1" and row[JUDGED]["recall@1"]["value"] == 3 / 8
    assert sum("judged by grounded/1" in line for line in metrics["stand_ins"]) == 1
    assert held_of(tmp_path / "a", "text").keys() == {f"q{number}{kind}" for number in range(4) for kind in range(2)}
    names = (f"retrieval_{JUDGED}", f"differences_{JUDGED}")
    rows, pairs = (markdown_of(one) for one in tables_of(names, [finished(tmp_path / "a")]))
    assert "| bm25 | " in rows and "Recall@10 by string" in rows and "| bm25 − text, paired | " in pairs
    assert row[JUDGED]["recall@10"]["value"] <= row[STRING]["recall@10"]["value"], "stricter than the string"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("{kind: grounded, depth: 0}", "depth: wanted at least 1"),
        ("{kind: oracle}", "evidence_judge.*'oracle'"),
        ("{kind: openai, llm: {model: m, temperature: 0, max_tokens: 9, base_url: 'http://h/v1'}, judge: answer.v1}",
         "judge: wanted one of"),
    ],
)  # fmt: skip
def test_settings_that_cannot_be_meant(tmp_path: Path, text: str, message: str) -> None:
    smoke = Path(__file__).parents[2] / "configs/eval/evaluate/smoke.yaml"
    assert isinstance(load(smoke, Config, ["evidence_judge={kind: grounded}"]).evidence_judge, GroundedEvidence)
    with pytest.raises(ValueError, match=message):
        load(smoke, Config, [f"evidence_judge={text}"])
