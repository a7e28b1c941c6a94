"""The walk down a ranking: what decides, where it ends; and the same walk when verdicts are asked for ahead."""

import asyncio
from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.items import ItemError
from tilewright.configs.stage import StageError
from tilewright.data_gen.tiles import page_of
from tilewright.mining.walk import (
    ABOVE_MARGIN,
    DUPLICATE,
    KNOWN,
    PAGE_FULL,
    SAME_PAGE,
    UNJUDGED,
    Route,
    Walk,
    walk,
    walk_ahead,
)

JUDGED = ["CORRECT", "WRONG", "CANNOT_ANSWER", "UNPARSED"]
FREE = [DUPLICATE, KNOWN, SAME_PAGE, ABOVE_MARGIN, UNJUDGED]
POSITIVE = {"CORRECT", DUPLICATE, KNOWN}
NEGATIVE = {"WRONG", "CANNOT_ANSWER", UNJUDGED}


@st.composite
def routes(draw: st.DrawFn) -> tuple[Route, dict[str, str]]:
    """A route over up to five pages, and what is said of its tiles."""
    pages = draw(st.lists(st.sampled_from("abcde"), max_size=14))
    ids = [f"{page}-{row:04d}-00" for row, page in enumerate(pages)]
    said = {tile_id: draw(st.sampled_from(JUDGED + FREE)) for tile_id in ids}
    start = draw(st.integers(0, 3))
    ready = {tile_id: said[tile_id] for tile_id in ids if said[tile_id] in FREE}
    per_page = draw(st.none() | st.integers(1, 2))
    return Route(ids, frozenset(ids[start:]), ready.get, draw(st.integers(1, 4)), per_page), said


@given(routes())
def test_walk_in_rank_order(made: tuple[Route, dict[str, str]]) -> None:
    """Against a second formula, by counting what came before each tile."""
    route, said = made
    asked: list[str] = []

    def judge(tile_id: str) -> str:
        asked.append(tile_id)
        return said[tile_id]

    walked = walk(route, judge)
    inside = [tile_id for tile_id in route.tile_ids if tile_id in route.window and said[tile_id] in NEGATIVE]
    limit = route.per_page or len(inside)
    fitting = [t for i, t in enumerate(inside) if [page_of(u) for u in inside[:i]].count(page_of(t)) < limit]
    negatives = fitting[: route.wanted]
    assert list(walked.negatives) == negatives
    end = route.tile_ids.index(negatives[-1]) + 1 if len(negatives) == route.wanted else len(route.tile_ids)
    seen = set(route.tile_ids[:end]) & set(route.window)
    free = {DUPLICATE, KNOWN}
    outcomes = dict(walked.outcomes)
    full = {tile_id for tile_id, outcome in outcomes.items() if outcome == PAGE_FULL}
    assert set(outcomes) == seen | {t for t in route.tile_ids if said[t] in free}
    assert list(walked.known_positives) == [
        t for t in route.tile_ids if said[t] in free or (said[t] == "CORRECT" and t in seen - full)
    ]
    assert asked == [t for t in route.tile_ids if t in seen - full and said[t] in JUDGED]
    counts = Counter(page_of(tile_id) for tile_id in walked.negatives)
    assert not full or all(counts[page_of(tile_id)] == route.per_page for tile_id in full)
    assert not set(walked.negatives) & set(walked.known_positives)


def test_no_verdict_is_neither_negative_nor_positive() -> None:
    route = Route(["a", "b", "c"], {"a", "b", "c"}, lambda tile_id: None, 2)
    walked = walk(route, {"a": "UNPARSED", "b": SAME_PAGE, "c": "WRONG"}.__getitem__)
    assert walked.negatives == ("c",) and walked.known_positives == ()


def ahead(route: Route, said: dict[str, Any], width: int) -> tuple[Walk, list[str]]:
    """(walk, tiles asked about); a value of ``said`` that is an error is raised, later tiles answer sooner."""
    asked: list[str] = []

    async def judge(tile_id: str) -> str:
        asked.append(tile_id)
        for _ in range(len(route.tile_ids) - list(route.tile_ids).index(tile_id)):
            await asyncio.sleep(0)
        if isinstance(said[tile_id], Exception):
            raise said[tile_id]
        return str(said[tile_id])

    return asyncio.run(walk_ahead(route, judge, width)), asked


@given(routes(), st.integers(1, 6))
def test_asking_ahead_changes_nothing_but_the_number_of_questions(
    made: tuple[Route, dict[str, str]], width: int
) -> None:
    route, said = made
    needed: list[str] = []

    def judge(tile_id: str) -> str:
        needed.append(tile_id)
        return said[tile_id]

    plain = walk(route, judge)
    walked, asked = ahead(route, said, width)
    assert (walked.negatives, walked.known_positives, walked.outcomes) == (
        plain.negatives,
        plain.known_positives,
        plain.outcomes,
    )
    assert len(set(asked)) == len(asked) and set(needed) <= set(asked)
    assert walked.judged_ahead == len(asked) - len(needed) and (width > 1 or not walked.judged_ahead)


def test_what_fails_beyond_the_end_decides_nothing() -> None:
    """The first two end the walk; the failures after them are of questions that width 1 would not have asked."""
    route = Route(list("abcd"), set("abcd"), lambda tile_id: None, 2)
    said = {"a": "WRONG", "b": "WRONG", "c": ItemError("time-out"), "d": StageError("budget")}
    walked, asked = ahead(route, said, 4)
    assert walked.negatives == ("a", "b") and walked.judged_ahead == 2 and sorted(asked) == list("abcd")
    with pytest.raises(ZeroDivisionError):
        ahead(route, said | {"c": ZeroDivisionError()}, 4)  # a fault of ours is no failed call


def test_what_fails_on_the_way_fails_the_query() -> None:
    route = Route(list("abc"), set("abc"), lambda tile_id: None, 2)
    for width in (1, 3):
        with pytest.raises(ItemError, match="time-out"):
            ahead(route, {"a": "WRONG", "b": ItemError("time-out"), "c": "WRONG"}, width)


def test_a_cancelled_walk_leaves_no_question_behind() -> None:
    async def main() -> tuple[int, int]:
        ended = []

        async def judge(tile_id: str) -> str:
            try:
                await asyncio.sleep(60)
            finally:
                ended.append(tile_id)
            return "WRONG"

        route = Route(list("abc"), set("abc"), lambda tile_id: None, 2)
        task = asyncio.ensure_future(walk_ahead(route, judge, 3))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        return len(ended), len(asyncio.all_tasks())

    assert asyncio.run(main()) == (3, 1)
