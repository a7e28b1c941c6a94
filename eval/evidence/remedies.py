"""Baselines beside Tessera at no more tokens than their host: HtmlRAG, neighbours, titles, HTML, diagnostics."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Literal

from tilewright.configs.digests import canonical_json
from tilewright.configs.items import ItemError
from tilewright.eval.deliveries import HTML_RAG, Delivery, HtmlLookup, html_lookup
from tilewright.eval.evidence.html_rag import BLOCK_WORDS, CleanPage, pruned
from tilewright.eval.evidence.html_tree import parse_html
from tilewright.eval.evidence.rerankers import LexicalReranker
from tilewright.eval.evidence.tessera import BudgetError
from tilewright.eval.page_texts import Pages
from tilewright.eval.parts import Cost, Delivered, Item, Question, Ranked
from tilewright.eval.string_evidence import holds
from tilewright.eval.tools import require_module
from tilewright.eval.workshop import Workshop

KEPT_PAGES = 256  # cleaned, in memory
Place = Callable[[Question, Ranked, Sequence[Item], int, Cost], Sequence[Item]]  # what comes for the displaced items


@dataclass(frozen=True)
class HtmlRag:
    """Pruned HTML of the pages of the first ``anchors`` items in place of the last ``displaced`` (k or more: all)."""

    kind: Literal["html_rag"]
    displaced: int = 1
    anchors: int = 10
    block_words: int = BLOCK_WORDS

    def __post_init__(self) -> None:
        if min(self.displaced, self.anchors, self.block_words) < 1:
            raise ValueError("wanted displaced, anchors and block_words >= 1")


@dataclass(frozen=True)
class Neighbours:
    """In place of the last item those beside the others on their pages, by rank, as many as fit."""

    kind: Literal["neighbours"]


@dataclass(frozen=True)
class TitlePrefix:
    """Each text under its page's title, cut at its end so that it costs no more than before; pictures as they are."""

    kind: Literal["title_prefix"]


@dataclass(frozen=True)
class HtmlLookupWithin:
    """``html_lookup`` at the host's budget: of the HTML that each text was taken from as much as costs what it did."""

    kind: Literal["html_lookup_within"]


@dataclass(frozen=True)
class OracleSlot:
    """In place of the last item one of the gold page: with an answer in it, or, ``evidence`` false, without.

    A diagnostic: it knows the gold, and belongs in no table of results.
    """

    kind: Literal["oracle_slot"]
    evidence: bool = True


class Replacing:
    """Keeps the host's first items; ``place`` gives what comes instead of the last ``displaced``.

    Nothing that fits: the host's own items, flagged. Raises BudgetError for more tokens than the host's.
    """

    def __init__(self, identity: str, place: Place, displaced: int = 1) -> None:
        self.identity, self._place, self._displaced = identity, place, displaced

    def deliver(self, question: Question, ranked: Sequence[Item], k: int, cost: Cost) -> Delivered:
        """The items that stay, then the others. Raises ItemError for items without their retriever."""
        if not isinstance(ranked, Ranked):
            raise ItemError(f"{self.identity}: wanted hits of a retriever, found {type(ranked).__name__}")
        host = list(ranked[:k])
        stays = host[: max(0, len(host) - self._displaced)]
        budget = sum(cost(item) for item in host[len(stays) :])
        given = [*stays, *(self._place(question, ranked, stays, budget, cost) if host else ())]
        if len(given) == len(stays):
            return Delivered(tuple(host), (f"{self.identity.split('/')[0]}_fallback",) if host else ())
        no_dearer(host, given, cost)
        return Delivered(tuple(given))


def no_dearer(host: Sequence[Item], given: Sequence[Item], cost: Cost) -> None:
    """Raise BudgetError if ``given`` costs more than ``host``."""
    before, after = sum(map(cost, host)), sum(map(cost, given))
    if after > before:
        raise BudgetError(f"wanted at most the host's {before} tokens, found {after}")


def html_rag(options: HtmlRag, workshop: Workshop) -> Replacing:
    """Raises InputError without the pages' documents, MissingToolError without selectolax."""
    require_module("selectolax", "text")
    documents = workshop.need_pages("html_rag")

    @lru_cache(KEPT_PAGES)
    def page(page_id: str) -> CleanPage | None:
        html = _html(documents, page_id)
        return None if html is None else CleanPage(parse_html(html), options.block_words)

    def place(question: Question, ranked: Ranked, stays: Sequence[Item], budget: int, cost: Cost) -> Sequence[Item]:
        ids = dict.fromkeys(item.page_id for item in ranked[: options.anchors])
        pages = {page_id: made for page_id in ids if (made := page(page_id)) is not None}

        def item(html: str) -> Item:
            return Item(HTML_RAG, next(iter(pages or ids)), HTML_RAG, html)

        text = pruned(question.query, list(pages.values()), budget, lambda html: cost(item(html)), LexicalReranker())
        return [item(text)] if text else []

    return Replacing(f"html_rag/{canonical_json(options)}", place, options.displaced)


