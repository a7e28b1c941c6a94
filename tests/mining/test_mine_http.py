"""A model as judge over real HTTP: failures make no label, runs go on, width and blocks change the speed alone."""

import dataclasses
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.mining.judge_server import JudgeServer, serving
from tests.mining.planted import FALSE_NEGATIVES, Planted, renamed, with_pairs

from tilewright.configs.digests import output_digests
from tilewright.configs.stage import StageError, run_stage
from tilewright.data_gen.llm import Budget, BudgetError, LlmSettings, Prices
from tilewright.data_gen.records import TrainingExample, read_jsonl
from tilewright.mining.candidates import Searcher
from tilewright.mining.mine_negatives import STAGE, Config
from tilewright.mining.mined import Looked


@pytest.fixture
def server(planted: Planted) -> Iterator[JudgeServer]:
    with serving(planted) as server:
        yield server


@pytest.fixture
def config(planted: Planted, server: JudgeServer, tmp_path: Path) -> Config:
    settings: dict[str, Any] = {"top_k": 20, "negatives": 2, "short": "keep", "same_page": "allow", "block": 2}
    llm = LlmSettings("m", 0.0, 200, base_url=server.url, concurrency=4, max_retries=0)
    return Config(out=tmp_path / "mined", mode="judged", judge="openai", llm=llm, **settings, **planted.inputs)


def beside(config: Config, name: str, **changes: Any) -> Config:
    """The config with changes, some of them of ``llm``, in a folder of its own."""
    assert config.llm is not None
    fields = {entry.name for entry in dataclasses.fields(LlmSettings)}
    llm = dataclasses.replace(config.llm, **{key: value for key, value in changes.items() if key in fields})
    own = {key: value for key, value in changes.items() if key not in fields}
    return dataclasses.replace(config, out=config.out.with_name(name), llm=llm, **own)


def cost(config: Config) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((config.out / "logs/cost.json").read_text())
    return found


def test_a_judge_that_fails_on_every_third_call_makes_no_label(config: Config, server: JudgeServer) -> None:
    """Run after run: what was finished stays, nothing is asked twice, and the result is that of a judge that works."""
    whole = run_stage(STAGE, beside(config, "whole"))
    needed = server.calls
    server.calls, server.fail_every = 0, 3
    runs = 0
    while not (config.out / "manifest.json").exists():
        runs += 1
        try:
            run_stage(STAGE, config)
        except StageError as error:
            assert "items failed" in str(error) and "http_500" in str(error)
        truth = {line["tile_id"]: line["outcome"] for line in map(json.loads, lines(config, "whole", "verdicts.jsonl"))}
        journal = config.out.with_name("mined.partial") / ".journal.jsonl"
        for entry in map(json.loads, journal.read_text().splitlines() if journal.exists() else ()):
            assert all(truth[tile_id] == outcome for tile_id, _, _, outcome, *_ in entry["value"]["looked"])
    assert runs > 1 and server.failed > 1 and server.calls == needed + server.failed
    assert read_manifest_counts(config) == whole["counts"]
    assert output_digests(config.out) == output_digests(config.out.with_name("whole"))
    assert cost(config)["failures"] == {"http_500": server.failed}


def lines(config: Config, folder: str, name: str) -> list[str]:
    return (config.out.with_name(folder) / name).read_text().splitlines()


def read_manifest_counts(config: Config) -> dict[str, Any]:
    counts: dict[str, Any] = json.loads((config.out / "manifest.json").read_text())["counts"]
    return counts


@pytest.mark.slow
def test_failed_calls_are_tried_again_or_their_pairs_counted(config: Config, server: JudgeServer) -> None:
    whole = run_stage(STAGE, beside(config, "whole"))
    server.fail_every = 9
    patient = beside(config, "patient", max_retries=8, width=2)
    assert run_stage(STAGE, patient)["counts"] == whole["counts"]
    assert output_digests(patient.out) == output_digests(config.out.with_name("whole"))
    server.calls, server.fail_every = 0, 13
    counts = run_stage(STAGE, beside(config, "tolerant", max_error_share=0.9))["counts"]
    assert 0 < counts["dropped_error"] == 6 - counts["examples"]
    outcomes = [json.loads(line)["outcome"] for line in lines(config, "tolerant", "outcomes.jsonl")]
    assert outcomes.count("error") == counts["dropped_error"] and len(outcomes) == 6


