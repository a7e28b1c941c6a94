"""The other ways to fill the last slot: none costs more than its host, and each gives what it says."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.items import ItemError
from tilewright.eval import deliveries as delivering
from tilewright.eval.deliveries import HTML_SOURCES, HtmlLookup
from tilewright.eval.evidence.remedies import (
    HtmlLookupWithin,
    HtmlRag,
    Neighbours,
    OracleSlot,
    Replacing,
    TitlePrefix,
    html_lookup_within,
    html_rag,
    neighbours,
    no_dearer,
    oracle_slot,
    title_prefix,
)
from tilewright.eval.evidence.tessera import BudgetError
from tilewright.eval.parts import Asked, Found, Item, Prediction, Question, Ranked
from tilewright.eval.readers.string_evidence import StringEvidence, StringReader
from tilewright.eval.string_evidence import holds

ITEMS = {
    f"{page}{n}": Item(f"{page}{n}", page, "text_chunk", f"chunk {page} {n} " + "word " * n, None, n, f"Title {page}")
    for page in "pq"
    for n in range(6)
}
QUESTION = Question("q", "who wrote chunk 4", ("p 4",), frozenset({"p"}))


class Chunks:
    """Two pages of six chunks."""

    title, identity, facts = "chunks", "chunks", {}
    items_failed, closed_book, sees_gold = 0, False, False

    @property
    def page_of(self) -> Mapping[str, str]:
        return {name: item.page_id for name, item in ITEMS.items()}

    def item(self, item_id: str) -> Item:
        return ITEMS[item_id]

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        raise AssertionError("these tests give the hits")


class Workshop:
    """Has the pages' documents and nothing else."""

    def need_pages(self, who: str) -> "Workshop":
        return self

    def html(self, page_id: str) -> str:
        paragraphs = "".join(f"<p>chunk {page_id} {n} wrote" for n in range(6))
        return f"<title>{page_id}</title>{paragraphs}"


class Looked(Workshop):
    """Its paragraphs are long."""

    def html(self, page_id: str) -> str:
        return "".join(f"<p>{ITEMS[f'{page_id}{n}'].text}and much more besides</p>" for n in range(6))


class Counting:
    """Counts words."""

    def counter(self, name: str) -> Callable[[str], int]:
        return lambda text: len(text.split())


def cost(item: Item) -> int:
    return len(item.text.split())


def ranked(*names: str) -> Ranked:
    return Ranked(Chunks(), [(name, 1.0) for name in names])


def delivered(make: Callable[..., Any], options: Any, names: Sequence[str], k: int) -> list[str]:
    found = make(options, Workshop()).deliver(QUESTION, ranked(*names), k, cost)
    return [item.item_id for item in found.items] + list(found.flags)


def test_neighbours_come_by_rank_and_fit() -> None:
    assert delivered(neighbours, Neighbours("neighbours"), ["p1", "q5"], 2) == ["p1", "p0", "p2"]
    assert delivered(neighbours, Neighbours("neighbours"), ["p1", "q1"], 2) == ["p1", "p0"]
    assert delivered(neighbours, Neighbours("neighbours"), ["p5", "q0"], 2) == ["p5", "q0", "neighbours_fallback"]
    assert delivered(neighbours, Neighbours("neighbours"), ["p1"], 1) == ["p1", "neighbours_fallback"]
    assert delivered(neighbours, Neighbours("neighbours"), [], 3) == []


def test_the_oracle_has_an_answer_and_the_control_has_none() -> None:
    assert delivered(oracle_slot, OracleSlot("oracle_slot"), ["q1", "q5"], 2) == ["q1", "p4"]
    assert delivered(oracle_slot, OracleSlot("oracle_slot"), ["q1", "q2"], 2) == ["q1", "q2", "oracle_slot_fallback"]
    control = delivered(oracle_slot, OracleSlot("oracle_slot", evidence=False), ["q1", "q5"], 2)
    assert control[0] == "q1" and control[1][0] == "p" and control[1] != "p4"


def test_a_title_takes_the_place_of_the_last_words() -> None:
    made = title_prefix(TitlePrefix("title_prefix"), None)  # type: ignore[arg-type]
    item = made.deliver(QUESTION, ranked("p4"), 1, cost).items[0]
    assert item.text == "Title p\nchunk p 4 word word" and cost(item) == cost(ITEMS["p4"])
    assert made.deliver(QUESTION, ranked("p0"), 1, cost).items[0].text == "Title p\nchunk"


