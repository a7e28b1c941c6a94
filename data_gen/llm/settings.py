"""Settings of a language model behind an OpenAI-compatible server: the ``llm:`` block of a stage's config.

What determines a reply is part of the request's identity; where the server is, how fast it is asked, what it costs and
where replies are kept is not, so a finished folder stays valid when those change.
"""

import os
import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal
from urllib.parse import urlsplit

from tilewright.configs.bounds import check_bounds
from tilewright.configs.digests import canonical_json
from tilewright.configs.errors import InputError
from tilewright.configs.stage import execution

_RESERVED = ("model", "messages", "stream", "n", "max_tokens", "max_completion_tokens", "temperature", "top_p", "seed")
_SECRET = re.compile(r"(^|[_-])(api[_-]?key|key|secret|password|authorization|token)$", re.IGNORECASE)
_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


@dataclass(frozen=True)
class ImageSettings:
    """How a picture is sent. A stored picture that fits goes out byte for byte; else it is encoded again.

    ``max_pixels`` (width x height): larger pictures are scaled down (Lanczos, same shape), None keeps their size.
    ``jpeg_quality`` 1 to 100 counts for jpeg only; webp is lossless. llama.cpp reads png and jpeg, not webp.
    """

    encoding: Literal["png", "webp", "jpeg"] = "png"
    jpeg_quality: int = 90
    max_pixels: int | None = None
    detail: Literal["auto", "low", "high"] | None = None

    def __post_init__(self) -> None:
        check_bounds(self, 1, 100, "jpeg_quality")
        check_bounds(self, 1, None, "max_pixels")


@dataclass(frozen=True)
class Prices:
    """Price per million tokens, in any currency; ``cached_input`` of the input tokens a server had in its cache."""

    input: float
    output: float
    cached_input: float | None = None

    def __post_init__(self) -> None:
        check_bounds(self, 0, None, "input", "output", "cached_input")

    def cost(self, input_tokens: int, output_tokens: int, cached_input_tokens: int = 0) -> float:
        """Cost of a call; ``cached_input_tokens`` of the ``input_tokens`` count at their own price."""
        cheap = self.input if self.cached_input is None else self.cached_input
        fresh = max(input_tokens - cached_input_tokens, 0)
        return (fresh * self.input + cached_input_tokens * cheap + output_tokens * self.output) / 1e6


@dataclass(frozen=True)
class Budget:
    """What a stage may use in all its runs together; None is no limit. ``max_cost`` is in the currency of prices."""

    max_calls: int | None = None
    max_tokens: int | None = None
    max_cost: float | None = None

    def __post_init__(self) -> None:
        check_bounds(self, 0, None, "max_calls", "max_tokens", "max_cost")


@dataclass(frozen=True)
class BatchSettings:
    """The Batch API: at most ``size`` requests (about ``max_bytes``) a batch, asked for its state every ``poll_s``.

    So many items are at work at a time, their pictures in memory. A file of results longer than ``max_result_bytes``
    isn't read: the stage stops, and a higher limit goes on with it.
    """

    size: int = 2_000
    max_bytes: int = 100_000_000
    max_result_bytes: int = 500_000_000
    poll_s: float = 30.0
    completion_window: str = "24h"

    def __post_init__(self) -> None:
        check_bounds(self, 1, 50_000, "size")
        check_bounds(self, 1, None, "max_bytes", "max_result_bytes")
        check_bounds(self, 0.01, 3600, "poll_s")


