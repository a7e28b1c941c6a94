"""The queue before a batch: who waits, how much fits, and how an outcome or an error reaches those who wait."""

import asyncio
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from tilewright.data_gen.llm.calls import Call
from tilewright.data_gen.llm.failures import Failure
from tilewright.data_gen.llm.request import Reply
from tilewright.data_gen.llm.settings import BatchSettings


class Items(Protocol):
    """What a batch must know of the items at work."""

    @property
    def can_start(self) -> bool: ...
    @property
    def active(self) -> int: ...


@dataclass
class Waiting:
    """A call, its request line, and where its outcome goes."""

    call: Call
    line: bytes
    most: tuple[int, float]
    number: int | None = None  # in the ledger, once sent
    outcome: asyncio.Future[Reply | Failure] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


def first_batch(queue: Sequence[Waiting], limits: BatchSettings) -> int:
    """How many calls at the head of ``queue`` fit one batch; at least one."""
    size = 0
    for place, waiting in enumerate(queue[: limits.size]):
        size += len(waiting.line)
        if place and size > limits.max_bytes:
            return place
    return min(len(queue), limits.size)


def hand_on(group: list[Waiting], task: asyncio.Task[None]) -> None:
    """Whoever waits for a batch that couldn't be sent gets the reason."""
    if not task.cancelled():
        fail((waiting.outcome for waiting in group), task.exception())


def fail(futures: Iterable[asyncio.Future[Any]], error: BaseException | None) -> None:
    """Hand ``error`` to whoever waits for these."""
    for future in futures:
        if not future.done() and error is not None:
            future.set_exception(error)
            future.exception()  # nobody may wait for it
