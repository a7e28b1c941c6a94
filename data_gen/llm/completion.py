"""From the bytes of a chat completion to a Reply, strictly: whatever isn't a whole completion is a failure."""

import json
from typing import Any

from tilewright.data_gen.llm.failures import Failure, scrub
from tilewright.data_gen.llm.request import Reply, ToolCall, Usage

_SECRET_LENGTH = 12  # shorter "keys" (EMPTY, none) are words that a reply may hold


def read_completion(body: bytes, key: str | None) -> Reply | Failure:
    """The reply in a response body of status 200; Failure for half a JSON, an error in disguise, or no choice."""
    try:
        data = json.loads(body)
    except (ValueError, RecursionError) as error:
        return Failure(
            "broken_json", f"the reply is no JSON ({type(error).__name__}, {len(body)} bytes)", may_cost=True
        )
    return reply_of(data, key)


def reply_of(data: Any, key: str | None) -> Reply | Failure:
    """The reply in a decoded chat completion."""
    if not isinstance(data, dict):
        return Failure("broken_json", f"wanted a completion, found {type(data).__name__}", may_cost=True)
    choices = data.get("choices")
    if not isinstance(choices, list) or not choices:
        if isinstance(data.get("error"), (dict, str)):
            return Failure("error_body", scrub(json.dumps(data["error"], ensure_ascii=False), key), may_cost=True)
        return Failure("empty_choices", "the completion has no choice", may_cost=True)
    choice = choices[0]
    message = choice.get("message") if isinstance(choice, dict) else None
    if not isinstance(message, dict):
        return Failure("empty_choices", "the choice has no message", may_cost=True)
    text, refusal, finish = message.get("content"), message.get("refusal"), choice.get("finish_reason")
    if not isinstance(text, str | None) or not isinstance(refusal, str | None):
        return Failure("broken_json", "wanted a text as content, found something else", may_cost=True)
    finish = finish if isinstance(finish, str) else "stop"
    calls = _tool_calls(message.get("tool_calls"))
    if key is not None and len(key) >= _SECRET_LENGTH:  # a server that repeats it: it must not reach cache and data
        text, refusal = text and text.replace(key, "***"), refusal and refusal.replace(key, "***")
        calls = tuple(ToolCall(*(part.replace(key, "***") for part in (one.name, one.arguments))) for one in calls)
    return Reply(text or "", finish, _usage(data.get("usage")), refusal or None, tool_calls=calls)


def _tool_calls(data: Any) -> tuple[ToolCall, ...]:
    """The calls in a message; one that is none has an empty name. Arguments that are an object become its JSON."""
    found = []
    for entry in data if isinstance(data, list) else ():
        wanted = entry.get("function") if isinstance(entry, dict) else None
        wanted = wanted if isinstance(wanted, dict) else {}
        name, arguments = wanted.get("name"), wanted.get("arguments")
        said = arguments if isinstance(arguments, str) else json.dumps(arguments)
        found.append(ToolCall(name if isinstance(name, str) else "", said))
    return tuple(found)


def _usage(data: Any) -> Usage | None:
    if not isinstance(data, dict):
        return None
    details = data.get("prompt_tokens_details")
    details = details if isinstance(details, dict) else {}
    images = details.get("image_tokens")
    return Usage(
        _count(data.get("prompt_tokens")),
        _count(data.get("completion_tokens")),
        _count(details.get("cached_tokens")),
        _count(images) if isinstance(images, int) else None,
    )


def _count(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53 else 0


def to_row(reply: Reply) -> str:
    """A reply as the cache stores it."""
    usage = None if reply.usage is None else list(vars(reply.usage).values())
    calls = [[call.name, call.arguments] for call in reply.tool_calls]
    row = [reply.text, reply.finish_reason, reply.refusal, usage]
    return json.dumps([*row, calls] if calls else row, ensure_ascii=True)


def from_row(row: str) -> Reply:
    """A stored reply, marked as cached."""
    text, finish_reason, refusal, usage, *calls = json.loads(row)
    tool_calls = tuple(ToolCall(*call) for call in calls[0]) if calls else ()
    usage = None if usage is None else Usage(*usage)
    return Reply(text, finish_reason, usage, refusal, cached=True, tool_calls=tool_calls)
