"""Works on many items at a time in an event loop of its own, for a caller that knows nothing of it."""

import asyncio
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Iterable, Iterator
from contextvars import ContextVar
from typing import Any, Generic, Protocol, TypeVar

from tilewright.configs.items import ItemError
from tilewright.configs.stage import StageError

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
_ITEM_TASK: ContextVar[asyncio.Task[Any] | None] = ContextVar("item_task", default=None)


class Counted(Iterable[T_co], Protocol[T_co]):
    """Items whose number is known; each may be made only when it is asked for."""

    def __len__(self) -> int: ...


def item_task() -> asyncio.Task[Any] | None:
    """The crew's task whose item the running task works for: itself, or the one that started it."""
    return _ITEM_TASK.get() or asyncio.current_task()


class Crew(Generic[T]):
    """Runs ``work(item)`` for up to ``size`` items at a time; one that rests (``rest``) makes room for another.

    An item is taken from ``items`` when its work begins; an error in taking it ends the work. An item may wait in
    several tasks of its own. Results come in order of completion. The first error that is no ItemError ends the work:
    a StageError in ``graceful`` lets the tasks that ``busy()`` names finish, whose results still come; any other
    cancels them.
    """

    def __init__(
        self,
        items: Counted[T],
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
        self._resting: Counter[asyncio.Task[Any] | None] = Counter()  # tasks at rest, by the item they are of
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
        return len(self._tasks) - len(self._resting)

    async def rest(self, seconds: float) -> None:
        """Sleep within ``work``; another item takes the place meanwhile."""
        self._check()
        item = item_task()
        self._resting[item] += 1
        self._fill()
        try:
            await asyncio.sleep(seconds)
        finally:
            self._resting[item] -= 1
            self._resting += Counter()  # drops zeros
        self._check()

    def _check(self) -> None:
        """Whoever would go on after the work has ended gets its error too."""
        if self.error is not None:
            raise self.error

    def _fill(self) -> None:
        while self.can_start:
            self._left -= 1
            task = asyncio.get_running_loop().create_task(self._go_on())
            self._tasks.add(task)
            task.add_done_callback(self._ended)

    async def _go_on(self) -> None:
        """Work on the next item, then on further ones as long as there is room."""
        _ITEM_TASK.set(asyncio.current_task())
        while True:
            item = next(self._items)
            try:
                value = await self._work(item)
            except ItemError as error:
                value = error
            self._results.append((item, value))
            self._news.set()
            if self.error is not None or self._left == 0 or self.active > self._size:
                return
            self._left -= 1

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
