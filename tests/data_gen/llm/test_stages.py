"""The stages that ask a model, over real HTTP: outcomes by rule, under faults, killed, in parts, through batches."""

import dataclasses
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError, dry_run, run_stage
from tilewright.data_gen import answerable, make_queries, merge_pairs, natural, self_contained, text_pairs
from tilewright.data_gen.gates import GateConfig
from tilewright.data_gen.llm import BatchSettings, Budget, LlmSettings, Prices
from tilewright.data_gen.pair_outcomes import read_outcomes
from tilewright.data_gen.passages import PassageSettings
from tilewright.data_gen.records import QAPair, TextPair, read_jsonl

RULES = Path(__file__).with_name("stage_rules.py")
GATES = GateConfig(0, False, (), 1.0, 0, 0.0, 0.0, None)
TOWNS = 40  # of the fixture `tiles`


@pytest.fixture
def line(tiles: Path, settings: Callable[..., LlmSettings]) -> Callable[..., dict[str, dict[str, Any]]]:
    """line(server, folder, **llm) runs the four stages into ``folder``; {stage: counts}."""

    def run(server: Any, folder: Path, shard: str | None = None, **changes: Any) -> dict[str, dict[str, Any]]:
        llm = settings(server, max_tokens=500, max_retries=10, **changes)
        common: dict[str, Any] = {"llm": llm, "tiles": tiles, "shard": shard}
        queries = make_queries.Config(
            folder / "queries", "openai", max_pairs_per_tile=2, gates=GATES, review_pairs=5, **common
        )
        contained = self_contained.Config(
            folder / "self_contained", pairs=queries.out, per_call=10, review_pairs=5, **common
        )
        answers = answerable.Config(folder / "answerable", pairs=contained.out, review_pairs=5, **common)
        scores = natural.Config(folder / "natural", pairs=answers.out, min_score=2, **common)
        return {
            "queries": run_stage(make_queries.STAGE, queries)["counts"],
            "self_contained": run_stage(self_contained.STAGE, contained)["counts"],
            "answerable": run_stage(answerable.STAGE, answers)["counts"],
            "natural": run_stage(natural.STAGE, scores)["counts"],
        }

    return run


def data(folder: Path) -> dict[str, bytes]:
    """The stages' own files, without manifests and logs."""
    names = ("pairs.jsonl", "outcomes.jsonl", "review.html")
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.name in names}


def number_of(query: str) -> int:
    return int(re.search(r"Town (\d+)", query)[1])  # type: ignore[index]


def test_every_pair_has_the_outcome_that_the_rules_give(
    serve: Callable[..., Any], line: Callable[..., Any], tmp_path: Path
) -> None:
    counts = line(serve("--rules", RULES), tmp_path / "runs")
    asked = [number for number in range(TOWNS) if number % 7 != 3]
    queries = counts["queries"]
    assert queries["skipped_track_list"] == TOWNS - len(asked)
    assert queries["dropped_span_not_on_tile"] == len([n for n in asked if n % 5 == 0])
    assert queries["pairs"] == 2 * len(asked) - queries["dropped_span_not_on_tile"] and queries["tiles"] == TOWNS
    contained = {o.query_id: o.outcome for o in read_outcomes(tmp_path / "runs/self_contained/outcomes.jsonl")}
    answers = {o.query_id: o.outcome for o in read_outcomes(tmp_path / "runs/answerable/outcomes.jsonl")}
    scores = {o.query_id: o.outcome for o in read_outcomes(tmp_path / "runs/natural/outcomes.jsonl")}
    for pair in read_jsonl(tmp_path / "runs/queries/pairs.jsonl", QAPair):
        number, stone = number_of(pair.query), "stone" in pair.query
        wanted = "not_self_contained" if number % 11 == 4 else "kept"
        if number % 13 == 5 and stone:
            wanted = "undecided"
        assert contained[pair.query_id] == wanted, pair
        if wanted != "kept":
            assert pair.query_id not in answers
            continue
        wanted = "kept" if stone else {1: "cannot_answer", 2: "wrong_answer"}.get(number % 6, "kept")
        assert answers[pair.query_id] == wanted, pair
        assert scores.get(pair.query_id) == (("unnatural" if number % 5 == 0 else "kept") if wanted == "kept" else None)
    kept = read_jsonl(tmp_path / "runs/natural/pairs.jsonl", QAPair)
    assert [pair.query_id for pair in kept] == [key for key, outcome in scores.items() if outcome == "kept"]
    assert counts["self_contained"]["asked_again_alone"] > 0
    assert set(counts["answerable"]["decided_by"]) == {"answer", "exact match", "judge"}
    for stage in counts:
        assert set(counts[stage]["by_type"]) == {"paragraph"}
        ledger = json.loads((tmp_path / f"runs/{stage}/logs/ledger.json").read_text())
        assert ledger["all"]["calls"] == ledger["all"]["finished"] > 0


