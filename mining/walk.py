"""The walk down one query's ranking: what a judge's outcomes make of the candidates, and where it ends."""

from collections.abc import Awaitable, Callable, Generator, Sequence
from dataclasses import dataclass

from tilewright.data_gen.verdicts import Verdict

DUPLICATE, SAME_PAGE, UNJUDGED = "DUPLICATE", "SAME_PAGE", "UNJUDGED"


@dataclass(frozen=True)
class Walk:
    """What the walk down one ranking gave; ``outcomes`` are (tile_id, outcome) of the candidates looked at."""

    negatives: tuple[str, ...]
    known_positives: tuple[str, ...]
    outcomes: tuple[tuple[str, str], ...]


def walking(ranked: Sequence[str], wanted: int) -> Generator[str, str, Walk]:
    """Yield the tiles of ``ranked`` (best first, without the positive) to look at; ``send`` each one's outcome.

    CORRECT and DUPLICATE (a copy of the positive) are known positives; WRONG, CANNOT_ANSWER and UNJUDGED (naive mode)
    negatives; all else is passed over. Ends at ``wanted`` negatives.
    """
    negatives: list[str] = []
    known: list[str] = []
    outcomes: list[tuple[str, str]] = []
    for tile_id in ranked:
        if len(negatives) == wanted:
            break
        outcome = yield tile_id
        outcomes.append((tile_id, outcome))
        if outcome in (Verdict.CORRECT.value, DUPLICATE):
            known.append(tile_id)
        elif outcome in (Verdict.WRONG.value, Verdict.CANNOT_ANSWER.value, UNJUDGED):
            negatives.append(tile_id)
    return Walk(tuple(negatives), tuple(known), tuple(outcomes))


def walk(ranked: Sequence[str], wanted: int, look: Callable[[str], str]) -> Walk:
    """``walking`` with ``look(tile_id)`` for the outcomes."""
    steps = walking(ranked, wanted)
    try:
        tile_id = next(steps)
        while True:
            tile_id = steps.send(look(tile_id))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]


async def walk_judged(ranked: Sequence[str], wanted: int, look: Callable[[str], Awaitable[str]]) -> Walk:
    """``walk`` with a ``look`` that is awaited."""
    steps = walking(ranked, wanted)
    try:
        tile_id = next(steps)
        while True:
            tile_id = steps.send(await look(tile_id))
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