def test_asking_ahead_gives_the_same_files_and_counts_its_calls(config: Config, server: JudgeServer) -> None:
    run_stage(STAGE, config)
    needed = server.calls
    for example, pair in zip(read_jsonl(config.out / "examples.jsonl", TrainingExample), range(6), strict=True):
        assert example.known_positive_tile_ids == tuple(Planted.tile(pair, kind) for kind in FALSE_NEGATIVES)
    wide = beside(config, "wide", width=3, prices=Prices(1.0, 2.0))
    run_stage(STAGE, wide)
    assert output_digests(wide.out) == output_digests(config.out)
    assert cost(config)["judged_ahead"] == 0 and cost(config)["calls"] == needed
    extra = cost(wide)["judged_ahead"]
    assert extra == 6 * 2 and needed < server.calls - needed <= needed + 2 * extra == cost(wide)["calls"] + extra
    assert cost(wide)["cost"] == pytest.approx(cost(wide)["calls"] * (100 * 1.0 + 10 * 2.0) / 1e6)
    assert cost(wide)["cost_per_example"] == cost(wide)["cost"] / 6 and cost(wide)["calls_per_example"] > 1
    said = [one for one in read_jsonl(wide.out / "verdicts.jsonl", Looked) if one.outcome == "CORRECT"]
    assert {one.by for one in said} == {"exact match"} and all(one.answer for one in said)


def test_queries_of_the_same_words_share_their_verdicts(
    config: Config, planted: Planted, server: JudgeServer, tmp_path: Path
) -> None:
    pair = planted.pairs[0]
    run_stage(STAGE, dataclasses.replace(config, **with_pairs(planted, tmp_path, [pair])))
    alone = server.calls
    twice = with_pairs(planted, tmp_path, [pair, renamed(pair, "again"), renamed(pair, "third")])
    run_stage(STAGE, dataclasses.replace(beside(config, "twice"), **twice))
    assert server.calls == 2 * alone


def test_calls_of_different_blocks_overlap(config: Config, server: JudgeServer) -> None:
    """Answers wait until calls of four blocks are open: a stage that ended a block first would never see one."""
    server.together = 4
    run_stage(STAGE, beside(config, "overlapping", block=1))
    assert not server.waited_in_vain and len(set(server.asked[:4])) == 4


def test_blocks_are_searched_as_they_are_needed(
    config: Config, server: JudgeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    searched: list[int] = []
    search = Searcher.search

    def counted(self: Searcher, *arguments: Any, **options: Any) -> Any:
        searched.append(len(set(server.asked)))
        return search(self, *arguments, **options)

    monkeypatch.setattr(Searcher, "search", counted)
    run_stage(STAGE, beside(config, "lazy", block=1, concurrency=1))
    assert len(searched) == 6
    assert all(asked >= number - 2 for number, asked in enumerate(searched)), "at most two blocks ahead of the judge"


@pytest.mark.parametrize("width", [1, 4])
def test_a_budget_stops_the_stage_and_a_larger_one_goes_on(config: Config, server: JudgeServer, width: int) -> None:
    """Also if the last calls that are missing were asked ahead: they aren't needed."""
    run_stage(STAGE, beside(config, "whole", width=width))
    needed = server.calls
    stopped = beside(config, "stopped", width=width, budget=Budget(max_calls=needed // 2))
    with pytest.raises(BudgetError):
        run_stage(STAGE, stopped)
    assert server.calls == needed + needed // 2
    run_stage(STAGE, beside(config, "stopped", width=width, budget=Budget(max_calls=needed + 12)))
    assert output_digests(stopped.out) == output_digests(config.out.with_name("whole"))
    assert server.calls <= 2 * needed + 12
