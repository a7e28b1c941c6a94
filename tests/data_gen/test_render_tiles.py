"""render_tiles in a real Chromium: bad pages, text and boxes, refusals, crashes, kill and resume."""

import asyncio
import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from tests.data_gen.rendered_pages import ODD_TITLES, PAGES, STYLE, TABLES, Rendered, make_config, png

from tilewright.data_gen.browser import Browser
from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.render_page import choose_tiles
from tilewright.data_gen.render_tiles import tile_shares
from tilewright.data_gen.site import FolderSite
from tilewright.data_gen.tiles import TileBox, tile_boxes, tile_id
from tilewright.data_gen.urls import page_id

WritePages = Callable[[Path, Mapping[str, str]], Path]
pytestmark = pytest.mark.browser


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory, write_pages: WritePages) -> Rendered:
    folder = tmp_path_factory.mktemp("render")
    (folder / "outside.png").write_bytes(png("red", (9, 9)))
    pages = write_pages(folder / "pages", PAGES | {"tables": TABLES})
    return Rendered(make_config(pages, folder / "tiles"))


def test_counts_and_what_has_no_height(rendered: Rendered) -> None:
    dropped = {"zero_height", "no_body", "empty", "frameset"} - rendered.pages.keys()
    assert {"zero_height", "no_body", "empty"} <= dropped
    assert rendered.counts["dropped_zero_height"] == len(dropped)
    assert rendered.counts["failed"] == 0
    assert rendered.counts["pages"] == len(PAGES) + 1 - len(dropped) == rendered.counts["pages_complete"] + 1
    assert rendered.counts["pages_with_clipped_parts"] == 1  # inner_scroll
    assert rendered.counts["tiles"] == rendered.counts["tiles_of_whole_corpus"] == len(rendered.store)
    assert rendered.counts["pages_whose_height_changed"] == 0


def test_tiles_cover_their_page_and_match_their_records(rendered: Rendered) -> None:
    for title, page in rendered.pages.items():
        boxes = tile_boxes(page.width_px, page.height_px)
        tiles = rendered.tiles[title]
        assert [(t.row, t.column, t.x_px, t.y_px, t.width_px, t.height_px) for t in tiles] == [
            dataclasses.astuple(box) for box in boxes
        ]
        assert page.tile_count == len(tiles) and page.complete == (title != "inner_scroll")
        for tile in tiles:
            image = rendered.store.image(tile.tile_id)
            assert image.size == (tile.width_px, tile.height_px)
            assert tile.image_sha256 == image_sha256(image)
            assert tile.tile_id == tile_id(page.page_id, tile.row, tile.column)
            assert (tile.url, tile.page_id) == (page.url, page.page_id)


def test_text_words_and_links(rendered: Rendered) -> None:
    (tile,) = rendered.tiles["text"]
    assert tile.text == "Head\nOne bold H2O the link"
    assert [word.text for word in tile.words] == ["Head", "One", "bold", "H2O", "the", "link"]
    assert [block.kind for block in tile.blocks] == ["heading", "paragraph"]
    assert tile.blocks[1].section == "Head" and tile.blocks[1].whole
    (link,) = tile.links
    assert (link.href, link.anchor) == ("https://example.com/up?q=1#f", "the link")
    image = rendered.store.image(tile.tile_id).convert("L")
    for word in tile.words:  # ink lies where the boxes say
        box = (word.x_px, word.y_px, word.x_px + word.width_px, word.y_px + word.height_px)
        assert image.crop(tuple(round(edge) for edge in box)).getextrema()[0] < 128


def test_image_only_page_has_empty_text(rendered: Rendered) -> None:
    (tile,) = rendered.tiles["image_only"]
    assert (tile.text, tile.words, tile.blocks) == ("", (), ())
    assert (tile.width_px, tile.height_px) == (875, 40)
    assert rendered.store.image(tile.tile_id).getpixel((10, 10)) == (255, 0, 0)


def test_a_page_that_is_only_a_drawing_keeps_its_height(rendered: Rendered) -> None:
    (tile,) = rendered.tiles["drawing"]
    assert (tile.text, tile.height_px) == ("", 700)


def test_html_without_a_body(rendered: Rendered) -> None:
    (tile,) = rendered.tiles["bare_text"]
    assert tile.text == "just words, no markup"
    assert tile.height_px < 64


def test_nothing_leaves_the_machine_or_the_folder(rendered: Rendered) -> None:
    assert rendered.tiles["remote"][0].text == "still here"
    assert rendered.counts["requests_refused"] >= 6


def test_scripts_do_not_run(rendered: Rendered) -> None:
    assert "before" in rendered.tiles["script"][0].text and "after" not in rendered.tiles["script"][0].text


