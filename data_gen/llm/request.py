"""A request to a chat model and what came of it, in a form that no transport changes."""

import hashlib
import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Generic, Literal, TypeVar

T = TypeVar("T")
Reason = Literal["unparsed", "refused", "length", "content_filter"]


@dataclass(frozen=True)
class ImagePart:
    """An encoded picture (PNG, WebP, JPEG) in a user turn."""

    data: bytes

    @cached_property
    def sha256(self) -> str:
        """Of the encoded bytes, 64 hex characters."""
        return hashlib.sha256(self.data).hexdigest()

    def __repr__(self) -> str:
        return f"ImagePart({len(self.data)} bytes, sha256 {self.sha256[:12]})"


@dataclass(frozen=True)
class Request:
    """One user turn (texts and pictures in order) under an optional system text.

    ``purpose`` names the step in the ledger; it is no part of the digest. ``schema``: a JSON schema that the reply
    shall follow, sent under ``schema_name``. ``max_tokens`` takes the place of the setting.
    """

    purpose: str
    parts: tuple[str | ImagePart, ...]
    system: str | None = None
    schema: Mapping[str, Any] | None = None
    schema_name: str = "reply"
    max_tokens: int | None = None


@dataclass(frozen=True)
class Usage:
    """Tokens of a call as the server told them; ``image_tokens`` None where it doesn't tell."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_input_tokens: int = 0
    image_tokens: int | None = None


@dataclass(frozen=True)
class ToolCall:
    """A model's wish to call a tool: ``name`` and ``arguments`` as it wrote them. JSON is wanted, anything may come."""

    name: str
    arguments: str


@dataclass(frozen=True)
class Reply:
    """A well-formed completion. ``refusal``: the server's own mark of a refusal. ``usage`` None: not told."""

    text: str
    finish_reason: str
    usage: Usage | None = None
    refusal: str | None = None
    cached: bool = False
    tool_calls: tuple[ToolCall, ...] = ()

    def fault(self) -> Reason | None:
        """Why the text can't be used, before anyone reads it."""
        if self.finish_reason == "length":
            return "length"
        if self.finish_reason == "content_filter":
            return "content_filter"
        return None if self.refusal is None else "refused"


@dataclass(frozen=True)
class Answered(Generic[T]):
    """What the parser made of ``reply``; ``attempt`` counts from 0."""

    value: T
    reply: Reply
    attempt: int = 0


@dataclass(frozen=True)
class Unusable:
    """No attempt gave a reply that can be used; ``reason`` is that of the last."""

    reason: Reason
    replies: tuple[Reply, ...]


@dataclass(frozen=True)
class Estimate:
    """Input of a request before it is sent: ``input_tokens`` expected, ``most_input_tokens`` as good as never exceeded.

    Text: a quarter of its UTF-8 bytes expected, all of them at most (a byte-level tokenizer never gives more), and 16
    a message. Pictures: ceil(width / patch) x ceil(height / patch) each, both ways.
    """

    input_tokens: int
    most_input_tokens: int
    image_tokens: int


def estimate(texts: list[str], sizes_px: list[tuple[int, int]], patch_px: int) -> Estimate:
    """The estimate of one request with these texts and pictures of these (width, height)."""
    size = sum(len(text.encode("utf-8", "surrogatepass")) for text in texts)
    images = sum(math.ceil(width / patch_px) * math.ceil(height / patch_px) for width, height in sizes_px)
    overhead = 16 * (len(texts) + 1)
    return Estimate(math.ceil(size / 4) + overhead + images, size + overhead + images, images)
