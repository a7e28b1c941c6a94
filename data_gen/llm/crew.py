"""Works on many items at a time in an event loop of its own, for a caller that knows nothing of it."""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Sequence
from typing import Any, Generic, TypeVar

from tilewright.configs.items import ItemError
from tilewright.configs.stage import StageError

T = TypeVar("T")


class Crew(Generic[T]):
    """Runs ``work(item)`` for up to ``size`` items at a time; one that rests (``rest``) makes room for another.

    Results come in order of completion. The first error that is no ItemError ends the work: a StageError in
    ``graceful`` lets the tasks that ``busy()`` names finish, whose results still come; any other cancels them.
    """

    def __init__(
        self,
        items: Sequence[T],
        work: Callable[[T], Awaitable[Any]],
        size: int,
        *,
        graceful: tuple[type[StageError], ...] = (),
        busy: Callable[[], set[asyncio.Task[Any] | None]] = set,
    ) -> None:
        self._items, self._work, self._size = iter(items), work, size
        self._left = len(items)
        self._graceful, self._busy = graceful, busy
        self._tasks: set[asyncio.Task[None]] = set()
        self._resting = 0
        self._results: deque[tuple[T, Any]] = deque()
        self._news = asyncio.Event()
        self._closing = False
        self.error: BaseException | None = None

    @property
    def can_start(self) -> bool:
        """Whether another item could start now, without waiting for one to end."""
        return self.error is None and self._left > 0 and self.active < self._size

    @property
    def active(self) -> int:
        """Items begun and not ended, without those at rest."""
        return len(self._tasks) - self._resting

    async def rest(self, seconds: float) -> None:
        """Sleep within ``work``; another item takes the place meanwhile."""
        self._check()
        self._resting += 1
        self._fill()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._resting -= 1
        self._check()

    def _check(self) -> None:
        """Whoever would go on after the work has ended gets its error too."""
        if self.error is not None:
            raise self.error

    def _fill(self) -> None:
        while self.can_start:
            self._left -= 1
            task = asyncio.get_running_loop().create_task(self._go_on(next(self._items)))
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def _go_on(self, item: T) -> None:
        """Work on ``item``, then on further ones as long as there is room."""
        while True:
            try:
                value = await self._work(item)
            except ItemError as error:
                value = error
            self._results.append((item, value))
            self._news.set()
            if self.error is not None or self._left == 0 or self.active > self._size:
                return
            self._left -= 1
            item = next(self._items)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        self._news.set()
        if task.cancelled():
            if self.error is None and not self._closing:
                self.error = RuntimeError("the work of an item cancelled itself")
            return
        error = task.exception()
        if error is None:
            self._fill()
        elif self.error is None:
            self.error = error
            keep = self._busy() if isinstance(error, self._graceful) else set()
            for other in self._tasks - keep:
                other.cancel()

    async def _some(self) -> bool:
        """Wait for a result; False once there will be none any more."""
        self._fill()
        while not self._results:
            if not self._tasks:
                return False
            self._news.clear()
            await self._news.wait()
        return True

    async def _cancel(self, close: Callable[[], Awaitable[None]]) -> None:
        self._closing, tasks = True, list(self._tasks)
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await close()

    def results(self, close: Callable[[], Awaitable[None]], tick: Callable[[], None]) -> Iterator[tuple[T, Any]]:
        """(item, value or ItemError) as they come; then the error, if there was one. ``tick`` is called now and then.

        Closing the generator cancels what is in flight. ``close`` is awaited at the end.
        """
        loop, ticked = asyncio.new_event_loop(), time.monotonic()
        try:
            while loop.run_until_complete(self._some()):
                while self._results:
                    yield self._results.popleft()
                if time.monotonic() - ticked > 5.0:
                    ticked = time.monotonic()
                    tick()
            if self.error is not None:
                raise self.error
        finally:
            loop.run_until_complete(self._cancel(close))
            loop.run_until_complete(loop.shutdown_asyncgens())
            loop.run_until_complete(loop.shutdown_default_executor())
            loop.close()
