"""Clients of the openai package, set up for many calls at a time."""

import contextlib
import sys
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from tilewright.data_gen.llm.bodies import body_limit
from tilewright.data_gen.llm.settings import LlmSettings

_CONNECT_S = 10.0
_POOL = 32  # calls a connection pool: it looks through all of its connections at every call


def _http() -> ModuleType:
    """The HTTP package that openai stands on: httpx2 for openai 3, httpx for openai 2."""
    from openai import DefaultAsyncHttpxClient

    return next(sys.modules[kind.__module__.split(".")[0]] for kind in DefaultAsyncHttpxClient.__mro__[1:])


def open_client(
    settings: LlmSettings, key: str | None, connections: int, limit: tuple[int, str], trust: Any = True
) -> Any:
    """An AsyncOpenAI with room for so many kept connections and no retries of its own.

    ``limit``: the bytes that a body may have, and the setting that says so. ``trust``: an SSL context.
    """
    from openai import AsyncOpenAI, DefaultAsyncHttpxClient

    timeout_s, http = settings.call_timeout_s, _http()
    client = DefaultAsyncHttpxClient(
        limits=http.Limits(max_connections=connections, max_keepalive_connections=connections),
        timeout=http.Timeout(timeout_s, connect=min(_CONNECT_S, timeout_s)),
        verify=trust,
        headers={"Accept-Encoding": "identity"},
        event_hooks={"response": [body_limit(http.AsyncByteStream, *limit)]},
    )
    return AsyncOpenAI(base_url=settings.base_url, api_key=key or "none", max_retries=0, http_client=client)


class ClientGroup:
    """Clients with a small connection pool each; together they have room for ``settings.concurrency`` calls."""

    def __init__(self, settings: LlmSettings, key: str | None) -> None:
        trust = _http().create_ssl_context()
        pools = -(-settings.concurrency // _POOL)
        limit = settings.max_reply_bytes, "llm.max_reply_bytes"
        self._clients = [open_client(settings, key, _POOL + 1, limit, trust) for _ in range(pools)]
        self._in_use = [0] * pools

    @contextlib.contextmanager
    def lend(self) -> Iterator[Any]:
        """The least used client, for one call."""
        place = self._in_use.index(min(self._in_use))
        self._in_use[place] += 1
        try:
            yield self._clients[place]
        finally:
            self._in_use[place] -= 1

    async def close(self) -> None:
        """Drop all connections."""
        for client in self._clients:
            await client.close()
