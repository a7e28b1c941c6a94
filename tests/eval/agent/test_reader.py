"""The agent as a reader: what names it, how it goes on after a kill, what it keeps of each question."""

import dataclasses
import json
import runpy
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.eval.agent.options import Agent, Limits, SearchEndpoint, check_agents
from tilewright.eval.agent.reader import AgentReader
from tilewright.eval.agent.steps import STEPS, copy_steps, file_of
from tilewright.eval.deliveries import AsIs, Compressed, Delivery, as_is, compressed
from tilewright.eval.parts import Asked
from tilewright.eval.retrievers.simple import ClosedBook, NoRetrieval
from tilewright.eval.rows import Cell

PROGRAM = Path(__file__).with_name("agent_program.py")
QUESTIONS = 12


def run(server: Any, out: Path) -> None:
    runpy.run_path(str(PROGRAM))["run"](f"{server.url}/v1", out, QUESTIONS)


def kill_at(server: Any, calls: int, out: Path) -> bool:
    """Kill -9 as soon as the server has seen so many calls; whether the program was still at work."""
    command = [sys.executable, str(PROGRAM), f"{server.url}/v1", str(out), str(QUESTIONS)]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(server.events()) < calls:
            time.sleep(0.01)
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
    return alive


def test_killed_it_goes_on_and_repeats_no_finished_call(tmp_path: Path, slow_server: Callable[[float], Any]) -> None:
    server = slow_server(0.02)
    whole, out = tmp_path / "whole", tmp_path / "killed"
    run(server, whole)
    before = len(server.events())
    assert before == QUESTIONS * 4, "three searches and the answer"
    assert kill_at(server, before + 22, out)
    finished = sum(path.read_bytes().count(b"\n") for path in (out / "answers").glob("*/.journal.jsonl"))
    assert 0 < finished < QUESTIONS
    run(server, out)
    assert (out / "values.json").read_bytes() == (whole / "values.json").read_bytes()
    steps = {path.name: path.read_bytes() for path in (out / "answers").glob(f"*/{STEPS}/*.jsonl")}
    wanted = {path.name: path.read_bytes() for path in (whole / "answers").glob(f"*/{STEPS}/*.jsonl")}
    assert steps == wanted and len(steps) == QUESTIONS
    again = Counter(line["digest"] for line in server.events("end")[before:])
    (ledger,) = [json.loads(path.read_text())["all"] for path in (out / "answers").glob("*/logs/ledger.json")]
    assert sum(again.values()) - len(again) <= ledger["in_flight_at_kill"] <= 4, "at most those in flight at the kill"
    assert len(again) == before
    run(server, out)
    assert len(server.events("end")) == before + sum(again.values()), "nothing is asked twice"


def test_identity_is_of_all_that_determines_an_answer(agent_server: Any, options: Any, words: Any) -> None:
    agent, retriever = options(agent_server, "honest"), words()
    plain, small = as_is(AsIs("as_is"), None), compressed(Compressed("compressed", 4.0), None)  # type: ignore[arg-type]
    one = AgentReader(agent).using(retriever, plain, 3)
    elsewhere = dataclasses.replace(agent, llm=dataclasses.replace(agent.llm, base_url="http://h/v1", concurrency=1))
    assert isinstance(one, AgentReader)
    assert AgentReader(elsewhere).using(retriever, plain, 3).identity == one.identity
    others = [
        AgentReader(agent).using(retriever, plain, 2),
        AgentReader(agent).using(retriever, small, 3),
        AgentReader(agent).using(words({"t0": "x"}), plain, 3),
        AgentReader(dataclasses.replace(agent, limits=Limits(searches=2))).using(retriever, plain, 3),
        AgentReader(dataclasses.replace(agent, protocol="text")).using(retriever, plain, 3),
        AgentReader(dataclasses.replace(agent, depth=500)).using(retriever, plain, 3),
        AgentReader(dataclasses.replace(agent, endpoint=SearchEndpoint("http://h/x"))).using(ClosedBook(), plain, 3),
    ]
    assert len({one.identity, *(other.identity for other in others)}) == 8


def test_steps_are_copied_under_names_that_no_id_can_choose(ask: Any, question: Any, tmp_path: Path) -> None:
    made = ask("honest", questions=[question(0), question(1, "broken index")])
    keys = {one.query_id: Asked(one, ()).key(False) for one in (question(0), question(1, "broken index"))}
    copy_steps(made.folder, keys | {"never asked": "0" * 64}, tmp_path / "out")
    assert {path.name for path in (tmp_path / "out").iterdir()} == {file_of(name) for name in keys}
    lines = [json.loads(line) for line in (tmp_path / "out" / file_of("q/../0")).read_text().splitlines()]
    assert lines[0] == {"step": "begin", "query_id": "q/../0"} and lines[-1]["step"] == "answer"
    assert lines[-1]["text"] == made.found["q/../0"].text == "1705"
    failed = (tmp_path / "out" / file_of("q/../1")).read_text().splitlines()
    assert json.loads(failed[-1]) == {"step": "error", "error": "retrieval failed: the index is down"}
    assert isinstance(made.found["q/../1"], ItemError)


def test_an_agent_needs_one_thing_to_search(agent_server: Any, options: Any) -> None:
    agent = options(agent_server, "honest")
    with pytest.raises(InputError, match="wanted a retriever"):
        AgentReader(agent).using(ClosedBook(), Delivery("x", lambda item: (item, None)), 1)
    with pytest.raises(InputError, match="wanted an agent with a tool"):
        list(AgentReader(agent).answer([], Path()))
    served = dataclasses.replace(agent, endpoint=SearchEndpoint("http://h/x"))
    none = {"none": NoRetrieval("none")}
    check_agents([Cell("bm25", "c4", "a", 3)], {"a": agent}, none)
    check_agents([Cell("none", "as_is", "a", 3)], {"a": served}, none)
    for cell, reader in ((Cell("none", "as_is", "a", 1), agent), (Cell("bm25", "as_is", "a", 1), served)):
        with pytest.raises(ValueError, match=r"rows: .*: "):
            check_agents([cell], {"a": reader}, none)
    with pytest.raises(ValueError, match="delivery as_is, found 'none' and 'c4'"):
        check_agents([Cell("none", "c4", "a", 1)], {"a": served}, none)


def test_settings_out_of_bounds_are_refused(agent_server: Any, options: Any) -> None:
    for changes in ({"searches": 0}, {"context_tokens": 0}, {"total_tokens": 0}, {"rejected": -1}):
        with pytest.raises(ValueError, match="wanted at least"):
            Limits(**changes)
    with pytest.raises(ValueError, match=r"context_tokens: wanted more than llm\.max_tokens"):
        Agent("agent", options(agent_server, "m").llm, limits=Limits(context_tokens=100))
