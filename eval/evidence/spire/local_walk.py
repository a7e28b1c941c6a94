"""Local context: a walk from a sentence outwards over its block, list or table, and section, within a budget."""

from dataclasses import dataclass

from tilewright.eval.evidence.spire.document import Document
from tilewright.eval.evidence.spire.views import CountTokens, View, view_of

LOCAL_TOKENS = 512


@dataclass(frozen=True)
class LocalView:
    """``view`` of the sentences around ``seed``. ``over_budget``: the seed's own view alone is over the budget."""

    seed: int
    view: View
    over_budget: bool


def walk_order(document: Document, seed: int) -> list[int]:
    """All other seeds: those of its block first, then of its list, row, table, header scope, then the rest.

    Within a level the nearest in document order first, the earlier one of two as near.
    """
    own = document.lines[document.seeds[seed].line]

    def level(number: int) -> int:
        other = document.lines[document.seeds[number].line]
        if other.block is own.block:
            return 0
        if own.lists and other.lists and other.lists[-1] is own.lists[-1]:
            return 1
        if own.row is not None and other.row is own.row:
            return 2
        if own.table is not None and other.table is own.table:
            return 3
        return 4 if other.headings == own.headings else 5

    others = (number for number in range(len(document.seeds)) if number != seed)
    return sorted(others, key=lambda number: (level(number), abs(number - seed), number))


def local_view(document: Document, seed: int, budget: int, count: CountTokens) -> LocalView:
    """Whole sentences are added in ``walk_order`` until one doesn't fit; a view's cost is with its global context."""
    view = view_of(document, [seed], count)
    if view.tokens > budget:
        return LocalView(seed, view, True)
    for number in walk_order(document, seed):
        wider = view_of(document, view.seeds | {number}, count)
        if wider.tokens > budget:
            break
        view = wider
    return LocalView(seed, view, False)
