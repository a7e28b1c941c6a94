"""Citations lead back: paths to the very text, a link that a browser follows to it, boxes where a tile shows it."""

from pathlib import Path
from typing import Any

import pytest
from tests.browsers import launch

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Tile, Word
from tilewright.eval.evidence.spire.citations import PageTiles, cite, fragment_url, resolve, shown_on
from tilewright.eval.evidence.spire.document import Document, build_document
from tilewright.eval.evidence.spire.segmenters import Segmenter

NUPUNKT = Segmenter("nupunkt")
SPACER = "<div style='height:3000px'></div>"
PAGE = f"""<h1>Top</h1>{SPACER}<p>Plain words, with-a dash &amp; more<sup class="reference">[1]</sup> go here.
It ends.</p>{SPACER}<p>It ends. A <b>bold</b> move.</p>{SPACER}<table><tr><th>Length<td>1965</table>{SPACER}"""
URL = "https://example.org/wiki/Top?x=1#old"


@pytest.fixture(scope="module")
def page() -> Document:
    return build_document(PAGE, NUPUNKT)


def tile(row: int, lines: list[str], page_id: str = "0" * 16) -> Tile:
    """A tile whose words stand 10 px apart, a line each 20 px, each line a block."""
    words = tuple(
        Word(word, 10.0 * place, 20.0 * number, 8.0, 12.0, number)
        for number, line in enumerate(lines)
        for place, word in enumerate(line.split())
    )
    text = "\n".join(lines)
    return Tile(f"{page_id}-{row:04d}-00", page_id, URL, "t", row, 0, 0, 0, 800, 600, b"", "", text, {}, words)


def test_paths_give_the_quotation_back(page: Document) -> None:
    for seed in page.seeds:
        citation = cite(page, seed.number, "p", URL)
        assert resolve(page, citation.document_id, citation.paths) == citation.quote == seed.text


def test_paths_of_another_state_are_refused(page: Document) -> None:
    other = build_document(PAGE + "<p>New.", NUPUNKT)
    citation = cite(page, 0, "p", URL)
    with pytest.raises(InputError, match="wanted paths of"):
        resolve(other, citation.document_id, citation.paths)
    with pytest.raises(InputError, match="no node"):
        resolve(page, page.document_id, [(0, 99)])


def test_fragments_are_encoded_and_replace_the_old_one(page: Document) -> None:
    urls = {seed.text: fragment_url(page, seed, URL) for seed in page.seeds}
    base = "https://example.org/wiki/Top?x=1#:~:text="
    assert urls["1965"] == base + "1965"
    assert urls["Plain words, with-a dash & more go here."] == (
        base + "Plain%20words%2C%20with%2Da%20dash%20%26%20more,go%20here."
    )
    twice = [fragment_url(page, seed, URL) for seed in page.seeds if seed.text == "It ends."]
    assert twice == [
        base + "with%2Da%20dash%20%26%20more%5B1%5D%20go%20here.-,It%20ends.",
        base + "It%20ends.,-A%20bold%20move.",
    ]


@pytest.mark.browser
def test_a_browser_goes_to_the_cited_words(page: Document, tmp_path: Path) -> None:
    playwright = pytest.importorskip("playwright.sync_api")
    (tmp_path / "page.html").write_text(f"<!doctype html><meta charset=utf-8>{PAGE}")
    places: list[Any] = []
    with playwright.sync_playwright() as browsers:
        browser = launch(browsers)
        for seed in page.seeds:
            shown = browser.new_page(viewport={"width": 800, "height": 600})
            shown.goto(fragment_url(page, seed, (tmp_path / "page.html").as_uri()))
            shown.wait_for_function("window.scrollY > 1000", timeout=60_000)
            places.append((shown.evaluate("Math.round(window.scrollY / 1000)"), seed.text))
        browser.close()
    assert [place for place, _ in places] == sorted(place for place, _ in places)
    assert {place for place, text in places if text == "It ends."} == {3, 6}
    assert {text for place, text in places if place > 7} == {"Length", "1965"}


def test_boxes_lie_around_the_words_of_the_right_row(page: Document) -> None:
    first = tile(0, ["Born 1965", "It ends. A bold move."])
    second = tile(1, ["Length 1965"])
    seeds = {seed.text: seed for seed in page.seeds}
    tiles = PageTiles([first, second])
    assert shown_on(page, seeds["1965"], tiles) == (second.tile_id, ((10.0, 0.0, 18.0, 12.0),))
    assert shown_on(page, seeds["A bold move."], tiles) == (first.tile_id, ((20.0, 20.0, 48.0, 32.0),))
    assert shown_on(page, seeds["A bold move."], PageTiles([second])) == ("", ())


def test_a_sentence_over_two_tiles_is_shown_where_it_begins() -> None:
    words = "one two three four five six seven eight nine ten."
    document = build_document(f"<p>{words}</p>", NUPUNKT)
    tiles = PageTiles([tile(0, ["one two three four five six"]), tile(1, ["seven eight nine ten."])])
    tile_id, boxes = shown_on(document, document.seeds[0], tiles)
    assert tile_id.endswith("0000-00") and boxes == ((0.0, 0.0, 48.0, 12.0),)
