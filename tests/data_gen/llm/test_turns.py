"""Calls of many turns with tools: what is sent, what names them, and the tool calls of a reply through the cache."""

import json

from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.llm.completion import from_row, read_completion, to_row
from tilewright.data_gen.llm.pictures import SentPicture
from tilewright.data_gen.llm.request import Reply, ToolCall
from tilewright.data_gen.llm.turns import Turn, turns_call

SETTINGS = LlmSettings("m", 0.0, 50, "http://localhost:1/v1", seed=3)
TOOLS = ({"type": "function", "function": {"name": "search"}},)
PICTURE = SentPicture(b"PNG", "ab" * 32, "image/png", (56, 28))
TURNS = (
    Turn("system", ("You search.",)),
    Turn("user", ("Where?",)),
    Turn("assistant", (), (ToolCall("search", '{"query": "x"}'),), ("call_1",)),
    Turn("tool", ("nothing",), call_ids=("call_1",)),
    Turn("user", ("shown:", PICTURE)),
)


def test_messages_are_those_of_the_chat_api() -> None:
    body = turns_call("agent", TURNS, SETTINGS, tools=TOOLS).body(False)
    system, user, assistant, tool, shown = body["messages"]
    assert (system["content"], user["content"], tool["content"]) == ("You search.", "Where?", "nothing")
    assert tool["tool_call_id"] == assistant["tool_calls"][0]["id"] == "call_1"
    assert assistant["tool_calls"][0]["function"] == {"name": "search", "arguments": '{"query": "x"}'}
    assert shown["content"][1]["image_url"]["url"].startswith("data:image/png;base64,")
    assert body["tools"] == list(TOOLS) and (body["tool_choice"], body["seed"]) == ("auto", 3)
    assert "tools" not in turns_call("agent", TURNS, SETTINGS).body(False)


def test_the_digest_names_all_that_determines_the_reply() -> None:
    same = turns_call("agent", TURNS, SETTINGS, tools=TOOLS)
    others = [
        turns_call("agent", TURNS[:-1], SETTINGS, tools=TOOLS),
        turns_call("agent", TURNS, SETTINGS),
        turns_call("agent", TURNS, SETTINGS, tools=TOOLS, tool_choice="none"),
        turns_call("agent", TURNS, SETTINGS, tools=TOOLS, attempt=1),
        turns_call("agent", (*TURNS[:-1], Turn("user", ("shown:", SentPicture(b"", "cd" * 32, "image/png", (9, 9))))),
                   SETTINGS, tools=TOOLS),
    ]  # fmt: skip
    assert len({same.digest, *(one.digest for one in others)}) == 6
    assert same.digest == turns_call("other purpose", TURNS, SETTINGS, tools=TOOLS).digest
    assert same.estimate.image_tokens == 2 and "\ud800" not in json.dumps(
        turns_call("agent", (Turn("user", ("\ud800",)),), SETTINGS).body(False), ensure_ascii=False
    )


def test_tool_calls_of_any_shape_are_read_and_kept() -> None:
    sent = [
        {"id": "a", "function": {"name": "search", "arguments": '{"query": "x"}'}},
        {"function": {"name": "search", "arguments": {"query": "sk-secret-key"}}},
        {"function": None},
        7,
        {"function": {"name": 3, "arguments": [1]}},
    ]
    message = {"role": "assistant", "content": None, "tool_calls": sent}
    body = json.dumps({"choices": [{"message": message, "finish_reason": "tool_calls"}]}).encode()
    reply = read_completion(body, "sk-secret-key")
    assert isinstance(reply, Reply) and reply.text == "" and reply.fault() is None
    assert [(call.name, call.arguments) for call in reply.tool_calls] == [
        ("search", '{"query": "x"}'), ("search", '{"query": "***"}'), ("", "null"), ("", "null"), ("", "[1]"),
    ]  # fmt: skip
    assert from_row(to_row(reply)).tool_calls == reply.tool_calls
    assert from_row('["a", "stop", null, null]').tool_calls == (), "rows of caches without tool calls"
