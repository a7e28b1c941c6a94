"""Words are those that are seen: on what is cut off, what scrolls inside the page, and what lies in shadow roots."""

from collections.abc import Callable, Mapping
from pathlib import Path

import numpy as np
import pytest

from tilewright.configs.stage import run_stage
from tilewright.data_gen.images import decode_image
from tilewright.data_gen.records import Page, Tile, read_jsonl
from tilewright.data_gen.render_tiles import STAGE, Config
from tilewright.data_gen.tile_store import TileStore

pytestmark = pytest.mark.browser
STYLE = "<!doctype html><style>body{margin:0;font:14px/20px 'Liberation Sans',sans-serif}p{margin:0}</style>"
LINES = "".join(f"<p>line{number}</p>" for number in range(200))
DARK = 150  # of 255: black text has such a pixel in every word
PAGES = {
    "body_scrolls": "<style>html{overflow:hidden;height:100%}body{height:100%;overflow:auto}</style>" + LINES,
    "both_end": "<style>html,body{height:100%;overflow:hidden}</style>" + LINES,
    "body_is_fixed": "<style>html{overflow:hidden}body{position:fixed;inset:0;overflow:auto}</style>" + LINES,
    "cut_below": f"<div style='height:40px;overflow:hidden'>{LINES}</div><p>after</p>",
    "cut_aside": "<div style='width:60px;overflow-x:auto;white-space:nowrap'>seen <a href=/in>link</a> hidden away "
    "<a href=/out>farther</a></div>",
    "cut_in_cut": "<div style='height:30px;overflow:hidden'><div style='height:400px;overflow:auto'>"
    "<p>top</p><p style='margin-top:99px'>deep</p></div></div>",
    "escapes": "<div style='height:20px;overflow:hidden'>kept<p style='position:absolute;top:60px'>free</p></div>",
    "stays": "<div style='height:20px;overflow:hidden;position:relative'>kept"
    "<p style='position:absolute;top:60px'>gone</p></div>",
    "old_clip": "<p>kept <span style='position:absolute;clip:rect(1px 1px 1px 1px)'>gone</span>"
    "<span style='position:absolute;left:0;top:20px;width:200px;clip:rect(auto,60px,20px,auto)'>part <a href=/x>of"
    " it</a> is farther than that</span> <b style='clip:rect(0,0,0,0)'>static</b></p><p style='height:20px'></p>",
    "clip_path": "<p>kept <span style='position:absolute;clip-path:inset(50%)'>gone</span>"
    "<b style='clip-path:inset(100%)'><i style='position:relative'>gone</i></b>"
    " <b style='clip-path:inset(0 round 9px)'>round</b>"
    " <b style='clip-path:inset(0px -9px)'>wide</b></p>",
    "no_colour": "<p>kept <span style='color:transparent'>gone <b>gone</b></span>"
    " <s style='-webkit-text-fill-color:#0000'>gone</s>"
    " <b style='color:#0000;text-shadow:0 0 #000'>shadow</b>"
    " <b style='background:#000;-webkit-background-clip:text;color:transparent'>cut <i>out</i></b></p>",
    "shadow": "<div><template shadowrootmode=open><details><summary>sum</summary>opened</details>"
    "<p>in <a href=/s>root</a> <slot></slot></p></template>light</div><p>end</p>",
    "unslotted": "<div><template shadowrootmode=open><p>only</p></template>never</div>",
}


@pytest.fixture(scope="module")
def tiles(
    tmp_path_factory: pytest.TempPathFactory, write_pages: Callable[[Path, Mapping[str, str]], Path]
) -> dict[str, list[Tile]]:
    """Tiles by title; all pages are complete."""
    folder = tmp_path_factory.mktemp("shown")
    pages = write_pages(folder / "pages", {name: STYLE + html for name, html in PAGES.items()})
    run_stage(STAGE, Config(pages=pages, out=folder / "tiles", workers=2, max_tiles=None, max_tiles_per_page=None))
    found: dict[str, list[Tile]] = {}
    for tile in TileStore.open(folder / "tiles"):
        found.setdefault(tile.title, []).append(tile)
    assert {page.title for page in read_jsonl(folder / "tiles" / "pages.jsonl", Page)} == PAGES.keys()
    return found


@pytest.mark.parametrize("name", PAGES)
def test_every_word_lies_on_ink(tiles: dict[str, list[Tile]], name: str) -> None:
    for tile in tiles[name]:
        grey = np.asarray(decode_image(tile.image).convert("L"))
        for word in tile.words:
            left, top = max(0, int(word.x_px)), max(0, int(word.y_px))
            under = grey[top : int(word.y_px + word.height_px) + 1, left : int(word.x_px + word.width_px) + 1]
            assert under.size and under.min() < DARK, (name, tile.row, word)


@pytest.mark.parametrize("name", ["body_scrolls", "both_end", "body_is_fixed"])
def test_a_body_that_scrolls_instead_of_the_window_is_pictured_whole(tiles: dict[str, list[Tile]], name: str) -> None:
    words = [word.text for tile in tiles[name] for word in tile.words]
    assert words == [f"line{number}" for number in range(200)]
    assert sum(tile.height_px for tile in tiles[name]) == 200 * 20


def test_what_is_cut_off_is_no_text(tiles: dict[str, list[Tile]]) -> None:
    text = {name: "\n".join(tile.text for tile in parts).split() for name, parts in tiles.items()}
    assert text["cut_below"] == ["line0", "line1", "after"]
    assert sum(tile.height_px for tile in tiles["cut_below"]) == 60
    assert text["cut_aside"] == ["seen", "link"]
    assert [link.href for link in tiles["cut_aside"][0].links] == ["https://example.com/in"]
    assert text["cut_in_cut"] == ["top"]
    assert text["escapes"] == ["kept", "free"] and text["stays"] == ["kept"]


def test_text_that_is_hidden_from_the_eye_alone_is_no_text(tiles: dict[str, list[Tile]]) -> None:
    text = {name: "\n".join(tile.text for tile in parts).split() for name, parts in tiles.items()}
    assert text["old_clip"] == ["kept", "static", "part", "of", "it", "is"]  # in the order of the document
    assert text["clip_path"] == ["kept", "round", "wide"]
    assert text["no_colour"] == ["kept", "shadow", "cut", "out"]


def test_shadow_roots_are_read_where_they_are_shown(tiles: dict[str, list[Tile]]) -> None:
    (tile,) = tiles["shadow"]
    assert tile.text.split() == ["sum", "opened", "in", "root", "light", "end"]
    assert [link.href for link in tile.links] == ["https://example.com/s"]
    assert tiles["unslotted"][0].text == "only"
