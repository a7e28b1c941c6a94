"""A limit for the body of a reply: whatever a server sends, no more than that comes into memory."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

from tilewright.data_gen.llm.failures import BodyError, Failure


def body_limit(stream: Any, max_bytes: int, setting: str) -> Callable[[Any], Awaitable[None]]:
    """A response hook of an HTTP client: reading more than ``max_bytes`` of a body raises BodyError.

    ``stream``: AsyncByteStream of the client's package; ``setting`` names the limit in the error. A compressed body is
    refused whatever its length: a few kB of it may become GB.
    """

    class Bounded(stream):  # type: ignore[misc]
        def __init__(self, whole: Any) -> None:
            self._whole = whole

        async def __aiter__(self) -> AsyncIterator[bytes]:
            taken = 0
            async for part in self._whole:
                taken += len(part)
                if taken > max_bytes:
                    said = f"the body is longer than {setting} ({max_bytes} bytes)"
                    raise BodyError(Failure("body_too_long", said, False, may_cost=True))
                yield part

        async def aclose(self) -> None:
            await self._whole.aclose()

    async def bound(response: Any) -> None:
        encoding = response.headers.get("content-encoding", "identity").strip().lower()
        if encoding not in ("identity", ""):
            said = f"the body is compressed ({encoding[:40]!r}), though `Accept-Encoding: identity` was asked for"
            raise BodyError(Failure("body_compressed", said, False, may_cost=True))
        response.stream = Bounded(response.stream)

    return bound