def test_a_second_run_elsewhere_makes_no_call(
    serve: Callable[..., Any], line: Callable[..., Any], tmp_path: Path
) -> None:
    server = serve("--rules", RULES)
    line(server, tmp_path / "first", cache=tmp_path / "cache.sqlite")
    calls = len(server.calls())
    line(server, tmp_path / "second", cache=tmp_path / "cache.sqlite", concurrency=3)
    assert len(server.calls()) == calls
    assert data(tmp_path / "first") == data(tmp_path / "second")


@pytest.mark.parametrize("transport", ["live", "batch"])
def test_faults_change_no_byte(
    transport: str, serve: Callable[..., Any], line: Callable[..., Any], tmp_path: Path
) -> None:
    line(serve("--rules", RULES), tmp_path / "calm")
    options = ("--fault-rate", 0.2, "--stall-s", 3, "--slow-s", 0.1)
    changes = {"call_timeout_s": 2.0, "transport": transport, "batch": BatchSettings(size=50, poll_s=0.05)}
    counts = line(serve("--rules", RULES, *options), tmp_path / "faulty", **changes)
    assert data(tmp_path / "calm") == data(tmp_path / "faulty")
    assert not any("error" in name for stage in counts.values() for name in stage)


def test_parts_put_together_are_the_files_of_one_run(
    serve: Callable[..., Any],
    line: Callable[..., Any],
    settings: Callable[..., LlmSettings],
    tiles: Path,
    tmp_path: Path,
) -> None:
    server = serve("--rules", RULES)
    whole = line(server, tmp_path / "whole", cache=tmp_path / "cache.sqlite")
    llm = settings(server, max_tokens=500, max_retries=10, cache=tmp_path / "cache.sqlite")
    calls = len(server.calls())

    def check(stage: Any, name: str, make: Callable[[Path, str], Any]) -> None:
        parts = tuple(tmp_path / f"{name}_{number}" for number in range(3))
        for number, part in enumerate(parts):
            run_stage(stage, make(part, f"{number}/3"))
        merged = tmp_path / f"{name}_merged"
        counts = run_stage(merge_pairs.STAGE, merge_pairs.Config(merged, parts[::-1]))["counts"]
        for file in ("pairs.jsonl", "outcomes.jsonl"):
            assert (merged / file).read_bytes() == (tmp_path / "whole" / name / file).read_bytes(), (name, file)
        assert counts == whole[name]
        with pytest.raises(InputError, match="wanted each of the shards"):
            run_stage(merge_pairs.STAGE, merge_pairs.Config(tmp_path / "bad", parts[:2]))

    common: dict[str, Any] = {"llm": llm, "tiles": tiles}
    queries, contained, answers = (tmp_path / "whole" / name for name in ("queries", "self_contained", "answerable"))
    check(
        make_queries.STAGE,
        "queries",
        lambda out, shard: make_queries.Config(out, "openai", 2, GATES, shard=shard, **common),
    )
    check(
        self_contained.STAGE,
        "self_contained",
        lambda out, shard: self_contained.Config(out, pairs=queries, per_call=10, shard=shard, **common),
    )
    check(
        answerable.STAGE,
        "answerable",
        lambda out, shard: answerable.Config(out, pairs=contained, shard=shard, **common),
    )
    check(
        natural.STAGE,
        "natural",
        lambda out, shard: natural.Config(out, pairs=answers, min_score=2, shard=shard, **common),
    )
    assert len(server.calls()) == calls, "what a part asks is what the whole asked"


def test_questions_about_passages(
    serve: Callable[..., Any], settings: Callable[..., LlmSettings], tiles: Path, tmp_path: Path
) -> None:
    server = serve("--rules", RULES)
    llm = settings(server, max_tokens=500)
    common: dict[str, Any] = {"min_query_words": 2, "max_query_words": 40, "removal_probability": 1.0, "seed": 0}
    config = text_pairs.Config(
        tmp_path / "pairs", ("questions",), PassageSettings(5, 100), tiles=tiles, llm=llm, **common
    )
    counts = run_stage(text_pairs.STAGE, config)["counts"]
    assert counts["dropped_skipped_no_facts"] == counts["dropped_span_not_in_passage"] == TOWNS // 4
    pairs = read_jsonl(tmp_path / "pairs/text_pairs.jsonl", TextPair)
    assert len(pairs) == counts["pairs"] == TOWNS // 2
    for pair in pairs:
        number = number_of(pair.query)
        assert number % 4 in (0, 3) and f"Harrow Town {number} was built" in pair.passage and pair.method == "questions"
    with pytest.raises(ValueError, match="llm"):
        dataclasses.replace(config, llm=None)
    parts = tuple(tmp_path / f"part_{number}" for number in range(3))
    calls = len(server.calls())
    for number, out in enumerate(parts):
        run_stage(text_pairs.STAGE, dataclasses.replace(config, out=out, shard=f"{number}/3"))
    assert len(server.calls()) == 2 * calls, "what a part asks is what the whole asked, about its own pages"
    merged = run_stage(merge_pairs.STAGE, merge_pairs.Config(tmp_path / "merged", parts))["counts"]
    assert merged == counts
    assert (tmp_path / "merged/text_pairs.jsonl").read_bytes() == (tmp_path / "pairs/text_pairs.jsonl").read_bytes()