def _html(documents: Pages, page_id: str) -> str | None:
    """A page's document; None if it isn't there or is no HTML."""
    try:
        return documents.html(page_id)
    except ItemError:
        return None


def neighbours(options: Neighbours, workshop: Workshop) -> Replacing:
    """Of any retriever whose items have places on their pages."""

    def place(question: Question, ranked: Ranked, stays: Sequence[Item], budget: int, cost: Cost) -> Sequence[Item]:
        taken = {item.item_id for item in stays}
        found: list[Item] = []
        for item in stays:
            beside = [other for other in _of_page(ranked, item.page_id) if _beside(other, item)]
            for other in beside:
                price = cost(other)
                if other.item_id not in taken and price <= budget:
                    taken.add(other.item_id)
                    found.append(other)
                    budget -= price
        return found

    return Replacing("neighbours/1", place)


def _beside(other: Item, item: Item) -> bool:
    """Whether they are next to each other: a tile's neighbours are tiles, also where a hybrid finds chunks too."""
    return other.source == item.source and abs(other.position - item.position) == 1


def oracle_slot(options: OracleSlot, workshop: Workshop) -> Replacing:
    """Of any retriever; items are judged by string."""

    def place(question: Question, ranked: Ranked, stays: Sequence[Item], budget: int, cost: Cost) -> Sequence[Item]:
        kept = {item.item_id for item in stays}
        right = [
            item
            for page_id in sorted(question.gold_pages)
            for item in _of_page(ranked, page_id)
            if item.item_id not in kept
            and holds(item.text, question.answers) == options.evidence
            and cost(item) <= budget
        ]
        if options.evidence or not right:
            return right[:1]
        return [min(right, key=lambda item: _digest(question.query_id, item.item_id))]

    return Replacing(f"oracle_slot/{canonical_json(options)}", place)


def _digest(*names: str) -> str:
    return hashlib.sha256("/".join(names).encode("utf-8", "surrogatepass")).hexdigest()


def _of_page(ranked: Ranked, page_id: str) -> list[Item]:
    """All items of a page that the retriever has, by their places."""
    retriever = ranked.retriever
    items = [retriever.item(name) for name, of in retriever.page_of.items() if of == page_id]
    return sorted(items, key=lambda item: item.position)


class Prefixed:
    """Texts under their page's title."""

    identity = "title_prefix/1"

    def deliver(self, question: Question, ranked: Sequence[Item], k: int, cost: Cost) -> Delivered:
        """The first ``k``, none dearer than it was."""
        host = list(ranked[:k])
        given = [self._prefixed(item, cost) for item in host]
        no_dearer(host, given, cost)
        return Delivered(tuple(given))

    def _prefixed(self, item: Item, cost: Cost) -> Item:
        if item.picture is not None or not item.title:
            return item
        return _cut(item, f"{item.title}\n", item.text, cost(item), cost) or item


def title_prefix(options: TitlePrefix, workshop: Workshop) -> Prefixed:
    """Needs nothing."""
    return Prefixed()


class LookedUp:
    """HTML of the page in place of its text, cut at its end."""

    def __init__(self, lookup: Delivery) -> None:
        self.identity, self._lookup = f"{lookup.identity}/within", lookup

    def deliver(self, question: Question, ranked: Sequence[Item], k: int, cost: Cost) -> Delivered:
        """The first ``k``, none dearer than it was; one of which nothing fits stays as it is, flagged."""
        host = list(ranked[:k])
        found = self._lookup.deliver(question, host, k, cost)
        cut = [_cut(new, "", new.text, cost(old), cost) for old, new in zip(host, found.items, strict=True)]
        given = [new or old for old, new in zip(host, cut, strict=True)]
        no_dearer(host, given, cost)
        return Delivered(tuple(given), (*found.flags, *["html_lookup_fallback"] * cut.count(None)))


def html_lookup_within(options: HtmlLookupWithin, workshop: Workshop) -> LookedUp:
    """Raises as ``html_lookup``."""
    return LookedUp(html_lookup(HtmlLookup("html_lookup"), workshop))


def _cut(item: Item, head: str, text: str, budget: int, cost: Cost) -> Item | None:
    """``item`` as ``head`` and the first words of ``text``, as many as cost at most ``budget``; None if none fits."""
    words = text.split(" ")
    low, high = 0, len(words)
    while low < high:
        middle = (low + high + 1) // 2
        if cost(replace(item, text=head + " ".join(words[:middle]))) <= budget:
            low = middle
        else:
            high = middle - 1
    return replace(item, text=head + " ".join(words[:low])) if low else None