def test_hidden_text_is_not_text(rendered: Rendered) -> None:
    assert rendered.tiles["hidden"][0].text == "seen"


def test_wide_pages_lose_no_column(rendered: Rendered) -> None:
    assert rendered.pages["wide"].width_px == 1200
    assert [tile.width_px for tile in rendered.tiles["wide"]] == [875, 325]
    row = np.asarray(rendered.picture("wide"))[150, :, 0].astype(float)
    assert np.abs(row - 255 * (1 - (np.arange(1200) + 0.5) / 1200)).max() < 2  # the gradient, dithered
    assert rendered.tiles["wide"][1].words == ()
    assert [tile.width_px for tile in rendered.tiles["barely_wide"]] == [900]
    assert rendered.picture("barely_wide").getpixel((899, 50)) == (0, 255, 0)


def test_a_short_rest_joins_the_tile_above(rendered: Rendered) -> None:
    assert [tile.height_px for tile in rendered.tiles["tail"]] == [1024, 1051]
    column = np.asarray(rendered.picture("tail"))[:, 5, 2].astype(float)
    assert np.abs(column - 255 * (np.arange(2075) + 0.5) / 2075).max() < 2


def test_what_is_fixed_to_the_window_shows_once(rendered: Rendered) -> None:
    green = [
        tile.row for tile in rendered.tiles["fixed"] if rendered.store.image(tile.tile_id).getpixel((5, 5))[0] == 0
    ]
    assert green == [0]
    assert rendered.tiles["fixed"][-1].text == "end"


def test_window_units_keep_their_size(rendered: Rendered) -> None:
    assert rendered.pages["viewport_units"].height_px == 1044


def test_lazy_images_are_there(rendered: Rendered) -> None:
    assert rendered.pages["lazy"].height_px == 6040
    assert rendered.picture("lazy").getpixel((10, 6020)) == (255, 0, 0)


def test_scrolling_styles_do_not_shift_pictures(rendered: Rendered) -> None:
    assert [tile.text for tile in rendered.tiles["smooth"] if tile.text] == ["a", "z"]
    last = rendered.tiles["smooth"][-1]
    assert rendered.store.image(last.tile_id).convert("L").getextrema()[0] < 128
    assert rendered.tiles["inner_scroll"][0].text == "inside"


def test_right_to_left(rendered: Rendered) -> None:
    assert "".join(tile.text for tile in rendered.tiles["rtl"]) == "שלום עולם 🙂 مرحبا\nרחב"
    assert rendered.pages["rtl"].width_px == 2000
    row = np.asarray(rendered.picture("rtl"))[39, :, 0].astype(float)
    assert np.abs(row - 255 * (1 - (np.arange(2000) + 0.5) / 2000)).max() < 2


def test_pages_longer_than_a_texture(rendered: Rendered) -> None:
    assert rendered.pages["long"].height_px == 20_000
    tiles = rendered.tiles["long"]
    assert len(tiles) == len(tile_boxes(875, 20_000))
    rows = [line for tile in tiles for line in tile.text.split("\n")]
    assert rows == [f"row {number}" for number in range(1000)]
    picture = rendered.picture("long").convert("L")
    for number in (0, 51, 819, 999):  # 819: beyond 16,384 px
        assert picture.crop((0, 20 * number, 60, 20 * number + 20)).getextrema()[0] < 128


def test_tiles_together_are_a_single_capture(tmp_path: Path, rendered: Rendered, write_pages: WritePages) -> None:
    names = ("text", "wide", "tail", "fixed", "lazy", "tables")
    pages = write_pages(tmp_path / "pages", {name: (PAGES | {"tables": TABLES})[name] for name in names})

    async def whole() -> dict[str, Image.Image]:
        found = {}
        async with Browser(FolderSite(pages), (875, 1024)) as browser:
            for page in read_jsonl(pages / "pages.jsonl", Page):
                size = rendered.pages[page.title]
                box = TileBox(0, 0, 0, 0, size.width_px, size.height_px)
                async with browser.open(page, Profile(), 60) as opened:
                    found[page.title] = Image.fromarray((await opened.capture(box, by_scrolling=False)).pixels())
        return found

    for title, picture in asyncio.run(whole()).items():
        assert picture.tobytes() == rendered.picture(title).tobytes(), title


def test_lines_of_a_script_without_blanks_are_words_at_their_places(tmp_path: Path, write_pages: WritePages) -> None:
    text = "日本語の文章" * 3000
    found = Rendered(
        make_config(write_pages(tmp_path / "pages", {"cjk": STYLE + f"<p>{text}</p>"}), tmp_path / "tiles")
    )
    tiles = found.tiles["cjk"]
    assert "".join(word.text for tile in tiles for word in tile.words) == text
    assert len(tiles) > 1 and all(tile.words for tile in tiles)
    for tile in tiles:
        rows = [word.y_px for word in tile.words]
        assert rows == sorted(rows) and len(set(rows)) == len(rows)
        assert all(word.y_px + word.height_px / 2 < tile.height_px and word.width_px < 876 for word in tile.words)