def test_a_dry_run_counts_calls_and_makes_none(
    serve: Callable[..., Any], settings: Callable[..., LlmSettings], tiles: Path, tmp_path: Path
) -> None:
    server = serve("--rules", RULES)
    llm = settings(server, prices=Prices(1.0, 2.0))
    config = make_queries.Config(tmp_path / "queries", "openai", 2, GATES, tiles=tiles, llm=llm)
    report = dry_run(make_queries.STAGE, config)
    assert f"calls {TOWNS}" in report and "cost" in report
    assert not server.calls() and not (tmp_path / "queries").exists() and not (tmp_path / "queries.partial").exists()
    with pytest.raises(StageError, match=f"calls {TOWNS}"):  # as a setting it's no run either
        run_stage(make_queries.STAGE, dataclasses.replace(config, llm=dataclasses.replace(llm, dry_run=True)))
    assert not server.calls() and not list(tmp_path.glob("queries*"))


def test_wanted_kinds_and_language_reach_the_prompt(
    serve: Callable[..., Any], settings: Callable[..., LlmSettings], tiles: Path, tmp_path: Path
) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text(
        "import json\n"
        "def said(prompt):\n"
        "    wish = 'answer stands in a picture' in prompt.text and 'in Welsh;' in prompt.text\n"
        "    return json.dumps({'skip': 'other' if wish else 'no_facts', 'pairs': []})\n"
        "RULES = [('', said)]\n"
    )
    wishes = make_queries.GenerationSettings(language="Welsh", kind_shares={"image": 1.0, "table": 1.0})
    config = make_queries.Config(
        tmp_path / "queries", "openai", 2, GATES, tiles=tiles, llm=settings(serve("--rules", rules)), generation=wishes
    )
    with pytest.raises(InputError, match=rf"skipped_other: {TOWNS}\)"):
        run_stage(make_queries.STAGE, config)


def test_a_budget_stops_and_a_larger_one_goes_on(
    serve: Callable[..., Any], settings: Callable[..., LlmSettings], tiles: Path, tmp_path: Path
) -> None:
    server = serve("--rules", RULES)

    def config(calls: int) -> make_queries.Config:
        llm = settings(server, budget=Budget(max_calls=calls), concurrency=4)
        return make_queries.Config(tmp_path / "queries", "openai", 2, GATES, tiles=tiles, llm=llm)

    with pytest.raises(StageError, match="budget"):
        run_stage(make_queries.STAGE, config(15))
    assert len(server.calls()) == 15
    run_stage(make_queries.STAGE, config(TOWNS))
    assert len(server.calls()) == TOWNS


def test_failed_pairs_stop_the_stage_or_are_counted(
    serve: Callable[..., Any], settings: Callable[..., LlmSettings], line: Callable[..., Any], tmp_path: Path
) -> None:
    line(serve("--rules", RULES), tmp_path / "runs")
    broken = settings(serve("--rules", RULES, "--refuse", 400))
    config = natural.Config(tmp_path / "natural", broken, 2, pairs=tmp_path / "runs/answerable")
    with pytest.raises(StageError):
        run_stage(natural.STAGE, config)
    mended = dataclasses.replace(config, llm=settings(serve("--rules", RULES)))
    assert run_stage(natural.STAGE, mended)["counts"]["kept"] > 0


@pytest.mark.slow
def test_killed_ten_times_the_line_writes_the_same_bytes_and_asks_nothing_twice(
    serve: Callable[..., Any], line: Callable[..., Any], tiles: Path, tmp_path: Path
) -> None:
    line(serve("--rules", RULES), tmp_path / "calm")
    server = serve("--rules", RULES, "--latency-s", 0.05)
    config = tmp_path / "queries.yaml"
    config.write_text(
        f"kind: stage\ntiles: {tiles}\nout: {tmp_path / 'killed/queries'}\nannotator: openai\nmax_pairs_per_tile: 2\n"
        "review_pairs: 5\ngates: {min_page_height_px: 0, require_complete: false, blocked: [], first_share: 1.0,"
        " min_words: 0, min_ink: 0.0, min_text_density: 0.0, near_duplicate_bits: null}\n"
        f"llm: {{base_url: '{server.url}', model: m, temperature: 0.0, max_tokens: 500, seed: 1, concurrency: 4}}\n"
    )
    command = [sys.executable, "-m", "tilewright.cli", "make_queries", str(config)]
    for kill in range(10):
        before = len(server.calls("end"))
        process = subprocess.Popen(command, env=os.environ | {"PYTHONHASHSEED": str(kill)})
        while process.poll() is None and len(server.calls("end")) < before + 3:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
        process.wait()
    subprocess.run(command, check=True)
    assert data(tmp_path / "killed") == {
        name: content for name, content in data(tmp_path / "calm").items() if name.startswith("queries/")
    }
    starts = [call["digest"] for call in server.calls()]
    ledger = json.loads((tmp_path / "killed/queries/logs/ledger.json").read_text())
    assert len(starts) - len(set(starts)) <= 10 * 4
    assert len(starts) - TOWNS <= ledger["all"]["in_flight_at_kill"]
