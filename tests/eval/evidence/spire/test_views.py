"""Context, rendering, local walk and merged views: what they must say, and laws that hold for any page."""

import runpy
from pathlib import Path

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from tilewright.eval.bm25 import tokens
from tilewright.eval.evidence.long_units import rough_tokens
from tilewright.eval.evidence.spire.algebra import subdoc
from tilewright.eval.evidence.spire.context import with_context
from tilewright.eval.evidence.spire.document import Document, build_document
from tilewright.eval.evidence.spire.local_walk import local_view, walk_order
from tilewright.eval.evidence.spire.markdown import render
from tilewright.eval.evidence.spire.segmenters import Segmenter
from tilewright.eval.evidence.spire.views import Candidate, admit, seed_text, view_of

PAGES = runpy.run_path(str(Path(__file__).with_name("random_pages.py")))["PAGES"]
NUPUNKT = Segmenter("nupunkt")
COUNTS = [rough_tokens, lambda text: len(tokens(text)), len]
PAGE = """<title>Rivers</title><h1>Rivers of Europe</h1><p>Intro sentence. Another one.</p>
<h2>Long ones</h2><h3>East</h3>
<p>The Volga is long. It is wide.</p><h2>Facts</h2><p>The longest are:</p>
<ul><li>Volga<ul><li>in Russia</ul><li>Danube</ul>
<table><caption>Lengths</caption><tr><th colspan=2>All<th>End</tr><tr><th>River<th>Length<th>Mouth</tr>
<tr><th>Volga<td>3531<td rowspan=2>A sea</tr><tr><th>Danube<td>2850</tr>
<tr><td colspan=3><b>Short</b></td></tr><tr><th>Aare<td>288<td>Rhine</tr></table>
<table class=infobox><tr><th>Source<td>Lake</tr></table>"""


@pytest.fixture(scope="module")
def page() -> Document:
    return build_document(PAGE, NUPUNKT)


def text_of(document: Document, words: str, *, bare: bool = False) -> str:
    (number,) = [seed.number for seed in document.seeds if seed.text == words]
    return seed_text(document, number, bare=bare)


def test_a_sentence_has_title_and_active_headings(page: Document) -> None:
    head = "# Rivers\n# Rivers of Europe\n"
    assert text_of(page, "It is wide.") == head + "## Long ones\n### East\nIt is wide."
    assert text_of(page, "Intro sentence.") == head + "Intro sentence."
    assert text_of(page, "It is wide.", bare=True) == "It is wide."


def test_a_list_has_its_label_and_a_nested_one_its_item(page: Document) -> None:
    assert text_of(page, "in Russia").endswith("## Facts\nThe longest are:\n- Volga\n  - in Russia")


def test_a_cell_has_caption_headers_row_label_and_group(page: Document) -> None:
    lines = text_of(page, "288").splitlines()[3:]
    assert lines == ["Lengths", "| All |", "| River | Length |", "| Short |", "| Aare | 288 |"]
    assert "Short" not in text_of(page, "2850") and "| Danube | 2850 |" in text_of(page, "2850")
    assert "| Volga | A sea |" in text_of(page, "A sea") and "Mouth" in text_of(page, "A sea")
    assert text_of(page, "Lake").splitlines()[-1] == "| Source | Lake |"


def test_title_that_is_the_first_heading_is_shown_once() -> None:
    document = build_document("<title>Oslo</title><p>Before.</p><h1>OSLO</h1><p>A city.</p>", NUPUNKT)
    assert text_of(document, "A city.") == "# OSLO\nA city." and text_of(document, "Before.") == "Before.\n# OSLO"


def test_nested_cells_have_the_outer_headers() -> None:
    html = "<table><tr><th>City<th>Data<tr><th>Oslo<td>x<table><tr><th>Area<th>Year<tr><td>9<td>1624</table></table>"
    found = seed_text(document := build_document(html, NUPUNKT), document.seeds[-1].number)
    assert [line for line in found.splitlines() if "City" in line or "Oslo" in line] and "Year" in found
    assert "Data" in found and "Area" not in found


