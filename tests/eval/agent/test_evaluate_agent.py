"""Agents as rows of `tilewright evaluate`: over tiles and texts, over an endpoint, with failures apart."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.load import load
from tilewright.configs.stage import dry_run, run_stage
from tilewright.data_gen.records import EvalRecord, read_jsonl
from tilewright.eval.agent.options import Agent, SearchEndpoint
from tilewright.eval.agent.steps import STEPS, file_of
from tilewright.eval.deliveries import Compressed
from tilewright.eval.evaluate import STAGE, Config
from tilewright.eval.evidence.delivery import Tessera
from tilewright.eval.retrievers.texts import TextChunks
from tilewright.eval.rows import RowSpec

EXAMPLE = Path(__file__).parents[3] / "configs/eval/evaluate/agent.yaml"


@pytest.fixture
def evaluated(world: Any, tmp_path: Path) -> Callable[..., Config]:
    def make(name: str, *rows: RowSpec, **readers: Agent) -> Config:
        changes: dict[str, Any] = {"rows": rows, "readers": readers, "compare": (), "checkpoints": {}}
        changes |= {"reader_checkpoints": {}, "pages": world.root / "pages", "read_questions": None}
        changes["retrievers"] = {"text": TextChunks("text_chunks", tokens=12)}
        changes["deliveries"] = {"c4": Compressed("compressed", 4.0), "tessera": Tessera("tessera")}
        config: Config = world.config(tmp_path / name, **changes)
        return config

    return make


def cells(out: Path) -> dict[str, Any]:
    return {cell["name"]: cell for cell in json.loads((out / "metrics.json").read_text())["readers"]}


def test_an_agent_is_a_reader_of_any_row(evaluated: Any, agent_server: Any, options: Any) -> None:
    rows = (RowSpec("bm25", "c4", "react", (2,)), RowSpec("text", ("as_is", "tessera"), "react", (2,)))
    config = evaluated("out", *rows, react=options(agent_server, "honest"))
    run_stage(STAGE, config)
    found = cells(config.out)
    assert {cell["status"] for cell in found.values()} == {"complete"} and len(found) == 3
    for name, cell in found.items():
        measures = {key: value["value"] for key, value in cell["delivery_measures"].items()}
        assert (measures["searches"], measures["model_calls"], measures["rejected_replies"]) == (1.0, 2.0, 0.0)
        assert measures["prompt_tokens"] == cell["tokens"]["input"] > measures["final_context_tokens"]
        folder = config.out / STEPS / name
        records = read_jsonl(config.out / "records" / f"{name}.jsonl", EvalRecord)
        assert {path.name for path in folder.iterdir()} == {file_of(record.query_id) for record in records}
        for record in records:
            lines = [json.loads(line) for line in (folder / file_of(record.query_id)).read_text().splitlines()]
            assert lines[0]["query_id"] == record.query_id and lines[-1]["text"] == record.prediction
            assert len(lines[3]["items"]) <= 2 and record.input_tokens == lines[-1]["prompt_tokens"]
    assert found["text.as_is.react.k2"]["accuracy"]["alias"]["value"] == 0.5, "every year, and no other answer"
    assert found["bm25.c4.react.k2"]["accuracy"]["alias"]["value"] == 0.0, "the model reads no pictures"
    assert found["bm25.c4.react.k2"]["tokens"]["visual"] == 200
    report = (config.out / "report.html").read_text()
    assert "What deliveries and agents measure" in report and "final context tokens" in report


def test_an_endpoint_in_place_of_a_retriever(evaluated: Any, agent_server: Any, options: Any) -> None:
    endpoints = {kind: SearchEndpoint(f"{agent_server.url}/{kind}", max_retries=0) for kind in ("found", "down")}
    readers = {kind: options(agent_server, "honest", endpoint=one) for kind, one in endpoints.items()}
    config = evaluated("out", RowSpec("none", "as_is", ("found", "down"), (1,)), **readers)
    run_stage(STAGE, config)
    found = cells(config.out)
    assert found["none.as_is.found.k1"]["delivery_measures"]["searches"]["value"] == 1.0
    assert found["none.as_is.found.k1"]["n_errors"] == 0
    down = found["none.as_is.down.k1"]
    assert (down["status"], down["errors"]["retrieval failed"], down["n_graded"]) == ("failed", 8, 0)


def test_limits_are_counted_in_the_metrics(evaluated: Any, agent_server: Any, options: Any) -> None:
    agent = options(agent_server, "looping", limits={"searches": 2})
    config = evaluated("out", RowSpec("bm25", "as_is", "react", (1,)), react=agent)
    run_stage(STAGE, config)
    (cell,) = cells(config.out).values()
    assert cell["flags"]["forced: searches"] == 8 and cell["delivery_measures"]["searches"]["value"] == 2.0


def test_a_dry_run_counts_the_most_calls_and_asks_nothing(evaluated: Any, agent_server: Any, options: Any) -> None:
    before = len(agent_server.events())
    rows = (RowSpec("bm25", "as_is", ("native", "text"), (1,)),)
    agents = {name: options(agent_server, "m", protocol=name, limits={"searches": 3}) for name in ("native", "text")}
    said = dry_run(STAGE, evaluated("out", *rows, **agents))
    assert said.count("agent: calls 32") == 2 and len(agent_server.events()) == before


def test_rows_without_anything_to_search_are_refused_before_anything_runs(
    evaluated: Any, agent_server: Any, options: Any
) -> None:
    with pytest.raises(ValueError, match="wanted a retriever for the agent 'react' to search with"):
        evaluated("out", RowSpec("none", "as_is", "react", (1,)), react=options(agent_server, "honest"))


def test_the_example_config_loads_and_can_be_adapted(monkeypatch: pytest.MonkeyPatch) -> None:
    config = load(EXAMPLE, Config)
    agent = config.readers["react"]
    assert isinstance(agent, Agent) and agent.limits.searches == 8 and agent.endpoint is None
    changes = ["readers.react.protocol=text", "readers.react.endpoint={url: http://localhost:9/search}"]
    changes += ["rows=[{retriever: none, reader: react, k: [3]}]", "compare=[]"]
    other = load(EXAMPLE, Config, changes).readers["react"]
    assert isinstance(other, Agent) and other.endpoint == SearchEndpoint("http://localhost:9/search")