def test_table_rows_know_their_labels(rendered: Rendered) -> None:
    blocks = {block.text: block for block in rendered.tiles["tables"][0].blocks}
    assert blocks["Ada"].kind == "heading"
    born = blocks["Born 10 December 1815 London"]
    assert (born.kind, born.cells, born.caption) == ("infobox_row", ("Born", "10 December 1815 London"), "Ada")
    assert blocks["Cap"].kind == "caption"
    first = blocks["1999 3 1"]
    assert (first.kind, first.cells, first.labels) == (
        "table_row",
        ("1999", "3", "1"),
        ("Year", "Score Home", "Score Away"),
    )
    second = blocks["7 5 five"]
    assert (second.cells, second.labels) == (("7", "5 five"), ("Score Home", "Score Away"))
    assert (second.caption, second.section) == ("Cap", "Sec tion")
    assert blocks["Year Score"].labels == ("", "")
    assert blocks["first"].kind == blocks["inner"].kind == "list_item"
    assert blocks["In x=2 math"].kind == "paragraph"


def test_evidence_has_all_kinds(rendered: Rendered) -> None:
    evidence = rendered.tiles["tables"][0].evidence_px
    assert all(evidence[kind] > 0 for kind in ("infobox", "table", "list", "paragraph"))
    assert sum(evidence.values()) <= 875 * 1024


def test_shares_and_choices_are_digests_not_positions() -> None:
    ids = [page_id(f"https://example.com/{number}") for number in range(10)]
    shares = tile_shares(ids, 25, None, 0)
    assert sum(share or 0 for share in shares.values()) == 25 and set(shares.values()) == {2, 3}
    assert tile_shares(ids[::-1], 25, None, 0) == shares
    assert set(tile_shares(ids, None, None, 0).values()) == {None}
    assert set(tile_shares(ids, 100, 4, 0).values()) == {4}
    assert sorted(share or 0 for share in tile_shares(ids, 3, None, 0).values()) == [0] * 7 + [1] * 3
    boxes = tile_boxes(875, 20_000)
    chosen = choose_tiles(boxes, ids[0], 5, 0)
    assert len(chosen) == 5 and chosen[0] == boxes[0] and chosen == sorted(chosen, key=lambda box: box.row)
    assert choose_tiles(boxes, ids[0], 5, 1) != chosen != choose_tiles(boxes, ids[1], 5, 0)
    assert set(chosen) < set(choose_tiles(boxes, ids[0], 6, 0))
    assert choose_tiles(boxes, ids[0], None, 0) == choose_tiles(boxes, ids[0], 99, 0) == boxes
    assert choose_tiles(boxes, ids[0], 0, 0) == []


def test_sampled_pages_are_not_complete_and_equal_the_whole(
    tmp_path: Path, rendered: Rendered, write_pages: WritePages
) -> None:
    names = ("long", "text", "wide")
    pages = write_pages(tmp_path / "pages", {name: PAGES[name] for name in names})
    sample = Rendered(make_config(pages, tmp_path / "tiles", max_tiles=9))
    assert {name: sample.pages[name].tile_count for name in names} == {"long": 3, "text": 1, "wide": 2}
    assert [sample.pages[name].complete for name in names] == [False, True, True]
    assert sample.counts["tiles_of_whole_corpus"] == 23
    assert sample.tiles["long"][0].row == 0
    assert sample.counts["dropped_no_share_of_max_tiles"] == 0
    for tile in sample.store:
        assert tile == rendered.store.get(tile.tile_id)


def test_pages_without_a_share_are_counted(tmp_path: Path, write_pages: WritePages) -> None:
    pages = write_pages(tmp_path / "pages", dict.fromkeys("abc", PAGES["text"]) | {"d": PAGES["zero_height"]})
    sample = Rendered(make_config(pages, tmp_path / "tiles", max_tiles=1))
    assert sample.counts["tiles_of_whole_corpus"] == 3
    assert sample.counts["pages"] == sample.counts["tiles"] == len(sample.pages)
    assert sample.counts["pages"] + sample.counts["dropped_no_share_of_max_tiles"] == 3
    assert sample.counts["dropped_no_share_of_max_tiles"] >= 2 and sample.counts["dropped_zero_height"] == 1


def test_odd_titles_stay_text(rendered: Rendered) -> None:
    for title in ODD_TITLES:
        assert [tile.text for tile in rendered.tiles[title]] == ["Head\nOne bold H2O the link"]
