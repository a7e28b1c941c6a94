"""Delivery: the host's first items unchanged, a block of units in place of the last, never at more tokens."""

import dataclasses
import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.eval.evidence import tessera
from tilewright.eval.evidence.packing import NO_BLOCK, Block
from tilewright.eval.evidence.page_units import PageUnits
from tilewright.eval.evidence.rerankers import LexicalReranker
from tilewright.eval.evidence.tessera import BudgetError, EvidenceLayer, RankedItem, TesseraOptions, check, deliver
from tilewright.eval.evidence.units import UnitOptions

ROWS = "".join(f"<tr><td>{1900 + n}<td>Song {n}<td>{n % 7}" for n in range(40))
HTML = {
    "band": f"<title>Band</title><h2>Songs</h2><table><tr><th>Year<th>Title<th>Peak{ROWS}</table><p>The band played.",
    "river": "<title>River</title><h2>Course</h2><p>The river Ister runs to the sea.<p>It is 300 km long.",
    "empty": "",
}
ITEMS = [
    RankedItem("c1", "river", 60, "The river"),
    RankedItem("c2", "band", 50, "Song 7 and others"),
    RankedItem("c3", "gone", 40, "nothing"),
    RankedItem("c4", "band", 30, "The band played."),
]


class Pages:
    """The pages above."""

    def html(self, page_id: str) -> tuple[str, str] | None:
        return (HTML[page_id], "") if page_id in HTML else None


def words(text: str) -> int:
    return len(text.split())


def layer(options: TesseraOptions | None = None) -> EvidenceLayer:
    return EvidenceLayer(Pages(), LexicalReranker(), words, options or TesseraOptions())


def test_the_block_takes_the_place_of_the_last_item() -> None:
    made = deliver("In which year was Song 7?", ITEMS, 3, layer=layer())
    assert made.items == tuple(ITEMS[:2]) and not made.fallback
    assert "# Band > Songs" in made.block.text and "1907 | Song 7 | 0" in made.block.text
    assert made.tokens <= made.host_tokens == 150 and made.block.tokens <= 40
    assert {unit.unit_id for unit in made.block.units} <= set(made.candidates)


def test_one_item_is_replaced_and_none_stays_none() -> None:
    made = layer().apply("river sea", ITEMS, 1)
    assert made.items == () and "Ister" in made.block.text
    assert layer().apply("river", [], 3) == tessera.ReaderContext((), NO_BLOCK, 0, "nothing ranked")
    assert len(layer().apply("river sea", ITEMS[:2], 5).items) == 1
    with pytest.raises(ValueError, match="k: wanted >= 1"):
        layer().apply("river", ITEMS, 0)


def test_without_page_or_room_the_host_stays_as_it_is() -> None:
    gone = [RankedItem("x", "gone", 9), RankedItem("y", "empty", 9)]
    assert layer().apply("q", gone[:1], 1).fallback == "no page"
    assert layer().apply("q", gone, 2).fallback == "no unit fits"
    short = [ITEMS[0], dataclasses.replace(ITEMS[1], tokens=2)]
    made = layer().apply("Song 7", short, 2)
    assert made.items == tuple(short) and made.fallback == "no unit fits" and made.tokens == made.host_tokens


def test_only_the_pages_of_the_first_items_count() -> None:
    made = layer(TesseraOptions(anchors=1)).apply("Song 7", ITEMS, 3)
    assert {unit.page_id for unit in made.block.units} == {"river"}


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from(["band", "river", "gone", "empty"]), st.integers(0, 120)), max_size=6),
    st.integers(1, 5),
    st.sampled_from(["Song 7", "how long is the river", "", "1931"]),
    st.integers(1, 3),
    st.sampled_from(["last", "joint"]),
)
def test_a_delivery_never_costs_more_than_its_host(
    rows: list[tuple[str, int]], k: int, query: str, displaced: int, place: tessera.Place
) -> None:
    ranked = [RankedItem(f"i{n}", page, tokens, "Song 7") for n, (page, tokens) in enumerate(rows)]
    made = layer(TesseraOptions(displaced=displaced, place=place)).apply(query, ranked, k)
    assert made.tokens <= made.host_tokens == sum(item.tokens for item in ranked[:k])
    assert made.block.tokens == words(made.block.text)
    if place == "last":
        assert made.items == tuple(ranked[: len(made.items)])


