"""How many calls may be in flight and how fast they start, on a clock of the test's own."""

import asyncio

import pytest

from tilewright.data_gen.llm.limits import AdaptiveLimit, Pace


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def window(limit: AdaptiveLimit, clock: Clock, latency_s: float, per_s: float) -> None:
    """One window of replies at this latency and throughput."""
    for _ in range(max(32, limit.limit)):
        clock.now += 1 / per_s
        limit.in_flight += 1
        limit.release(latency_s)


def refuse(limit: AdaptiveLimit, times: int) -> None:
    for _ in range(times):
        limit.in_flight += 1
        limit.release(None, slow_down=True)


def test_refusals_cut_the_limit_once_they_are_a_tenth_and_quiet_brings_it_back() -> None:
    clock = Clock()
    limit = AdaptiveLimit(64, clock)
    refuse(limit, 6)
    assert limit.limit == 64
    refuse(limit, 1)
    assert limit.limit == 44
    refuse(limit, 60)
    assert 1 <= limit.limit < 10
    refuse(limit, 500)
    assert limit.limit == 1
    for _ in range(20):
        window(limit, clock, 1.0, 10.0)
    assert limit.limit == 64


def test_a_stray_refusal_costs_nothing() -> None:
    clock = Clock()
    limit = AdaptiveLimit(16, clock)
    for _ in range(50):
        refuse(limit, 1)
        window(limit, clock, 1.0, 10.0)
    assert limit.limit == 16


def test_latency_that_rises_without_throughput_lowers_the_limit_as_long_as_throughput_stays() -> None:
    clock = Clock()
    limit = AdaptiveLimit(64, clock)
    window(limit, clock, 1.0, 64.0)
    for _ in range(6):
        window(limit, clock, limit.limit / 20, 20.0)  # the server does 20 a second, whatever is in flight
    assert limit.limit < 64


def test_longer_replies_are_no_overload() -> None:
    clock = Clock()
    limit = AdaptiveLimit(64, clock)
    window(limit, clock, 1.0, 64.0)
    for _ in range(8):
        window(limit, clock, 4.0, limit.limit / 4)  # each takes 4 s, whatever is in flight
    assert limit.limit == 64


def test_no_more_are_in_flight_than_allowed_also_when_waiting_ones_are_cancelled() -> None:
    async def run() -> int:
        limit, most = AdaptiveLimit(3), 0

        async def call(number: int) -> None:
            nonlocal most
            await limit.acquire()
            most = max(most, limit.in_flight)
            try:
                await asyncio.sleep(0.001 * (number % 3))
            finally:
                limit.release(0.001)

        tasks = [asyncio.create_task(call(number)) for number in range(60)]
        await asyncio.sleep(0.002)
        for task in tasks[20:40]:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        assert limit.in_flight == 0
        return most

    assert asyncio.run(run()) == 3


def test_pace_lets_a_seconds_worth_through_and_then_one_by_one() -> None:
    clock = Clock()
    clock.now = 100.0
    pace = Pace(120.0, clock)
    clock.now = 200.0
    waits = [pace.take(1) for _ in range(6)]
    assert waits == pytest.approx([0, 0, 0, 0.5, 1.0, 1.5])
    pace.give_back(2)
    assert pace.take(1) == pytest.approx(1.0)
    assert Pace(None).take(1e9) == 0.0


def test_a_call_larger_than_a_minute_only_waits() -> None:
    clock = Clock()
    pace = Pace(60.0, clock)
    assert pace.take(300) == 0.0 and pace.take(1) == pytest.approx(300.0, abs=1.01)