def test_html_rag_takes_the_last_slot_or_all() -> None:
    one = html_rag(HtmlRag("html_rag", block_words=5), Workshop()).deliver(QUESTION, ranked("q5", "p5"), 2, cost)  # type: ignore[arg-type]
    assert [item.item_id for item in one.items] == ["q5", "html_rag"] and "4 wrote" in one.items[1].text
    every = html_rag(HtmlRag("html_rag", displaced=9, block_words=5), Workshop()).deliver(
        QUESTION, ranked("q5", "p5"), 2, cost
    )  # type: ignore[arg-type]
    assert [item.item_id for item in every.items] == ["html_rag"]


def test_html_rag_reads_like_other_html_and_passes_over_pages_without() -> None:
    """The tags of ``<td>4 wrote</td>`` are no part of its words; where no page is HTML the host's own items come."""

    class Scanned(Workshop):
        def html(self, page_id: str) -> str:
            if page_id == "q":
                raise ItemError("page q: its document is no HTML")
            return "<title>p</title><table><tr><td>chunk</td><td>4 wrote</td></tr></table>"

    made = html_rag(HtmlRag("html_rag"), Scanned())  # type: ignore[arg-type]
    item = made.deliver(QUESTION, ranked("q5", "p5"), 2, cost).items[-1]
    assert item.source in HTML_SOURCES and not holds(item.text, ["4 wrote"])
    reader = StringReader(StringEvidence("string_evidence"), Counting())  # type: ignore[arg-type]
    asked = Asked(Question("q", "chunk", ("4 wrote",)), (item,))
    ((_, prediction),) = reader.answer([asked], Path())
    assert isinstance(prediction, Prediction) and prediction.text == "4 wrote"
    found = made.deliver(QUESTION, ranked("q5", "q4"), 2, cost)
    assert [item.item_id for item in found.items] == ["q5", "q4"] and found.flags == ("html_rag_fallback",)


def test_a_neighbour_is_of_the_same_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hybrid has tiles and chunks of one page, each with places of their own."""
    monkeypatch.setitem(ITEMS, "t2", Item("t2", "p", "tile", "", None, 2))
    assert delivered(neighbours, Neighbours("neighbours"), ["p1", "q5"], 2) == ["p1", "p0", "p2"]


def test_html_looked_up_is_cut_to_what_the_text_cost() -> None:
    """Its tags and what stands between its first and last line cost words of the end."""
    names = ["p4", "p0"]
    whole = delivering.html_lookup(HtmlLookup("html_lookup"), Looked())  # type: ignore[arg-type]
    made = html_lookup_within(HtmlLookupWithin("html_lookup_within"), Looked())  # type: ignore[arg-type]
    dear, cut = (one.deliver(QUESTION, ranked(*names), 2, cost).items for one in (whole, made))
    assert cost(dear[0]) > cost(ITEMS["p4"]) == cost(cut[0]) and dear[0].text.startswith(cut[0].text)
    assert cut[0].source == "html_lookup" and cost(cut[1]) <= cost(ITEMS["p0"])
    nothing = made.deliver(QUESTION, ranked("p4"), 1, lambda item: 1 + 99 * (item.source == "html_lookup"))
    assert nothing.items == (ITEMS["p4"],) and nothing.flags == ("html_lookup_fallback",)


MAKES: list[tuple[Callable[..., Any], Any]] = [
    (neighbours, Neighbours("neighbours")),
    (oracle_slot, OracleSlot("oracle_slot")),
    (oracle_slot, OracleSlot("oracle_slot", evidence=False)),
    (title_prefix, TitlePrefix("title_prefix")),
    (html_rag, HtmlRag("html_rag", block_words=5)),
    (html_lookup_within, HtmlLookupWithin("html_lookup_within")),
]


@settings(max_examples=50)
@given(st.sampled_from(MAKES), st.lists(st.sampled_from(sorted(ITEMS)), unique=True, max_size=5), st.integers(1, 4))
def test_none_costs_more_than_its_host(make: tuple[Callable[..., Any], Any], names: list[str], k: int) -> None:
    found = make[0](make[1], Workshop()).deliver(QUESTION, ranked(*names), k, cost)
    assert sum(map(cost, found.items)) <= sum(cost(ITEMS[name]) for name in names[:k])
    if make[0] not in (title_prefix, html_lookup_within):
        stays = max(0, min(k, len(names)) - 1)
        assert [item.item_id for item in found.items[:stays]] == names[:k][:stays]


def test_a_dearer_delivery_is_an_error() -> None:
    with pytest.raises(BudgetError, match="host's 3 tokens, found 8"):
        no_dearer([ITEMS["p0"]], [ITEMS["p5"]], cost)
    dear = Replacing("dear/1", lambda question, hits, stays, budget, price: [ITEMS["p5"]])
    with pytest.raises(BudgetError):
        dear.deliver(QUESTION, ranked("p0"), 1, cost)
    with pytest.raises(ItemError, match="wanted hits of a retriever"):
        dear.deliver(QUESTION, [ITEMS["p0"]], 1, cost)
