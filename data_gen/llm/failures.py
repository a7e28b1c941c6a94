"""What can go wrong between us and a server, sorted: try again, give up the item, or stop the stage."""

import email.utils
import math
import random
import re
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tilewright.configs.items import ItemError
from tilewright.configs.stage import StageError

MAX_RETRY_AFTER_S = 900.0
_NO_IMAGES = re.compile(
    r"image input is not supported|is not a multimodal model|mmproj|does not support image|doesn't support image"
    r"|image_url.{0,40}(not supported|unsupported|is only supported)|At most 0 image",
    re.IGNORECASE | re.DOTALL,
)
_NO_SCHEMA = re.compile(r"response_format|json_schema|guided|grammar|structured[ _]output", re.IGNORECASE)
_TOKEN = re.compile(r"(Bearer\s+)\S+|\bsk-[A-Za-z0-9_-]{8,}", re.IGNORECASE)
_SHOWN = 300  # characters of a server's own words


class CallError(ItemError):
    """A call that failed for good: its item is an error of the stage and is tried again by the next run."""


class BudgetError(StageError):
    """The budget allows no further call; what is finished is kept."""


class DeadlineError(StageError):
    """``stage_timeout_s`` is over; what is finished is kept."""


class BatchUnderWayError(StageError):
    """Calls to be made live are in a batch that isn't over; what is finished is kept."""


class KeyRefusedError(StageError):
    """The server refuses the key (401, 403) or the account behind it."""


class ModelUnknownError(StageError):
    """The server has no such model, or no chat completions at this address (404)."""


class ImagesUnsupportedError(StageError):
    """The model behind the server takes no pictures."""


class ServerFailingError(StageError):
    """The server was never reached, or only failures came for a long while."""


@dataclass(frozen=True)
class Failure:
    """One call without a usable answer. ``may_cost``: the server may have done (and bill) the work nonetheless."""

    kind: str
    text: str
    retryable: bool = True
    retry_after_s: float | None = None
    may_cost: bool = False
    slow_down: bool = False
    stop: type[StageError] | None = None
    schema_refused: bool = False


class BodyError(Exception):
    """A body that isn't read (on): too long, or compressed. ``failure``: what it is to the call."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(failure.text)
        self.failure = failure


def scrub(text: str, key: str | None) -> str:
    """A server's words, shortened, on one line, without our key or anything that looks like one."""
    if key:
        text = text.replace(key, "***")
    text = _TOKEN.sub(lambda found: (found[1] or "") + "***", " ".join(text.split()))
    return text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."


def failure_of(error: Exception, key: str | None) -> Failure:
    """The failure behind an exception of the openai package, a BodyError or a TimeoutError of our own deadline."""
    import openai

    for found in (error, error.__cause__):  # openai 2 wraps what it doesn't know
        if isinstance(found, BodyError):
            return found.failure
    if isinstance(error, (TimeoutError, openai.APITimeoutError)):
        return Failure("timeout", "no complete reply in time", may_cost=True)
    if isinstance(error, openai.APIStatusError):
        text = error.response.text or str(error)
        return status_failure(error.status_code, text, error.response.headers, key)
    cause = error.__cause__ or error
    if type(cause).__name__ in ("ConnectError", "ConnectTimeout", "PoolTimeout", "ProxyError", "UnsupportedProtocol"):
        return Failure("unreachable", scrub(str(cause), key) or type(cause).__name__)
    return Failure("connection", scrub(f"{type(cause).__name__}: {cause}", key), may_cost=True)


def status_failure(status: int, text: str, headers: Mapping[str, str], key: str | None) -> Failure:
    """The failure behind a reply with an HTTP status that isn't 200; ``text`` is its body."""
    said = f"HTTP {status}: {scrub(text, key)}"
    if _NO_IMAGES.search(text) and status != 429:
        return Failure("images_unsupported", said, False, stop=ImagesUnsupportedError)
    if status in (401, 402, 403) or (status == 429 and "insufficient_quota" in text):
        return Failure("refused_key", said, False, stop=KeyRefusedError)
    if status == 404:
        return Failure("unknown_model", said, False, stop=ModelUnknownError)
    if status in (408, 409, 425, 429) or status >= 500:
        kind = "rate_limited" if status == 429 else f"http_{status}"
        wait_s = retry_after_s(headers)
        too_long = wait_s is not None and wait_s > MAX_RETRY_AFTER_S
        return Failure(kind, said, not too_long, wait_s, status >= 500, slow_down=status in (429, 503))
    refused = status in (400, 422) and _NO_SCHEMA.search(text) is not None
    return Failure(f"http_{status}", said, False, schema_refused=refused)


def retry_after_s(headers: Mapping[str, str]) -> float | None:
    """Seconds to wait as ``Retry-After`` (seconds or HTTP date) or ``retry-after-ms`` says; None without."""
    for name, per_s in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            wait_s = float(headers.get(name, "")) / per_s
        except ValueError:
            continue
        if math.isfinite(wait_s):
            return max(wait_s, 0.0)
    try:
        parsed = email.utils.parsedate_tz(headers.get("retry-after", ""))
        return None if parsed is None else max(email.utils.mktime_tz(parsed) - time.time(), 0.0)
    except (TypeError, ValueError, OverflowError, IndexError):
        return None


def backoff_s(retry: int, retry_after: float | None) -> float:
    """How long to wait before retry 1, 2, ...: full jitter below 0.25 x 2^retry s, at most 30; or what the server asks.

    What a server asks for is a floor: a little jitter on top keeps waiting calls from coming back at one moment.
    """
    if retry_after is not None:
        return retry_after + random.uniform(0, min(0.25, 0.1 + retry_after / 10))
    return random.uniform(0.05, min(30.0, 0.25 * 2.0 ** min(retry, 10)))


def stop_message(failure: Failure, settings: Any) -> str:
    """What a person can do about a failure that stops the stage."""
    where = f"{settings.base_url} (model {settings.model!r}): {failure.text}."
    if failure.stop is ImagesUnsupportedError:
        return (
            f"{where} This model takes no pictures: serve a vision model"
            " (llama.cpp: start the server with --mmproj), or choose another `llm.model`"
        )
    if failure.stop is KeyRefusedError:
        name = settings.api_key_env
        found = "no key is configured (`llm.api_key_env`)" if name is None else f"the key is that of ${name}"
        return f"{where} The server refuses the key or its account: {found}"
    return f"{where} Check `llm.model` and `llm.base_url` (it ends with /v1 for most servers)"
