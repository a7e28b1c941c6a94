"""How many calls may be in flight, and how many may start a minute."""

import asyncio
import time
from collections import deque
from collections.abc import Callable

_WINDOW = 32  # calls: fewer say nothing about throughput
_REFUSED = 0.1  # share of a window's calls
_SLOWER = 2.0  # times the usual latency: then fewer calls in flight are tried
_KEPT = 0.95  # share of the throughput that fewer calls in flight must keep


class AdaptiveLimit:
    """At most ``most`` calls in flight; fewer while the server says so.

    - A tenth of a window's calls refused (429, 503: ``slow_down``): x 0.7; else + ``most``/16 (at least 1) a window.
      One refusal in a hundred calls costs no more than its retry.
    - Latency twice the usual one: x 0.8 is tried for a window and kept if throughput is; else it's taken back and the
      new latency counts as usual (longer replies are no overload).
    """

    def __init__(self, most: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.limit, self.in_flight = most, most, 0
        self._clock = clock
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._usual_s: float | None = None
        self._trial: tuple[int, float] | None = None  # (limit, calls per second) before it
        self._open_window()

    async def acquire(self) -> None:
        """Wait for a free place."""
        if self.in_flight < self.limit and not self._waiting:
            self.in_flight += 1
            return
        place: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append(place)
        try:
            await place
        except asyncio.CancelledError:
            if place.done() and not place.cancelled():
                self._leave()
            else:
                self._waiting.remove(place)
            raise

    def release(self, latency_s: float | None, *, slow_down: bool = False) -> None:
        """A call ended: after ``latency_s`` with a reply (None: without), or with a demand to slow down."""
        if slow_down:
            self._refuse()
        elif latency_s is not None:
            self._count += 1
            self._latency_s += latency_s
            if self._count >= max(_WINDOW, self.limit):
                self._close_window()
        self._leave()

    def _leave(self) -> None:
        self.in_flight -= 1
        self._wake()

    def _wake(self) -> None:
        while self._waiting and self.in_flight < self.limit:
            place = self._waiting.popleft()
            if not place.done():
                self.in_flight += 1
                place.set_result(None)

    def _open_window(self) -> None:
        self._count, self._refused, self._latency_s, self._opened = 0, 0, 0.0, self._clock()

    def _refuse(self) -> None:
        self._refused += 1
        if self._refused >= _REFUSED * max(_WINDOW, self.limit):
            self.limit = max(int(self.limit * 0.7), 1)
            self._trial = None
            self._open_window()

    def _close_window(self) -> None:
        latency_s = self._latency_s / self._count
        per_s = self._count / max(self._clock() - self._opened, 1e-9)
        if self._trial is not None:
            before, wanted_per_s = self._trial
            if per_s < _KEPT * wanted_per_s:
                self.limit, self._usual_s = before, latency_s
            self._trial = None
        elif self._usual_s is not None and latency_s > _SLOWER * self._usual_s and self.limit > 1:
            self._trial = (self.limit, per_s)
            self.limit = max(int(self.limit * 0.8), 1)
        else:
            self._usual_s = latency_s if self._usual_s is None else min(self._usual_s, latency_s)
            self.limit = min(self.limit + max(self.most // 16, 1), self.most)
        self._open_window()
        self._wake()


class Pace:
    """At most ``per_minute`` units a minute, in bursts of a second's worth; None is no limit."""

    def __init__(self, per_minute: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._per_s = None if per_minute is None else per_minute / 60
        self._clock = clock
        self._free_at = clock()  # when all that was taken is paid back

    def take(self, units: float) -> float:
        """Take ``units`` in turn; returns the seconds to wait before using them."""
        if self._per_s is None:
            return 0.0
        now = self._clock()
        start = max(self._free_at, now - 1.0)  # a second's worth may be left over from idle times
        self._free_at = start + units / self._per_s
        return max(start - now, 0.0)

    def give_back(self, units: float) -> None:
        """Of what was taken, ``units`` weren't used."""
        if self._per_s is not None:
            self._free_at -= units / self._per_s
