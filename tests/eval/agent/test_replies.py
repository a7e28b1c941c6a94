"""A table of replies to each protocol, and what may never be read out of any reply."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.llm import Reply
from tilewright.data_gen.llm.request import ToolCall
from tilewright.eval.agent.replies import (
    MAX_CALLS,
    Answer,
    Rejected,
    Searches,
    read_calls,
    read_labels,
    read_last,
)


def queries(read: Any) -> list[str]:
    assert isinstance(read, Searches)
    return [wish.query for wish in read.wishes]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<search>oslo founded</search>", "oslo founded"),
        ("I should look.\n\n<search>\n oslo\n founded </search>\n", "oslo founded"),
        ("<think>or <answer>x</answer>?</think><SEARCH>oslo</SEARCH><|im_end|>", "oslo"),
        ("Let me see: <search>oslo", "oslo"),
        ("<search>a <|im_end|> b</search>", "a &lt;|im_end|> b"),
    ],
)
def test_searches_by_label(text: str, wanted: str) -> None:
    assert queries(read_labels(Reply(text, "stop"))) == [wanted]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("<answer>1705</answer>", "1705"),
        ("The page says &lt;answer>1999&lt;/answer>, wrongly.\n<answer> 1705 </answer>", "1705"),
        ("Known.\n<Answer>1705", "1705"),
        ("<answer>two\nlines</answer>", "two\nlines"),
    ],
)
def test_answers_by_label(text: str, wanted: str) -> None:
    assert read_labels(Reply(text, "stop")) == Answer(wanted)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("", "empty_reply"),
        (" \n ", "empty_reply"),
        ("<think>for ever", "thought_only"),
        ("The answer is 1705.", "no_label"),
        ("Answer: 1705", "no_label"),
        ("&lt;answer>1705&lt;/answer>", "no_label"),
        ("<search>a</search><search>b</search>", "two_labels"),
        ("<search>a</search> <answer>b</answer>", "two_labels"),
        ("<answer>a</search>", "two_labels"),
        ("</answer>", "two_labels"),
        ("<answer><answer>a</answer></answer>", "two_labels"),
        ("<search>a</search>\n<results>forged</results>", "text_after_label"),
        ("<answer>1705\nfor so it is said", "text_after_label"),
        ("<answer> </answer>", "empty_answer"),
        ("<search></search>", "empty_query"),
        (f"<search>{'x' * 1001}</search>", "long_query"),
    ],
)
def test_what_cannot_be_read_by_label(text: str, fault: str) -> None:
    assert read_labels(Reply(text, "stop")) == Rejected(fault)  # type: ignore[arg-type]


def test_replies_that_are_no_answer_whatever_they_say() -> None:
    for read in (read_labels, read_calls):
        assert read(Reply("<answer>1705</answer>", "length")) == Rejected("length")
        assert read(Reply("<answer>1705</answer>", "content_filter")) == Rejected("content_filter")
        assert read(Reply("<answer>1705</answer>", "stop", refusal="no")) == Rejected("refused")
    call = (ToolCall("search", '{"query": "x"}'),)
    assert read_calls(Reply("", "length", tool_calls=call)) == Rejected("length")


@pytest.mark.parametrize(
    ("name", "arguments", "fault"),
    [
        ("browse", '{"query": "x"}', "unknown_tool"),
        ("", "null", "unknown_tool"),
        ("search", "", "bad_arguments"),
        ("search", '{"query": "x"', "bad_arguments"),
        ("search", '{"query": "x", "k": 3}', "bad_arguments"),
        ("search", '{"query": ["x"]}', "bad_arguments"),
        ("search", "[" * 100_000, "bad_arguments"),
        ("search", '"x"', "bad_arguments"),
        ("search", '{"query": "  "}', "empty_query"),
        ("search", json.dumps({"query": "x" * 2000}), "long_query"),
    ],
)
def test_calls_that_are_no_search_go_back_as_empty_objects(name: str, arguments: str, fault: str) -> None:
    read = read_calls(Reply("", "tool_calls", tool_calls=(ToolCall(name, arguments),)))
    assert isinstance(read, Searches)
    (wish,) = read.wishes
    assert wish.fault == fault and wish.call is not None and wish.call.arguments == "{}" and wish.call.name


def test_native_searches_and_answers() -> None:
    calls = tuple(ToolCall("search", json.dumps({"query": f"q {n}"})) for n in range(MAX_CALLS + 5))
    read = read_calls(Reply("thinking", "tool_calls", tool_calls=calls))
    assert queries(read) == [f"q {n}" for n in range(MAX_CALLS)]
    assert isinstance(read, Searches) and (read.left_out, read.thought) == (5, "thinking")
    assert read_calls(Reply("<think>a</think> 1705 ", "stop")) == Answer("1705")
    assert read_calls(Reply('<tool_call>{"name": "search"}</tool_call>', "stop")) == Rejected("call_as_text")


def test_the_last_reply_must_answer() -> None:
    search = (ToolCall("search", '{"query": "x"}'),)
    assert read_last(Reply("", "stop", tool_calls=search), labels=False) == Rejected("search_at_the_end")
    assert read_last(Reply("<search>x</search>", "stop"), labels=True) == Rejected("search_at_the_end")
    assert read_last(Reply("1705", "stop"), labels=True) == Answer("1705", labelled=False)
    assert read_last(Reply("Well.\n1705", "stop"), labels=True) == Rejected("no_label")
    assert read_last(Reply("</search> 1705", "stop"), labels=True) == Rejected("two_labels")


PIECES = st.lists(
    st.sampled_from(
        ["<search>", "</search>", "<answer>", "</answer>", "< answer >", "&lt;answer>", "a", "\n", "<think>"]
    )
    | st.text(max_size=5),
    max_size=8,
).map("".join)


@given(PIECES)
def test_one_label_at_the_very_end_or_nothing_is_read(text: str) -> None:
    read = read_labels(Reply(text, "stop"))
    if isinstance(read, Answer):
        assert read.text.strip() == read.text != "" and "<answer>" not in read.text.lower()
        assert text.lower().replace(" ", "").count("<answer>") >= 1
    elif isinstance(read, Searches):
        (wish,) = read.wishes
        assert wish.query and "search>" not in wish.query.replace("&lt;search>", "").replace("&lt;/search>", "")
    else:
        assert isinstance(read, Rejected)


@given(st.text(max_size=30), st.text(max_size=60))
def test_no_tool_call_raises(name: str, arguments: str) -> None:
    read = read_calls(Reply("", "tool_calls", tool_calls=(ToolCall(name, arguments),)))
    assert isinstance(read, Searches) and (read.wishes[0].fault is None) == bool(read.wishes[0].query)
