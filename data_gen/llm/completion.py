"""From the bytes of a chat completion to a Reply, strictly: whatever isn't a whole completion is a failure."""

import json
from typing import Any

from tilewright.data_gen.llm.failures import Failure, scrub
from tilewright.data_gen.llm.request import Reply, Usage

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
    if key is not None and len(key) >= _SECRET_LENGTH:  # a server that repeats it: it must not reach cache and data
        text, refusal = text and text.replace(key, "***"), refusal and refusal.replace(key, "***")
    return Reply(text or "", finish, _usage(data.get("usage")), refusal or None)


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
    return json.dumps([reply.text, reply.finish_reason, reply.refusal, usage], ensure_ascii=True)


def from_row(row: str) -> Reply:
    """A stored reply, marked as cached."""
    text, finish_reason, refusal, usage = json.loads(row)
    return Reply(text, finish_reason, None if usage is None else Usage(*usage), refusal, cached=True)