def test_a_broken_delivery_is_an_error() -> None:
    context = layer().apply("Song 7", ITEMS, 3)
    options = TesseraOptions()
    with pytest.raises(BudgetError, match="host's 150 tokens, found 151"):
        check(dataclasses.replace(context, block=Block("x", 41, ())), ITEMS, 3, options)
    with pytest.raises(BudgetError, match="unchanged"):
        check(dataclasses.replace(context, items=(ITEMS[1], ITEMS[0])), ITEMS, 3, options)
    with pytest.raises(BudgetError, match="wanted 2 of the host's items, found 1"):
        check(dataclasses.replace(context, items=context.items[:1]), ITEMS, 3, options)
    with pytest.raises(BudgetError, match="wanted 3"):
        check(dataclasses.replace(context, fallback="no page"), ITEMS, 3, options)


def test_ablations() -> None:
    query = "peak of Song 7"
    nominal = layer(TesseraOptions(budget="nominal", nominal_tokens=200)).apply(query, ITEMS, 3)
    assert 40 < nominal.block.tokens <= 200
    added = layer(TesseraOptions(place="added", nominal_tokens=30)).apply(query, ITEMS, 3)
    assert added.items == tuple(ITEMS[:3]) and 0 < added.block.tokens <= 30
    most = TesseraOptions(budget="nominal", nominal_tokens=20, displaced=9)
    assert layer(most).apply(query, ITEMS, 3).budget == 60, "three items are displaced, not nine"
    only = layer(TesseraOptions(displaced=9)).apply(query, ITEMS, 3)
    assert only.items == () and only.block.tokens > nominal.block.tokens / 2
    near = layer(TesseraOptions(siblings=1)).apply("Song 7", ITEMS, 3)
    assert {"Song 6", "Song 7", "Song 8"} <= {unit.cells[1] for unit in near.block.units if unit.cells}
    bare = layer(TesseraOptions(units=UnitOptions(completed=False))).apply(query, ITEMS, 3)
    assert "#" not in bare.block.text and "1907 | Song 7 | 0" in bare.block.text
    few = layer(TesseraOptions(candidates=2)).apply(query, ITEMS, 3)
    assert len(few.candidates) == 2
    kept = [ITEMS[3], ITEMS[0]]
    assert "The band played." in layer().apply("band played", kept, 2).block.text
    assert "The band played." not in layer(TesseraOptions(dedup=True)).apply("band played", kept, 2).block.text
    told = dataclasses.replace(ITEMS[0], text="| 1,907 | x |\n| 1907 | Song 7 | 3 |\n| 1907 | Song 7 | 0 |")
    given = [
        layer(TesseraOptions(dedup=dedup)).apply("Song 7", [told, *ITEMS[1:]], 3).block.text for dedup in (False, True)
    ]
    assert ["1907 | Song 7" in text for text in given] == [True, False] and given[1]
    loose = layer(TesseraOptions(grouped=False)).apply(query, ITEMS, 3)
    assert len(loose.block.units) < len(layer().apply(query, ITEMS, 3).block.units)


def test_joint_ranking_keeps_items_beyond_the_anchors_where_the_reader_gets_more() -> None:
    items = [RankedItem(f"i{n}", "river", 20, "Ister" if n == 3 else "unlike") for n in range(4)]
    made = layer(TesseraOptions(place="joint", anchors=2)).apply("Ister", items, 4)
    assert items[3] in made.items


def test_a_page_without_units_is_stored_too(tmp_path: Path) -> None:
    assert PageUnits(Pages(), UnitOptions(), tmp_path).of("empty") is not None
    again = PageUnits(Pages(), UnitOptions(), tmp_path)
    found = again.of("empty")
    assert found is not None and not found.units and again.built == 0


def test_units_are_built_once_for_each_state_of_a_page(tmp_path: Path) -> None:
    units = PageUnits(Pages(), UnitOptions(), tmp_path)
    first = units.of("band")
    assert first is not None and units.of("band") is first and units.built == 1
    again = PageUnits(Pages(), UnitOptions(), tmp_path)
    found = again.of("band")
    assert found is not None and found.units == first.units and again.built == 0
    other = PageUnits(Pages(), UnitOptions(pairing="dom"), tmp_path)
    assert other.of("band") is not None and other.built == 1 and len(list(tmp_path.iterdir())) == 2
    assert "lexbor" in json.loads(next(tmp_path.iterdir()).read_text())["builder"]
    assert units.of("gone") is None
