"""Turns at hosts, by the event loop's own clock."""

import asyncio
from itertools import pairwise

from tilewright.data_gen.fetch.politeness import Gates, HostGate
from tilewright.data_gen.fetch.settings import Politeness


def starts(politeness: Politeness, hosts: list[str], work_s: float, first_backs_off_s: float = 0.0) -> list[float]:
    """When each of so many requests started, seconds after the first, in order of ``hosts``."""

    async def request(gate: HostGate, number: int, times: dict[int, float]) -> None:
        async with gate.turn():
            times[number] = asyncio.get_running_loop().time()
            if number == 0 and first_backs_off_s:
                gate.back_off(first_backs_off_s)
            await asyncio.sleep(work_s)

    async def go() -> list[float]:
        gates, times = Gates(politeness), dict[int, float]()
        await asyncio.gather(*(request(gates.of(host), number, times) for number, host in enumerate(hosts)))
        return [times[number] - times[0] for number in range(len(hosts))]

    return asyncio.run(go())


def test_delay_between_starts_first_come_first_served() -> None:
    times = starts(Politeness(delay_s=0.05, connections_per_host=3), ["a"] * 5, work_s=0.0)
    assert all(later - sooner >= 0.05 for sooner, later in pairwise(times))


def test_connections_per_host_and_in_all() -> None:
    times = starts(
        Politeness(delay_s=0.0, connections_per_host=2, connections=3), ["a", "a", "a", "b", "b"], work_s=0.1
    )
    assert times[1] < 0.09 and times[3] < 0.09  # two of a, one of b
    assert min(times[2], times[4]) >= 0.1 - 0.005


def test_a_host_that_makes_us_wait_keeps_no_connection_from_others() -> None:
    politeness = Politeness(delay_s=0.3, connections_per_host=2, connections=2)
    times = starts(politeness, ["a", "a", "b"], work_s=0.0)
    assert times[1] >= 0.3 and times[2] < 0.2


def test_backing_off_moves_requests_that_already_wait() -> None:
    times = starts(Politeness(delay_s=0.02, connections_per_host=9), ["a"] * 3, work_s=0.0, first_backs_off_s=0.2)
    assert times[1] >= 0.2 and times[2] >= times[1] + 0.02
