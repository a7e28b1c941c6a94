"""The walk down one query's candidates: what the outcomes make of them, and where it ends."""

import asyncio
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Generator, Sequence
from dataclasses import dataclass

from tilewright.configs.items import ItemError
from tilewright.configs.stage import StageError
from tilewright.data_gen.tiles import page_of
from tilewright.data_gen.verdicts import Verdict

DUPLICATE, KNOWN = "DUPLICATE", "KNOWN_POSITIVE"  # a copy of the positive; a known positive of an earlier round
SAME_PAGE, ABOVE_MARGIN, PAGE_FULL = "SAME_PAGE", "ABOVE_MARGIN", "PAGE_FULL"
UNJUDGED = "UNJUDGED"
POSITIVES = frozenset({Verdict.CORRECT.value, DUPLICATE, KNOWN})
NEGATIVES = frozenset({Verdict.WRONG.value, Verdict.CANNOT_ANSWER.value, UNJUDGED})
Ready = Callable[[str], str | None]  # tile_id -> its outcome if no judge is needed for it, else None


@dataclass(frozen=True)
class Route:
    """The candidates of a query in the order of the walk.

    ``tile_ids``: those in ``window`` may become negatives; of others only known positives are taken note of.
    ``ready``: outcomes that need no judge. The walk ends at ``wanted`` negatives, at most ``per_page`` of one page
    (None: any number).
    """

    tile_ids: Sequence[str]
    window: Collection[str]
    ready: Ready
    wanted: int
    per_page: int | None = None


@dataclass(frozen=True)
class Walk:
    """What a walk gave. ``outcomes``: (tile_id, outcome) of the candidates taken note of, in the order of the walk.

    ``judged_ahead``: how many verdicts were asked for that turned out not to be needed.
    """

    negatives: tuple[str, ...]
    known_positives: tuple[str, ...]
    outcomes: tuple[tuple[str, str], ...]
    judged_ahead: int = 0


def walking(route: Route) -> Generator[str, str, Walk]:
    """Yield the tiles to judge, one after another; ``send`` each one's outcome.

    POSITIVES are known positives, NEGATIVES negatives; all else is passed over: no verdict makes no label. A page with
    ``per_page`` negatives gives no more and isn't judged any more. Once there are enough negatives, the rest of the
    candidates is gone through for known positives that cost nothing.
    """
    negatives: list[str] = []
    outcomes: list[tuple[str, str]] = []
    taken: Counter[str] = Counter()
    for tile_id in route.tile_ids:
        outcome = route.ready(tile_id)
        if outcome not in POSITIVES:
            if len(negatives) == route.wanted or tile_id not in route.window:
                continue
            if outcome in (None, UNJUDGED) and taken[page_of(tile_id)] == route.per_page:
                outcome = PAGE_FULL
            elif outcome is None:
                outcome = yield tile_id
        outcomes.append((tile_id, outcome))
        if outcome in NEGATIVES:
            negatives.append(tile_id)
            taken[page_of(tile_id)] += 1
    known = tuple(tile_id for tile_id, outcome in outcomes if outcome in POSITIVES)
    return Walk(tuple(negatives), known, tuple(outcomes))


def walk(route: Route, judge: Callable[[str], str]) -> Walk:
    """``walking`` with ``judge(tile_id)`` for the outcomes."""
    steps = walking(route)
    try:
        tile_id = next(steps)
        while True:
            tile_id = steps.send(judge(tile_id))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def walk_ahead(route: Route, judge: Callable[[str], Awaitable[str]], width: int) -> Walk:
    """``walk`` with a ``judge`` that is awaited, for up to ``width`` candidates at a time.

    The walk is that of width 1: verdicts count in rank order, and what was asked beyond its end decides nothing, not
    even by failing.
    """
    ahead = _Ahead(
        [tile for tile in route.tile_ids if tile in route.window and route.ready(tile) is None], judge, width
    )
    steps = walking(route)
    try:
        tile_id = next(steps)
        while True:
            tile_id = steps.send(await ahead.outcome(tile_id))
    except StopIteration as end:
        found: Walk = end.value
    except asyncio.CancelledError:
        ahead.cancel()
        raise
    finally:
        await ahead.finish()
    return Walk(found.negatives, found.known_positives, found.outcomes, ahead.unused)


class _Ahead:
    """Asks about the next ``width`` tiles of ``queue`` whenever one is wanted."""

    def __init__(self, queue: Sequence[str], judge: Callable[[str], Awaitable[str]], width: int) -> None:
        self._queue, self._judge, self._width = queue, judge, width
        self._places = {tile_id: place for place, tile_id in enumerate(queue)}
        self._tasks: dict[str, asyncio.Future[str]] = {}
        self.unused = 0

    async def outcome(self, tile_id: str) -> str:
        if self._width == 1:
            return await self._judge(tile_id)
        place = self._places[tile_id]
        for following in self._queue[place : place + self._width]:
            if following not in self._tasks:
                self._tasks[following] = asyncio.ensure_future(self._judge(following))
                self.unused += 1
        self.unused -= 1
        return await self._tasks[tile_id]

    def cancel(self) -> None:
        for task in self._tasks.values():
            task.cancel()

    async def finish(self) -> None:
        """Wait for what is under way: it is paid for, so it is to be kept."""
        for ended in await asyncio.gather(*self._tasks.values(), return_exceptions=True):
            if isinstance(ended, Exception) and not isinstance(ended, (ItemError, StageError)):
                raise ended
