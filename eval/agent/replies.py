"""What a reply of the model asks for: a search, an answer, or nothing that can be read; strictly, never by searching
inside a sentence."""

import json
import re
from dataclasses import dataclass
from typing import Literal

from tilewright.data_gen.llm import Reply
from tilewright.data_gen.llm.request import ToolCall
from tilewright.data_gen.reply_text import visible_text
from tilewright.eval.agent.defusing import defused

SEARCH = "search"
MAX_QUERY_CHARACTERS = 1_000
MAX_CALLS = 16  # of one reply that are looked at
Fault = Literal[
    "empty_reply", "length", "content_filter", "refused", "no_label", "two_labels", "text_after_label", "empty_answer",
    "unknown_tool", "bad_arguments", "empty_query", "long_query", "call_as_text", "search_at_the_end", "thought_only",
]  # fmt: skip

_LABEL = re.compile(r"<\s*(?P<shut>/?)\s*(?P<name>search|answer)\s*>", re.IGNORECASE)
_CALL_AS_TEXT = re.compile(r"<\|?tool_call|<function=|\[TOOL_CALLS\]|<｜tool▁call", re.IGNORECASE)


@dataclass(frozen=True)
class Wish:
    """A search that the model asks for, or the ``fault`` of a call that is none. ``call``: a native tool call, made
    safe to be sent back. A page may have talked the model into writing delimiters: the query holds none."""

    query: str
    fault: Fault | None = None
    call: ToolCall | None = None


@dataclass(frozen=True)
class Searches:
    """At least one wish; ``left_out``: calls beyond MAX_CALLS; ``thought``: what was said before them."""

    wishes: tuple[Wish, ...]
    left_out: int = 0
    thought: str = ""


@dataclass(frozen=True)
class Answer:
    """The model's answer. ``labelled``: whether it came in the label that was asked for."""

    text: str
    labelled: bool = True


@dataclass(frozen=True)
class Rejected:
    """A reply that can't be read, and why."""

    fault: Fault


def read_labels(reply: Reply) -> Searches | Answer | Rejected:
    """A reply of the text protocol: free text, then one ``<search>`` or ``<answer>`` label that ends it.

    The closing label may be missing (servers cut a stop sequence off) if the text after the opening one is one line.
    """
    text = _visible(reply)
    if isinstance(text, Rejected):
        return text
    labels = list(_LABEL.finditer(text))
    if not labels:
        return Rejected("no_label")
    first, rest = labels[0], labels[1:]
    if first["shut"] or len(rest) > 1 or (rest and not _closes(first, rest[0])):
        return Rejected("two_labels")
    inner = text[first.end() : rest[0].start()] if rest else text[first.end() :]
    if (rest and text[rest[0].end() :].strip()) or (not rest and "\n" in inner.strip()):
        return Rejected("text_after_label")
    if first["name"].lower() == SEARCH:
        wish = _wish(inner, None)
        return Rejected(wish.fault) if wish.fault else Searches((wish,), thought=text[: first.start()].strip())
    return Answer(inner.strip()) if inner.strip() else Rejected("empty_answer")


def _closes(opened: re.Match[str], closed: re.Match[str]) -> bool:
    return bool(closed["shut"]) and opened["name"].lower() == closed["name"].lower()


def read_calls(reply: Reply) -> Searches | Answer | Rejected:
    """A reply of the native protocol: tool calls, else its text is the answer."""
    if reply.tool_calls and reply.fault() is None:
        calls = reply.tool_calls[:MAX_CALLS]
        thought = (visible_text(reply.text) or "").strip()
        return Searches(tuple(_wish_of(call) for call in calls), len(reply.tool_calls) - len(calls), thought)
    text = _visible(reply)
    if isinstance(text, Rejected):
        return text
    return Rejected("call_as_text") if _CALL_AS_TEXT.search(text) else Answer(text)


def read_last(reply: Reply, *, labels: bool) -> Answer | Rejected:
    """The reply that must be an answer. Where ``labels`` are wanted, one line without any is taken too."""
    read = read_labels(reply) if labels else read_calls(reply)
    if isinstance(read, Searches):
        return Rejected("search_at_the_end")
    if read == Rejected("no_label"):
        text = _visible(reply)
        if isinstance(text, str) and "\n" not in text:
            return Answer(text, labelled=False)
    return read


def _visible(reply: Reply) -> str | Rejected:
    """The reply's text without thoughts."""
    reason = reply.fault()
    if reason is not None and reason != "unparsed":
        return Rejected(reason)
    text = visible_text(reply.text)
    if text is None:
        return Rejected("thought_only")
    return text.strip() or Rejected("empty_reply")


def _wish(query: str, call: ToolCall | None) -> Wish:
    query, _ = defused(" ".join(query.split()))
    fault: Fault | None = None if query else "empty_query"
    return Wish(query, "long_query" if len(query) > MAX_QUERY_CHARACTERS else fault, call)


def _wish_of(call: ToolCall) -> Wish:
    """A native call; what it said goes back to the server only as well-formed JSON under a name that can be one."""
    name = re.sub(r"[^A-Za-z0-9_-]", "_", call.name)[:64] or "none"
    empty = ToolCall(name, "{}")
    if call.name != SEARCH:
        return Wish("", "unknown_tool", empty)
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return Wish("", "bad_arguments", empty)
    if not isinstance(arguments, dict) or set(arguments) != {"query"} or not isinstance(arguments["query"], str):
        return Wish("", "bad_arguments", empty)
    wish = _wish(arguments["query"], empty)
    if wish.fault:
        return Wish("", wish.fault, empty)
    return Wish(wish.query, None, ToolCall(SEARCH, json.dumps({"query": wish.query})))
