"""A request made ready to go out: its body, its digest and what it can cost at most."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.data_gen.llm.pictures import SentPicture
from tilewright.data_gen.llm.request import Estimate, ImagePart, Request, estimate
from tilewright.data_gen.llm.settings import LlmSettings

MAX_TOKENS = "max_tokens"


@dataclass(frozen=True)
class Call:
    """One attempt at a request. ``digest``: SHA-256 over all that determines the reply. ``has_schema``: whether the
    body may carry a JSON schema; ``body(with_schema)`` makes the JSON body, pictures as data URLs."""

    purpose: str
    digest: str
    body: Callable[[bool], dict[str, Any]]
    has_schema: bool
    estimate: Estimate
    max_tokens: int

    @property
    def most_tokens(self) -> int:
        """Input and output together, at most."""
        return self.estimate.most_input_tokens + self.max_tokens


def make_call(request: Request, pictures: list[SentPicture], settings: LlmSettings, attempt: int) -> Call:
    """Attempt ``attempt`` (from 0) at ``request``; ``pictures`` are its ImageParts in order, as they are sent."""
    request = _sendable(request)
    max_tokens = request.max_tokens or settings.max_tokens
    schema = request.schema if settings.structured_output != "none" else None
    sampling = sampling_of(settings, attempt)
    named = _messages(request, [{"sha256": picture.sha256, "type": picture.media_type} for picture in pictures])
    identity = {
        "model": settings.model,
        "messages": named,
        "detail": settings.image.detail if pictures else None,
        "sampling": sampling,
        MAX_TOKENS: max_tokens,
        "schema": None if schema is None else [request.schema_name, schema],
        "extra_body": settings.extra_body,
        "attempt": attempt,
    }

    def body(with_schema: bool) -> dict[str, Any]:
        detail = {} if settings.image.detail is None else {"detail": settings.image.detail}
        urls = [{"type": "image_url", "image_url": {"url": picture.url(), **detail}} for picture in pictures]
        made = {"model": settings.model, "messages": _messages(request, urls), **sampling}
        made[settings.max_tokens_name] = max_tokens
        if with_schema and schema is not None:
            wanted = {"name": request.schema_name, "schema": schema, "strict": True}
            made["response_format"] = {"type": "json_schema", "json_schema": wanted}
        return made | settings.extra_body

    texts = [part for part in (request.system, *request.parts) if isinstance(part, str)]
    if schema is not None:
        texts.append(canonical_json(schema))
    expected = estimate(texts, [picture.size_px for picture in pictures], settings.image_patch_px)
    digest = digest_text(canonical_json(identity))
    return Call(request.purpose, digest, body, schema is not None, expected, max_tokens)


def _sendable(request: Request) -> Request:
    """``request`` with lone surrogates, which no HTTP body can hold, as replacement characters."""
    parts = tuple(without_surrogates(part) if isinstance(part, str) else part for part in request.parts)
    system = None if request.system is None else without_surrogates(request.system)
    return replace(request, parts=parts, system=system)


def without_surrogates(text: str) -> str:
    """``text`` with replacement characters for what no HTTP body can hold."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def sampling_of(settings: LlmSettings, attempt: int) -> dict[str, Any]:
    """Temperature, top_p and the seed of an attempt, where they are set."""
    seed = None if settings.seed is None else settings.seed + attempt
    wanted = {"temperature": settings.temperature, "top_p": settings.top_p, "seed": seed}
    return {name: value for name, value in wanted.items() if value is not None}


def _messages(request: Request, images: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Chat messages; ``images`` stand in for the ImageParts, in order. A turn of one text is a plain string."""
    left = iter(images)
    content: Any = [
        next(left) if isinstance(part, ImagePart) else {"type": "text", "text": part} for part in request.parts
    ]
    if len(request.parts) == 1 and isinstance(request.parts[0], str):
        content = request.parts[0]
    user = {"role": "user", "content": content}
    return [user] if request.system is None else [{"role": "system", "content": request.system}, user]
