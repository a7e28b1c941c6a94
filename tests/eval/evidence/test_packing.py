"""Packing: the block never costs more than its budget; contexts and headers stand once, pages in their order."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.eval.evidence.html_tree import parse_html
from tilewright.eval.evidence.packing import NO_BLOCK, pack, render
from tilewright.eval.evidence.unit_builder import build_units
from tilewright.eval.evidence.units import BLOCK, Unit


def words(text: str) -> int:
    return len(text.split())


def unit(page: str, pos: int, body: str, section: str = "S") -> Unit:
    return Unit(f"{page}:{pos}", page, BLOCK, pos, (), page, (section,), body)


def test_context_and_header_lines_stand_once() -> None:
    html = (
        "<h1>Band</h1><h2>Songs</h2><table><tr><th>Year<th>Title<tr><td>1964<td>A<tr><td>1965<td>B</table>"
        "<p>Note.<h2>Other</h2><p>End."
    )
    units = build_units(parse_html(html))
    assert render(units) == ("# Band > Songs\nYear | Title\n1964 | A\n1965 | B\nNote.\n# Band > Other\nEnd.")
    assert render(units[:2], grouped=False) == (
        "Band > Songs\nYear: 1964 | Title: A\nBand > Songs\nYear: 1965 | Title: B"
    )


def test_a_unit_without_context_stands_under_no_other_page() -> None:
    bare = Unit("q:0", "q", BLOCK, 0, (), "", (), "Its own page has no title.")
    assert render([unit("p", 1, "x"), bare, unit("r", 1, "y")]) == (
        "# p > S\nx\n#\nIts own page has no title.\n# r > S\ny"
    )
    assert render([bare, bare]) == f"{bare.body}\n{bare.body}"


def test_what_does_not_fit_is_passed_over() -> None:
    units = [unit("p", 5, "long " * 20), unit("p", 3, "two words"), unit("p", 9, "three more words", "T")]
    block = pack(units, 10, words)
    assert [item.pos for item in block.units] == [3] and block.text == "# p > S\ntwo words"
    assert [item.pos for item in pack(units, 14, words).units] == [3, 9]
    assert pack(units, 5, words) == NO_BLOCK and pack([], 9, words) == NO_BLOCK


def test_pages_come_in_rank_order_and_units_once() -> None:
    units = [unit("b", 2, "x"), unit("a", 7, "y"), unit("b", 1, "z"), unit("b", 2, "x")]
    block = pack(units, 99, words, page_ranks={"a": 0, "b": 1})
    assert [item.unit_id for item in block.units] == ["a:7", "b:1", "b:2"]
    assert [item.unit_id for item in pack(units, 99, words).units] == ["b:1", "b:2", "a:7"]


@settings(max_examples=50)
@given(
    st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 30), st.integers(0, 12)), max_size=12),
    st.integers(0, 40),
    st.booleans(),
)
def test_the_block_costs_what_it_says_and_no_more_than_it_may(
    rows: list[tuple[str, int, int]], budget: int, grouped: bool
) -> None:
    units = [unit(page, pos, f"w{pos} " * length, f"s{pos % 3}") for page, pos, length in rows]
    block = pack(units, budget, words, grouped=grouped)
    assert block.tokens == words(block.text) <= budget
    assert {item.unit_id for item in block.units} <= {item.unit_id for item in units}
    first = units[0] if units else None
    if first is not None and words(render([first], grouped=grouped)) <= budget:
        assert first.unit_id in {item.unit_id for item in block.units}
