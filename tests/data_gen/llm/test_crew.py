"""Many items at a time behind a plain generator: every item once, errors counted or loud, nothing left behind."""

import asyncio
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from tilewright.configs.items import ItemError
from tilewright.data_gen.llm import BudgetError
from tilewright.data_gen.llm.crew import Crew


async def nothing() -> None: ...


def results(crew: Crew[int]) -> Iterator[tuple[int, Any]]:
    return crew.results(nothing, lambda: None)


def test_every_item_comes_once_in_order_of_completion() -> None:
    at_work, most = 0, 0

    async def work(item: int) -> int:
        nonlocal at_work, most
        at_work += 1
        most = max(most, at_work)
        await asyncio.sleep(0.01 if item % 5 == 0 else 0)
        at_work -= 1
        if item % 7 == 0:
            raise ItemError("seven")
        return item * 2

    found = list(results(Crew(range(50), work, 4)))
    assert sorted(item for item, _ in found) == list(range(50)) and found[0][0] != 0 and most == 4
    assert all(value == item * 2 for item, value in found if item % 7)
    assert all(isinstance(value, ItemError) for item, value in found if item % 7 == 0)
    assert list(results(Crew([], work, 4))) == []


def test_an_item_at_rest_makes_room_for_another() -> None:
    began: list[int] = []

    async def work(item: int) -> None:
        began.append(item)
        if item < 2:
            await crew.rest(0.05)

    crew: Crew[int] = Crew(range(6), work, 2)
    found = [item for item, _ in results(crew)]
    assert sorted(began) == list(range(6)) and set(found[-2:]) == {0, 1}


def test_an_error_ends_the_work_and_cancels_the_rest() -> None:
    ended: list[int] = []
    sixth_began = asyncio.Event()  # in the place of the first, which is done then

    async def work(item: int) -> int:
        try:
            if item == 6:
                sixth_began.set()
            if item == 2:
                await sixth_began.wait()
                raise ZeroDivisionError
            await asyncio.sleep(0 if item == 1 else 1000)
            return item
        finally:
            ended.append(item)

    found = []
    with pytest.raises(ZeroDivisionError):
        for item, _ in results(Crew(range(1, 100), work, 5)):
            found.append(item)
    assert found == [1] and sorted(ended) == [1, 2, 3, 4, 5, 6]


def test_after_a_graceful_error_the_busy_ones_still_finish() -> None:
    busy: set[asyncio.Task[Any] | None] = set()

    async def work(item: int) -> int:
        if item == 0:
            await asyncio.sleep(0)
            raise BudgetError("over")
        if item == 1:
            busy.add(asyncio.current_task())
            while crew.error is None:
                await asyncio.sleep(0.001)
        else:
            await asyncio.sleep(1000)
        return item

    crew: Crew[int] = Crew(range(9), work, 3, graceful=(BudgetError,), busy=lambda: busy)
    found = []
    with pytest.raises(BudgetError, match="over"):
        for item, _ in results(crew):
            found.append(item)
    assert found == [1]


def test_closing_the_generator_cancels_what_is_in_flight() -> None:
    cancelled: list[int] = []
    closed: list[bool] = []

    async def work(item: int) -> None:
        try:
            await asyncio.sleep(30 if item else 0)
        except asyncio.CancelledError:
            cancelled.append(item)
            raise

    async def close() -> None:
        closed.append(True)

    found = Crew(range(5), work, 3).results(close, lambda: None)
    assert next(found)[0] == 0
    found.close()  # type: ignore[attr-defined]
    assert sorted(cancelled) == [1, 2, 3][: len(cancelled)] and len(cancelled) >= 2 and closed == [True]
    assert threading.active_count() == 1 or all("asyncio" not in thread.name for thread in threading.enumerate())


def test_work_that_cancels_itself_is_loud() -> None:
    async def work(item: int) -> None:
        raise asyncio.CancelledError

    with pytest.raises(RuntimeError, match="cancelled itself"):
        list(results(Crew(range(3), work, 2)))


class Lazy:
    """Items that are made when they are asked for; one of them can't be."""

    def __init__(self, count: int, broken: int | None = None) -> None:
        self.count, self.broken, self.made = count, broken, 0

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[int]:
        for number in range(self.count):
            if number == self.broken:
                raise OSError("no item")
            self.made += 1
            yield number


def test_items_are_taken_as_their_work_begins() -> None:
    items = Lazy(20)
    ahead: list[int] = []

    async def work(item: int) -> None:
        ahead.append(items.made - len(ahead))
        await asyncio.sleep(0)

    assert sorted(item for item, _ in results(Crew(items, work, 3))) == list(range(20)) and max(ahead) <= 3


@pytest.mark.parametrize("broken", [0, 2, 7])  # the first, one of the first size, one after an item has ended
def test_an_item_that_cannot_be_made_ends_the_work(broken: int) -> None:
    async def work(item: int) -> None:
        await asyncio.sleep(0)

    with pytest.raises(OSError, match="no item"):
        list(results(Crew(Lazy(9, broken), work, 3)))


def test_an_item_at_rest_in_several_tasks_makes_room_for_one() -> None:
    most = 0

    async def work(item: int) -> None:
        nonlocal most
        if item == 0:
            await asyncio.gather(*(asyncio.ensure_future(crew.rest(0.05)) for _ in range(4)))
        most = max(most, crew.active)
        await asyncio.sleep(0.01)

    crew: Crew[int] = Crew(range(12), work, 2)
    assert len(list(results(crew))) == 12 and most <= 3  # the third has woken up
