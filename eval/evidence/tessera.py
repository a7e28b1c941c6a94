"""Tessera: one block of structure-completed units in place of the reader's last item, at no more tokens.

After arXiv 2610.37080. Index, retriever, reader and prompt stay as they are; nothing is trained.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

from tilewright.eval.bm25 import tokens as words_of
from tilewright.eval.evidence.packing import NO_BLOCK, Block, CountTokens, pack
from tilewright.eval.evidence.page_units import PageSource, PageUnits
from tilewright.eval.evidence.prefilter import UnitIndex, prefilter
from tilewright.eval.evidence.rerankers import Reranker
from tilewright.eval.evidence.units import ROW, Unit, UnitOptions

Budget = Literal["displaced", "nominal"]
Place = Literal["last", "added", "joint"]
NOMINAL_TOKENS = 1024


@dataclass(frozen=True)
class RankedItem:
    """What a host would give its reader: a chunk, a tile, a document. ``tokens``: what it costs there."""

    item_id: str
    page_id: str
    tokens: int
    text: str = ""


@dataclass(frozen=True)
class TesseraOptions:
    """``anchors``: ranked items whose pages are taken; ``candidates``: units that are reranked.

    ``budget`` displaced: what the displaced items cost; nominal: ``nominal_tokens``, as the source has it, which may
    cost more than the host. ``displaced``: how many last items the block stands for. ``place`` added: beside all k
    items; joint: items and units ranked together (both are ablations, the first costs more). ``siblings``: rows above
    and below a chosen one that are tried next; ``dedup``: units whose text stands in a kept item are left out;
    ``grouped``: context lines once.
    """

    anchors: int = 10
    candidates: int = 100
    budget: Budget = "displaced"
    nominal_tokens: int = NOMINAL_TOKENS
    displaced: int = 1
    place: Place = "last"
    siblings: int = 0
    dedup: bool = False
    grouped: bool = True
    units: UnitOptions = field(default_factory=UnitOptions)

    def __post_init__(self) -> None:
        if min(self.anchors, self.candidates, self.displaced, self.nominal_tokens) < 1 or self.siblings < 0:
            raise ValueError("wanted anchors, candidates, displaced and nominal_tokens >= 1, siblings >= 0")


@dataclass(frozen=True)
class ReaderContext:
    """What the reader gets: ``items`` of the host, then ``block`` (NO_BLOCK: none).

    ``fallback``: why the host's own items came instead of a block; "" if a block came. ``candidates``: unit ids best
    first. ``budget``: what the block may cost.
    """

    items: tuple[RankedItem, ...]
    block: Block
    host_tokens: int
    fallback: str = ""
    candidates: tuple[str, ...] = ()
    budget: int = 0

    @property
    def tokens(self) -> int:
        """What the reader pays for items and block."""
        return sum(item.tokens for item in self.items) + self.block.tokens


class BudgetError(RuntimeError):
    """A delivery broke its contract: it cost more than its host, or changed what it had to leave alone."""


class EvidenceLayer:
    """The one call that text chunks, tiles and the agent's search tool share.

    ``count_tokens``: by the reader's tokenizer. ``pages``: the corpus' HTML. ``joint`` ranking needs items with text.
    """

    def __init__(
        self, pages: PageSource | PageUnits, reranker: Reranker, count_tokens: CountTokens, options: TesseraOptions
    ) -> None:
        self.options, self._reranker, self._count = options, reranker, count_tokens
        self.units = pages if isinstance(pages, PageUnits) else PageUnits(pages, options.units)

    def apply(self, query: str, ranked: Sequence[RankedItem], k: int) -> ReaderContext:
        """The reader's context for the first ``k`` of ``ranked``. Raises BudgetError if it isn't what it must be."""
        context = self._apply(query, ranked, k)
        check(context, ranked, k, self.options)
        return context

    def _apply(self, query: str, ranked: Sequence[RankedItem], k: int) -> ReaderContext:
        if k < 1:
            raise ValueError(f"k: wanted >= 1, found {k}")
        host = tuple(ranked[:k])
        host_tokens = sum(item.tokens for item in host)
        pages = self._pages(ranked)
        if not host or not pages:
            return ReaderContext(host, NO_BLOCK, host_tokens, "no page" if host else "nothing ranked")
        kept, budget = self._kept(host)
        scored = self._scored(query, pages, kept)
        names = tuple(unit.unit_id for unit, _ in scored)
        if self.options.place == "joint":
            items = ranked[: max(k, self.options.anchors)]
            kept, budget, scored = self._joint(query, items, host_tokens, scored)
        order = self._with_siblings([unit for unit, _ in scored], pages)
        ranks = {page.units[0].page_id: rank for rank, page in enumerate(pages) if page.units}
        block = pack(order, budget, self._count, page_ranks=ranks, grouped=self.options.grouped)
        if not block.units:
            return ReaderContext(host, NO_BLOCK, host_tokens, "no unit fits", names)
        return ReaderContext(kept, block, host_tokens, "", names, budget)

    def _pages(self, ranked: Sequence[RankedItem]) -> list[UnitIndex]:
        """Units of the distinct pages of the first items, in the order in which they come."""
        ids = dict.fromkeys(item.page_id for item in ranked[: self.options.anchors])
        found = [self.units.of(page_id) for page_id in ids]
        return [page for page in found if page is not None]

    def _kept(self, host: tuple[RankedItem, ...]) -> tuple[tuple[RankedItem, ...], int]:
        """(the items that stay, the block's budget in tokens)."""
        options = self.options
        if options.place == "added":
            return host, options.nominal_tokens
        stays = max(0, len(host) - options.displaced)
        if options.budget == "nominal":
            return host[:stays], options.nominal_tokens * (len(host) - stays)
        return host[:stays], sum(item.tokens for item in host[stays:])

    def _scored(self, query: str, pages: Sequence[UnitIndex], kept: Sequence[RankedItem]) -> list[tuple[Unit, float]]:
        """The candidates by the reranker's score, ties as the prefilter has them."""
        found = prefilter(query, pages, self.options.candidates)
        if self.options.dedup:
            given = [_words(item.text) for item in kept]
            found = [unit for unit in found if not _stands_in(unit, given)]
        scores = self._reranker.score(query, [unit.completed_text for unit in found]) if found else []
        order = sorted(range(len(found)), key=lambda index: -scores[index])
        return [(found[index], scores[index]) for index in order]

    def _joint(
        self, query: str, items: Sequence[RankedItem], host_tokens: int, scored: list[tuple[Unit, float]]
    ) -> tuple[tuple[RankedItem, ...], int, list[tuple[Unit, float]]]:
        """(items, tokens left, units): both walked by score until the host's tokens are used."""
        scores = self._reranker.score(query, [item.text for item in items])
        left, chosen, taken = host_tokens, [], []
        everything = [(score, 0, index) for index, score in enumerate(scores)]
        everything += [(score, 1, index) for index, (_, score) in enumerate(scored)]
        for _, is_unit, index in sorted(everything, key=lambda entry: (-entry[0], entry[1], entry[2])):
            cost = self._count(scored[index][0].completed_text) if is_unit else items[index].tokens
            if cost > left:
                continue
            left -= cost
            if is_unit:
                taken.append(scored[index])
            else:
                chosen.append(index)
        kept = tuple(items[index] for index in sorted(chosen))
        return kept, host_tokens - sum(item.tokens for item in kept), taken

    def _with_siblings(self, units: Sequence[Unit], pages: Sequence[UnitIndex]) -> list[Unit]:
        """``units``, each row followed by the rows beside it in its table."""
        if not self.options.siblings:
            return list(units)
        of_page = {page.units[0].page_id: page.units for page in pages if page.units}
        order: dict[str, Unit] = {}
        for unit in units:
            order.setdefault(unit.unit_id, unit)
            if unit.kind != ROW:
                continue
            near = range(unit.pos - self.options.siblings, unit.pos + self.options.siblings + 1)
            for place in sorted(near, key=lambda pos: abs(pos - unit.pos)):
                other = of_page[unit.page_id][place] if 0 <= place < len(of_page[unit.page_id]) else unit
                if other.table_id == unit.table_id and other.kind == ROW:
                    order.setdefault(other.unit_id, other)
        return list(order.values())


def _stands_in(unit: Unit, texts: Sequence[str]) -> bool:
    """Whether one of ``texts`` (see ``_words``) has a unit's words in their order; of a row those of its cells."""
    own = _words(" ".join((*unit.labels, *unit.cells)) or unit.body)
    return bool(own.strip()) and any(own in text for text in texts)


def _words(text: str) -> str:
    """The words of ``text``, a blank around each."""
    return f" {' '.join(words_of(text))} "


def deliver(query: str, ranked: Sequence[RankedItem], k: int, *, layer: EvidenceLayer) -> ReaderContext:
    """``layer.apply``: the host's first k-1 items and a block in place of the last."""
    return layer.apply(query, ranked, k)


def check(context: ReaderContext, ranked: Sequence[RankedItem], k: int, options: TesseraOptions) -> None:
    """Raise BudgetError unless ``context`` keeps the host's items as they are and costs no more than the host.

    The cost is free where the options give a budget of their own (nominal, added); joint ranking may drop items.
    """
    host = tuple(ranked[:k])
    if options.place != "joint" and context.items != host[: len(context.items)]:
        raise BudgetError("wanted the host's first items unchanged, found others")
    stays = len(host) if context.fallback or options.place == "added" else max(0, len(host) - options.displaced)
    if options.place != "joint" and len(context.items) != stays:
        raise BudgetError(f"wanted {stays} of the host's items, found {len(context.items)}")
    own_budget = options.budget == "nominal" or options.place == "added"
    if not own_budget and context.tokens > context.host_tokens:
        raise BudgetError(f"wanted at most the host's {context.host_tokens} tokens, found {context.tokens}")