def test_walk_goes_from_block_to_table_to_section_to_page(page: Document) -> None:
    number = next(seed.number for seed in page.seeds if seed.text == "288")
    order = [page.seeds[other].text for other in walk_order(page, number)]
    row, table = (
        {"Aare", "Rhine"},
        {"Short", "Danube", "2850", "A sea", "Volga", "3531", "River", "Length", "Mouth", "All", "End"},
    )
    assert set(order[:2]) == row and table <= set(order[2:15]) | {"Volga"} and order[2] == "Short"
    assert order.index("The longest are:") < order.index("The Volga is long.")
    assert len(order) == len(page.seeds) - 1 == len(set(walk_order(page, number)))


def test_a_seed_over_the_budget_stands_alone(page: Document) -> None:
    view = local_view(page, 0, 1, rough_tokens)
    assert view.over_budget and view.view.seeds == {0}


def test_budget_is_kept_by_passing_over_or_by_ending(page: Document) -> None:
    candidates = [Candidate("p", seed.number) for seed in page.seeds]
    for misfit in ("skip", "stop"):
        for budget in (12, 20, 40):
            views = admit(candidates, lambda _: page, budget, rough_tokens, misfit=misfit)  # type: ignore[arg-type]
            assert sum(view.tokens for view in views.values()) <= budget
            for candidate in candidates if misfit == "skip" and views else ():
                more = view_of(page, views["p"].seeds | {candidate.seed}, rough_tokens)
                assert candidate.seed in views["p"].seeds or more.tokens > budget


@st.composite
def selections(draw: st.DrawFn) -> tuple[Document, frozenset[int], frozenset[int]]:
    document = build_document(draw(PAGES), NUPUNKT)
    assume(document.seeds)
    numbers = st.lists(st.integers(0, len(document.seeds) - 1), max_size=4)
    return document, frozenset(draw(numbers)), frozenset(draw(numbers))


@given(selections())
@settings(max_examples=40)
def test_laws_of_context_rendering_and_merging(case: tuple[Document, frozenset[int], frozenset[int]]) -> None:
    document, p, q = case
    leaves, others = document.leaves_of(p), document.leaves_of(q)
    once = with_context(document, leaves)
    assert leaves <= once == with_context(document, once)  # extensive, idempotent
    assert with_context(document, leaves | others) == once | with_context(document, others)
    for count in COUNTS:
        for bare in (False, True):
            one, other = (view_of(document, seeds, count, bare=bare).tokens for seeds in (p, q))
            joint = 1 if count is len else 0  # the line break between
            assert view_of(document, p | q, count, bare=bare).tokens <= one + other + joint
    pruned = subdoc(document.tree, document.paths_of(leaves))
    own = "".join(node.text for node in pruned.walk() if not node.tag) if pruned else ""
    assert "".join(own.split()) == "".join(document.leaves[leaf][0].text for leaf in sorted(leaves)).translate(
        {ord(char): None for char in " \n\t"}
    )
    assert _plain(render(document, leaves).split()) == _plain(_words(document, leaves))


def _plain(words: list[str]) -> list[str]:
    """Those of letters and digits; "; " between parts of a cell is none of their letters."""
    return [plain for word in words if (plain := word.strip(";")).isalnum()]


def _words(document: Document, leaves: frozenset[int]) -> list[str]:
    """Second way to the words shown: the seeds' own texts."""
    return [word for seed in document.seeds if set(seed.leaves) <= leaves for word in seed.text.split()]


@given(selections(), st.integers(1, 60), st.integers(0, 30))
@settings(max_examples=25)
def test_laws_of_the_local_walk(case: tuple[Document, frozenset[int], frozenset[int]], budget: int, more: int) -> None:
    document, _, _ = case
    seed = len(document.seeds) // 2
    view, wider = (local_view(document, seed, tokens, rough_tokens) for tokens in (budget, budget + more))
    assert seed in view.view.seeds <= wider.view.seeds
    assert view.over_budget or view.view.tokens <= budget
    assert view.over_budget == (view_of(document, [seed], rough_tokens).tokens > budget)
