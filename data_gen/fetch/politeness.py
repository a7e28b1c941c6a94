"""Turns at a host: at most so many requests at a time, and so much time between the starts of two."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tilewright.data_gen.fetch.settings import Politeness


class HostGate:
    """The queue in front of one host. ``delay_s`` may be raised later, when its robots.txt asks for more."""

    def __init__(self, politeness: Politeness, connections: asyncio.Semaphore) -> None:
        self.delay_s = politeness.delay_s
        self._slots = asyncio.Semaphore(politeness.connections_per_host)
        self._connections = connections
        self._turn = asyncio.Lock()  # first come, first served
        self._last, self._not_before = -float("inf"), -float("inf")

    @asynccontextmanager
    async def turn(self) -> AsyncIterator[None]:
        """Wait for this request's turn; the host counts as busy until the block ends."""
        async with self._slots:
            async with self._turn:
                await self._start()
            try:
                yield
            finally:
                self._connections.release()

    async def _start(self) -> None:
        """Wait until a request may start; take a connection only then: another host may use it meanwhile."""
        clock = asyncio.get_running_loop().time
        while True:
            await self._connections.acquire()
            wait_s = max(self._last + self.delay_s, self._not_before) - clock()
            if wait_s <= 0:
                self._last = clock()
                return
            self._connections.release()
            await asyncio.sleep(wait_s)

    def back_off(self, seconds: float) -> None:
        """No request to this host for so long."""
        self._not_before = max(self._not_before, asyncio.get_running_loop().time() + seconds)


class Gates:
    """One gate a host, made when first asked for."""

    def __init__(self, politeness: Politeness) -> None:
        self._politeness = politeness
        self._connections = asyncio.Semaphore(politeness.connections)
        self._by_host: dict[str, HostGate] = {}

    def of(self, host: str) -> HostGate:
        """The gate of a host name (whatever the port: one machine may serve several)."""
        if host not in self._by_host:
            self._by_host[host] = HostGate(self._politeness, self._connections)
        return self._by_host[host]
