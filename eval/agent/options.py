"""What an agent is in a config, and the checks of rows that name one."""

import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal
from urllib.parse import urlsplit

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.stage import execution
from tilewright.data_gen.llm import LlmSettings


@dataclass(frozen=True)
class Limits:
    """What a question may use. At each of them the agent is asked for its answer without a search, and that is counted.

    ``searches``: as many are run. ``context_tokens``: of one prompt and its reply; results that would pass it are left
    out. ``total_tokens``: of all prompts and replies together, which the last answer alone may pass. ``rejected``: so
    many replies that can't be read are answered with what is wrong with them.
    """

    searches: int = 8
    context_tokens: int = 32_000
    total_tokens: int | None = None
    rejected: int = 3

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "searches", "context_tokens", "total_tokens")
        check_bounds(self, 0, None, "rejected")


@dataclass(frozen=True)
class SearchEndpoint:
    """A search service. ``form`` json: POST {"query", "k"}, answered by {"results": [{"text", "title", "url",
    "image"}]}, where a text or an image is enough (image: base64 of a PNG, JPEG or WebP). searxng: GET ?q=&format=json.

    ``api_key_env`` is the NAME of the environment variable whose key is sent as a Bearer token. Connection errors, 408,
    429 and 5xx are tried again; replies above ``max_bytes`` and redirects are failures.
    """

    url: str
    form: Literal["json", "searxng"] = "json"
    api_key_env: str | None = execution(default=None)
    timeout_s: float = execution(default=30.0)
    max_retries: int = execution(default=3)
    max_bytes: int = execution(default=20_000_000)

    def __post_init__(self) -> None:
        parts = urlsplit(self.url)
        if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.password:
            raise ValueError(f"url: wanted http(s)://host[:port]/path without user and password, found {self.url!r}")
        if parts.query or parts.fragment:
            raise ValueError(f"url: wanted no query or fragment, found {self.url!r}")
        check_bounds(self, 1e-3, None, "timeout_s")
        check_bounds(self, 0, None, "max_retries")
        check_bounds(self, 1, None, "max_bytes")

    def api_key(self) -> str | None:
        """The key from the environment; None if none is configured. Raises InputError if it's missing."""
        if self.api_key_env is None:
            return None
        key = os.environ.get(self.api_key_env, "").strip()
        if not key or not key.isascii() or not key.isprintable() or " " in key:
            raise InputError(f"api_key_env: wanted a key in the environment variable {self.api_key_env}, found none")
        return key


@dataclass(frozen=True)
class Agent:
    """A model that searches (ReAct, Yao et al. 2023). A row's retriever, delivery and k are its one search tool.

    ``protocol`` native: the chat API's tool calls; text: labels in the reply, for models without them. ``depth``: hits
    of a search that the delivery may look at. ``endpoint``: searched in place of a retriever; its rows name the
    retriever ``none`` and the delivery ``as_is``.
    """

    kind: Literal["agent"]
    llm: LlmSettings
    protocol: Literal["native", "text"] = "native"
    limits: Limits = field(default_factory=Limits)
    depth: int = 100
    endpoint: SearchEndpoint | None = None

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "depth")
        if self.limits.context_tokens <= self.llm.max_tokens:
            raise ValueError(
                f"limits.context_tokens: wanted more than llm.max_tokens ({self.llm.max_tokens}), found"
                f" {self.limits.context_tokens}"
            )


def check_agents(cells: Iterable[Any], readers: Mapping[str, Any], retrievers: Mapping[str, Any]) -> None:
    """Raise ValueError for a cell whose agent has nothing to search, or two things."""
    nothing = {name for name, options in retrievers.items() if options.kind == "none"}
    for cell in cells:
        agent = readers.get(cell.reader)
        if not isinstance(agent, Agent):
            continue
        if agent.endpoint is None and cell.retriever in nothing:
            raise ValueError(
                f"rows: {cell.name}: wanted a retriever for the agent {cell.reader!r} to search with, or"
                f" readers.{cell.reader}.endpoint; found retriever {cell.retriever!r}"
            )
        if agent.endpoint is not None and (cell.retriever not in nothing or cell.delivery != "as_is"):
            raise ValueError(
                f"rows: {cell.name}: the agent {cell.reader!r} searches its endpoint: wanted retriever none and"
                f" delivery as_is, found {cell.retriever!r} and {cell.delivery!r}"
            )
