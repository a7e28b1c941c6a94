"""Units into one block of text that costs the reader no more than it may: context and header lines once, page order."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from tilewright.eval.evidence.row_units import CELL_SEPARATOR
from tilewright.eval.evidence.units import Unit

CountTokens = Callable[[str], int]
CONTEXT_MARK = "# "


@dataclass(frozen=True)
class Block:
    """``text`` as the reader gets it, its ``tokens`` by the reader's tokenizer, the ``units`` in it in their order."""

    text: str
    tokens: int
    units: tuple[Unit, ...]


NO_BLOCK = Block("", 0, ())


def pack(
    units: Sequence[Unit],
    budget: int,
    count_tokens: CountTokens,
    *,
    page_ranks: Mapping[str, int] | None = None,
    grouped: bool = True,
) -> Block:
    """Admit ``units`` in their order, each only if the whole block with it stays within ``budget`` tokens.

    One that doesn't fit is passed over and the walk goes on. ``page_ranks`` {page_id: rank}, else pages come in the
    order of ``units``; ``grouped`` false: each unit repeats its context (an ablation).
    """
    ranks = page_ranks or {page: rank for rank, page in enumerate(dict.fromkeys(unit.page_id for unit in units))}
    block = NO_BLOCK
    seen: set[str] = set()
    for unit in units:
        if unit.unit_id in seen:
            continue
        chosen = sorted((*block.units, unit), key=lambda item: (ranks[item.page_id], item.pos))
        text = render(chosen, grouped=grouped)
        tokens = count_tokens(text)
        if tokens <= budget:
            block = Block(text, tokens, tuple(chosen))
            seen.add(unit.unit_id)
    return block


def render(units: Sequence[Unit], *, grouped: bool = True) -> str:
    """The block of ``units`` in their order; a context line stands once above the units that share it."""
    if not grouped:
        return "\n".join(unit.completed_text for unit in units)
    return "\n".join(_lines(units))


def _lines(units: Sequence[Unit]) -> Iterator[str]:
    place: tuple[str, str] | None = None
    header: tuple[str, tuple[str, ...]] = ("", ())
    for unit in units:
        here = (unit.page_id, unit.context)
        if here != place:
            if unit.context or place is not None:  # one without context stands under no other's
                yield (CONTEXT_MARK + unit.context).rstrip()
            place, header = here, ("", ())
        if not unit.values:
            header = ("", ())
            yield unit.body
            continue
        if (unit.table_id, unit.header) != header:
            header = (unit.table_id, unit.header)
            yield CELL_SEPARATOR.join(unit.header)
        yield CELL_SEPARATOR.join(unit.values)
