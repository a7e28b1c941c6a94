"""Cutting a page's DOM layer to tiles: pure, on hand-made layers."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.dom_layer import DomLayer
from tilewright.data_gen.tiles import TileBox, tile_boxes

URL = "https://example.com/dir/page.html"


def layer(**parts: object) -> DomLayer:
    empty = {"infobox": [], "table": [], "list": [], "paragraph": []}
    data = {"width_px": 100, "height_px": 200, "words": [], "blocks": [], "links": [], "bases": []}
    data |= {"has_fixed_parts": False, "areas": empty} | parts
    return DomLayer(data, URL)  # type: ignore[arg-type]


def block(kind: str, box: list[float] | None, labels: list[str] | None = None) -> dict[str, object]:
    return {"kind": kind, "labels": labels or [], "caption": "C", "section": "S", "box": box}


TOP, BOTTOM = TileBox(0, 0, 0, 0, 100, 100), TileBox(1, 0, 0, 100, 100, 100)


def test_words_go_to_the_tile_of_their_centre_and_blocks_are_cut_there() -> None:
    words = [
        ["One", 0, 80, 10, 10, 0, -1],
        ["split", 12, 96, 10, 10, 0, -1],  # centre at 101
        ["next", 0, 120, 10, 10, 0, -1],
        ["Own", 0, 150, 10, 10, 1, -1],
    ]
    page = layer(words=words, blocks=[block("paragraph", [0, 70, 100, 70]), block("paragraph", None)])
    top, bottom = page.cut(TOP), page.cut(BOTTOM)
    assert (top.text, bottom.text) == ("One", "split next\nOwn")
    assert [word.block for word in bottom.words] == [0, 0, 1]
    assert (bottom.words[0].x_px, bottom.words[0].y_px) == (12, -4)
    first = top.blocks[0]
    assert (first.whole, first.y_px, first.height_px, first.section, first.caption) == (False, 70, 30, "S", "C")
    assert [piece.whole for piece in bottom.blocks] == [False, True]
    assert (bottom.blocks[1].y_px, bottom.blocks[1].height_px) == (50, 10)


def test_cells_hold_the_words_of_the_tile_only() -> None:
    words = [["a", 0, 90, 5, 5, 0, 0], ["b", 50, 90, 5, 5, 0, 1], ["c", 50, 105, 5, 5, 0, 1]]
    page = layer(words=words, blocks=[block("table_row", [0, 85, 100, 30], ["", "Head"])])
    assert page.cut(TOP).blocks[0].cells == ("a", "b")
    assert page.cut(BOTTOM).blocks[0].cells == ("", "c")
    assert page.cut(BOTTOM).blocks[0].labels == ("", "Head")


def test_links_are_absolute_and_belong_to_the_tiles_that_show_them() -> None:
    links = [
        ["../other.html#x", "up", [[0, 95, 20, 4], [0, 105, 10, 4]]],
        ["javascript:alert(1)", "no", [[0, 0, 5, 5]]],
        ["http://[broken", "no", [[0, 0, 5, 5]]],
        ["//host/x", "host", [[0, 10, 5, 5]]],
    ]
    page = layer(links=links)
    assert [(link.href, link.y_px, link.width_px) for link in page.cut(TOP).links] == [
        ("https://example.com/other.html", 95, 20),
        ("https://host/x", 10, 5),
    ] or [link.href for link in page.cut(TOP).links] == ["https://example.com/other.html#x", "https://host/x"]
    assert [(link.anchor, link.y_px) for link in page.cut(BOTTOM).links] == [("up", 5)]


def test_the_pages_own_base_leads_its_links() -> None:
    links = [["x", "a", [[0, 0, 5, 5]]]]
    assert layer(links=links, bases=["/root/", "/other/"]).cut(TOP).links[0].href == "https://example.com/root/x"
    assert layer(links=links, bases=["javascript:1"]).cut(TOP).links[0].href == "https://example.com/dir/x"


RECT = st.tuples(st.integers(-20, 110), st.integers(-20, 210), st.integers(0, 90), st.integers(0, 90)).map(list)


@given(st.fixed_dictionaries({kind: st.lists(RECT, max_size=3) for kind in ("infobox", "table", "list", "paragraph")}))
def test_evidence_by_counting_pixels(areas: dict[str, list[list[int]]]) -> None:
    """A second formula: each pixel belongs to the first kind, in order of rank, that covers it."""
    page = layer(areas=areas)
    for tile in tile_boxes(100, 200, 60, 90, 16):
        ys, xs = np.mgrid[tile.y_px : tile.y_px + tile.height_px, tile.x_px : tile.x_px + tile.width_px]
        free = np.ones(ys.shape, dtype=bool)
        for kind in ("infobox", "table", "list", "paragraph"):
            covered = np.zeros_like(free)
            for x, y, width, height in areas[kind]:
                covered |= (xs >= x) & (xs < x + width) & (ys >= y) & (ys < y + height)
            assert page.cut(tile).evidence_px[kind] == int((covered & free).sum())
            free &= ~covered


@given(st.lists(st.tuples(st.floats(0, 99), st.floats(0, 199)), max_size=20))
def test_every_word_on_exactly_one_tile(places: list[tuple[float, float]]) -> None:
    words = [[str(i), x, y, 0.5, 0.5, 0, -1] for i, (x, y) in enumerate(places)]
    page = layer(words=words, blocks=[block("paragraph", None)])
    found = [word.text for tile in tile_boxes(100, 200, 60, 90, 16) for word in page.cut(tile).words]
    assert sorted(found) == sorted(word[0] for word in words)


def test_empty_layer() -> None:
    content = layer().cut(TOP)
    assert (content.text, content.words, content.blocks, content.links) == ("", (), (), ())
    assert content.evidence_px == {"infobox": 0, "table": 0, "list": 0, "paragraph": 0}


def test_has_fixed_parts() -> None:
    assert not layer().has_fixed_parts
    assert layer(has_fixed_parts=True).has_fixed_parts
    with pytest.raises(KeyError):
        DomLayer({"width_px": 1, "height_px": 1}, URL)