@dataclass(frozen=True)
class LlmSettings:
    """One model with its sampling, and how it is reached.

    ``structured_output``: how a request's JSON schema reaches the server: ``auto`` sends it until the server refuses,
    ``json_schema`` always, ``none`` never; replies are parsed strictly whatever it says. ``attempts``: how often a
    reply that can't be used is asked for again (with ``seed + attempt``; without a seed the server draws anew).
    ``max_tokens`` bounds a reply; of a server that sends more than ``max_reply_bytes`` no more is read, and the call
    has failed. ``api_key_env`` is the NAME of the environment variable that holds the key. ``image_patch_px``: side of
    the square of pixels that the input estimate counts as one token.
    """

    model: str
    temperature: float | None
    max_tokens: int
    base_url: str = execution()
    seed: int | None = None
    top_p: float | None = None
    extra_body: dict[str, Any] = field(default_factory=dict)
    image: ImageSettings = ImageSettings()
    structured_output: Literal["auto", "json_schema", "none"] = "auto"
    attempts: int = 3
    api_key_env: str | None = execution(default=None)
    transport: Literal["live", "batch"] = execution(default="live")
    concurrency: int = execution(default=16)
    requests_per_minute: float | None = execution(default=None)
    tokens_per_minute: float | None = execution(default=None)
    max_retries: int = execution(default=8)
    max_reply_bytes: int = execution(default=8_000_000)
    call_timeout_s: float = execution(default=300.0)
    stage_timeout_s: float | None = execution(default=None)
    max_tokens_name: Literal["max_tokens", "max_completion_tokens"] = execution(default="max_tokens")
    image_patch_px: int = execution(default=28)
    batch: BatchSettings = execution(default=BatchSettings())
    cache: Path | None = execution(default=None)
    prices: Prices | None = execution(default=None)
    budget: Budget = execution(default=Budget())
    dry_run: bool = execution(default=False)

    def __post_init__(self) -> None:
        check_bounds(self, 0, None, "temperature", "max_retries")
        check_bounds(self, 0, 1, "top_p")
        check_bounds(self, 1, None, "max_tokens", "attempts", "concurrency", "image_patch_px", "max_reply_bytes")
        check_bounds(self, 1e-3, None, "requests_per_minute", "tokens_per_minute", "call_timeout_s", "stage_timeout_s")
        if not self.model:
            raise ValueError("model: wanted the name of a model, found nothing")
        _check_base_url(self.base_url)
        _check_extra_body(self.extra_body)
        if self.budget.max_cost is not None and self.prices is None:
            raise ValueError("budget.max_cost: wanted `prices` beside it, found none")
        if self.api_key_env is not None and not _VARIABLE.fullmatch(self.api_key_env):
            raise ValueError("api_key_env: wanted the name of an environment variable (never the key itself)")

    def api_key(self) -> str | None:
        """The key from the environment; None if none is configured. Raises InputError if it's missing or malformed."""
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "").strip()
        if not key:
            raise InputError(f"api_key_env: wanted a key in the environment variable {self.api_key_env}, found none")
        if not key.isascii() or not key.isprintable() or " " in key:
            raise InputError(f"{self.api_key_env}: the key has blanks or characters that no HTTP header can hold")
        return key


def _check_base_url(url: str) -> None:
    parts = urlsplit(url)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ValueError("base_url: wanted no user, password, query or fragment in it (keys come from `api_key_env`)")
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"base_url: wanted http(s)://host[:port]/v1, found {url!r}")


def _check_extra_body(extra: dict[str, Any]) -> None:
    for name in extra:
        if name in _RESERVED:
            raise ValueError(f"extra_body.{name}: wanted its own setting instead of one in extra_body")
    _check_no_secret(extra, "extra_body")
    try:
        canonical_json(extra)
    except (TypeError, ValueError) as error:
        raise ValueError(f"extra_body: wanted values that JSON knows ({error})") from error


def _check_no_secret(value: Any, where: str) -> None:
    """Raise ValueError for a key, at any depth, that names a secret: configs are stored in manifests."""
    if isinstance(value, (list, tuple)):
        for item in value:
            _check_no_secret(item, where)
    elif isinstance(value, dict):
        for name, item in value.items():
            if _SECRET.search(str(name)):
                raise ValueError(f"{where}.{name}: wanted no secret in a config; keys come from `api_key_env`")
            _check_no_secret(item, f"{where}.{name}")
