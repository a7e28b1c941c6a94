"""render_tiles with ``characters: true`` in a real Chromium: places in closed form, cuts, what is seen, resuming."""

import dataclasses
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.characters import Characters, CharacterTable, text_of
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import Page, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.render_tiles import STAGE, Config
from tilewright.data_gen.tile_store import TileStore

WritePages = Callable[[Path, Mapping[str, str]], Path]
pytestmark = pytest.mark.browser
ADVANCE_PX = 20 * 1229 / 2048  # of Liberation Mono at 20 px: its `hmtx` table
LINE_PX, BOX_PX = 32, 23  # ascent 1705 and descent 615 of 2048 per em, each rounded: 17 + 6
LEFT_PX = 7
STEP = 1 / 32  # boxes are whole 1/64 px, their edges rounded outwards
STYLE = (
    f"<!doctype html><meta charset=utf-8><style>body{{margin:0 0 0 {LEFT_PX}px;"
    f"font:20px/{LINE_PX}px 'Liberation Mono'}}"
    "p{margin:0;white-space:pre}</style>"
)
LINES = ("The quick brown fox", "  jumps (over) 12 lazy dogs;", "über Ελλάδα Привет")
PAGES = {
    "mono": STYLE + "".join(f"<p>{line}</p>" for line in LINES),
    "ink": STYLE + "<p>H o T</p><p style='padding-left:301.5px'>x O</p><p>I<b>H</b>I</p>",
    "inline": STYLE + "<p>a H<sub>2</sub>O<i>!</i> <span>b</span></p>",
    "wrapped": STYLE + "<p style='white-space:normal;width:76px'>a well-known</p>",
    "hidden": STYLE + "<p>seen <span style='visibility:hidden'>ghost</span><span style='display:none'>gone</span>"
    "<span style='opacity:0'>clear</span></p><p style='width:54px;overflow:hidden'>abcdefg hijk</p>",
    "emoji": STYLE + "<p>a🙂b 👩‍👩‍👧 e\u0301e\u0302\u0301x \u200ec</p>",
    "transformed": STYLE + "<p style='text-transform:uppercase'>straße e\u0301</p><p style='text-transform:capitalize'>"
    "don't e-mail a<b>b</b></p><p style='text-transform:lowercase'>LOUD</p>",
    "prose": "<!doctype html><style>body{font:15px/1.4 'Liberation Serif'}</style><h1>Office <i>finals</i></h1>"
    + "<p>AVATAR, To Wa. <b>fi</b>fl <a href=x>a link</a> &amp; “quotes” – 日本語の文章 3²</p>" * 60,
    "nothing": "<!doctype html><body style='margin:0'><div style='height:50px;background:red'></div>",
}


def make_config(pages: Path, out: Path, **options: Any) -> Config:
    chosen: dict[str, Any] = {"workers": 2, "max_tiles": None, "max_tiles_per_page": None, "characters": True}
    return Config(pages=pages, out=out, **(chosen | options))


class Rendered:
    """A finished render: counts, store, and (tile, characters) by title in order."""

    def __init__(self, config: Config) -> None:
        self.counts = run_stage(STAGE, config)["counts"]
        self.store = TileStore.open(config.out)
        self.table = CharacterTable.open(config.out, self.store)
        self.tiles: dict[str, list[tuple[Tile, Characters]]] = {}
        for tile in self.store:
            self.tiles.setdefault(tile.title, []).append((tile, self.table.of(tile.tile_id)))

    def one(self, title: str) -> Characters:
        """Of a page with one tile."""
        ((_, characters),) = self.tiles[title]
        return characters


@pytest.fixture(scope="module")
def rendered(tmp_path_factory: pytest.TempPathFactory, write_pages: WritePages) -> Rendered:
    folder = tmp_path_factory.mktemp("characters")
    return Rendered(make_config(write_pages(folder / "pages", PAGES), folder / "tiles"))


def words(characters: Characters) -> list[str]:
    return [text for text, _ in characters.words()]


def test_a_monospace_font_in_closed_form(rendered: Rendered) -> None:
    found = rendered.one("mono")
    wanted = [
        (one, LEFT_PX + (column + 0.5) * ADVANCE_PX, row * LINE_PX + (LINE_PX - BOX_PX) // 2 + BOX_PX / 2, start)
        for row, line in enumerate(LINES)
        for column, one in enumerate(line)
        for start in [column == 0 or line[column - 1] == " "]
        if one != " "
    ]
    assert text_of(found.codes) == "".join(one for one, *_ in wanted)
    assert np.abs(found.centres_px[:, 0] - [x for _, x, _, _ in wanted]).max() <= STEP
    assert np.abs(found.centres_px[:, 1] - [y for _, _, y, _ in wanted]).max() <= STEP
    assert set(found.heights_px.tolist()) == {float(BOX_PX)}
    assert found.starts.tolist() == found.firsts.tolist() == [start for *_, start in wanted]


def test_ink_lies_around_the_centres(rendered: Rendered) -> None:
    """A second measure, of the picture: these letters are symmetrical, so their ink's middle is their centre."""
    ((tile, found),) = rendered.tiles["ink"]
    ink = 255 - np.asarray(rendered.store.image(tile.tile_id).convert("L"), dtype=float)
    assert text_of(found.codes) == "HoTxOIHI"
    for (x, y), height in zip(found.centres_px, found.heights_px, strict=True):
        left, top = round(x - ADVANCE_PX / 2), round(y - height / 2)
        columns = ink[top : top + BOX_PX, left : left + 12].sum(axis=0)
        assert columns.sum() > 255
        assert left + (columns * (np.arange(12) + 0.5)).sum() / columns.sum() == pytest.approx(float(x), abs=0.75)


def test_words_across_elements(rendered: Rendered) -> None:
    found = rendered.one("inline")
    assert words(found) == ["a", "H2O!", "b"]
    assert found.starts.tolist() == [True, True, False, False, False, True]
    (_, h), (_, two), (_, o) = found.centres_px[1:4].tolist()
    assert two > h == o and found.heights_px[2] < found.heights_px[1]


def test_a_wrapped_word_goes_on_in_the_next_line(rendered: Rendered) -> None:
    found = rendered.one("wrapped")
    assert words(found) == ["a", "well-known"]
    assert found.starts.tolist() == [True, True] + [False] * 9
    rows = found.centres_px[:, 1] - found.centres_px[0, 1]
    assert rows.tolist() == [0.0] + [32.0] * 5 + [64.0] * 5  # a / well- / known
    assert found.centres_px[6, 0] == pytest.approx(LEFT_PX + ADVANCE_PX / 2, abs=STEP)


def test_what_is_not_seen_has_no_characters(rendered: Rendered) -> None:
    found = rendered.one("hidden")
    assert words(found) == ["seen", "abcd"]  # the fifth letter's centre is at 54 px, in a box 54 px wide: cut off
    assert rendered.one("nothing").words() == []


def test_code_points_without_a_box_of_their_own(rendered: Rendered) -> None:
    found = rendered.one("emoji")
    assert words(found) == ["a🙂b", "👩", "é\u1ebfx", "c"]
    assert found.starts.tolist() == [True, False, False, True, True, False, False, True]
    assert found.codes[1] == 0x1F642


def test_characters_are_what_is_drawn(rendered: Rendered) -> None:
    found = rendered.one("transformed")
    assert words(found) == ["STRASSE", "É", "Don't", "E-Mail", "Ab", "loud"]
    first = LEFT_PX + (np.arange(7) + 0.5) * ADVANCE_PX
    assert np.abs(found.centres_px[:7, 0] - first).max() <= STEP


def test_characters_are_those_of_the_words(rendered: Rendered) -> None:
    for title in ("mono", "ink", "inline", "wrapped", "prose"):
        tiles = rendered.tiles[title]
        text = "".join(word.text for tile, _ in tiles for word in tile.words)
        assert sorted("".join(text_of(found.codes) for _, found in tiles)) == sorted(text)
    assert len(rendered.tiles["prose"]) > 1
    for tile, found in rendered.tiles["prose"]:  # each word's box is that of its characters
        assert words(found) == [word.text for word in tile.words]
        for word, (_, part) in zip(tile.words, found.words(), strict=True):
            x, y = found.centres_px[part].T
            assert np.all((x > word.x_px) & (x < word.x_px + word.width_px) & (np.diff(x, prepend=-1) > 0))
            assert np.all((y > word.y_px) & (y < word.y_px + word.height_px))
    assert rendered.counts["characters"] == sum(len(found) for tiles in rendered.tiles.values() for _, found in tiles)


def test_a_word_on_the_cut_between_two_tiles(tmp_path: Path, write_pages: WritePages) -> None:
    pages = write_pages(tmp_path / "pages", {"cut": STYLE + "<p>ab cdefghij</p><p>k</p>"})
    sizes = {"viewport_width_px": 200, "tile_width_px": 64, "tile_height_px": 40, "min_tile_px": 16}
    found = Rendered(make_config(pages, tmp_path / "tiles", **sizes)).tiles["cut"]
    parts = {(tile.row, tile.column): characters for tile, characters in found}
    assert {place: words(part) for place, part in parts.items() if len(part)} == {
        (0, 0): ["ab", "cd"],
        (0, 1): ["efghi"],
        (0, 2): ["j"],
        (1, 0): ["k"],  # whose box begins 4 px above the edge
    }
    assert parts[0, 0].starts.tolist() == [True, False, True, False]
    assert not parts[0, 1].starts.any() and parts[0, 1].firsts.tolist() == [True] + [False] * 4
    for column, places in ((0, [0, 1, 3, 4]), (1, [5, 6, 7, 8, 9]), (2, [10])):
        x = LEFT_PX + (np.array(places) + 0.5) * ADVANCE_PX - 64 * column
        assert np.abs(parts[0, column].centres_px[:, 0] - x).max() <= STEP
    assert parts[1, 0].centres_px[0].tolist() == pytest.approx([LEFT_PX + ADVANCE_PX / 2, 47.5 - 40], abs=STEP)
    owners = [tile.column for tile, _ in found if any(word.text == "cdefghij" for word in tile.words)]
    assert owners == [1]  # the store's own words go whole to the tile of their middle


def test_the_store_is_the_same_with_and_without(tmp_path: Path, write_pages: WritePages) -> None:
    pages = write_pages(tmp_path / "pages", {title: PAGES[title] for title in ("inline", "prose")})
    with_them = run_stage(STAGE, make_config(pages, tmp_path / "with"))
    without = run_stage(STAGE, make_config(pages, tmp_path / "without", characters=False))
    outputs = {name: digest for name, digest in with_them["outputs"].items() if not name.startswith("characters/")}
    assert outputs == without["outputs"] and len(with_them["outputs"]) == len(outputs) + 6
    assert {key: value for key, value in with_them["counts"].items() if key != "characters"} == without["counts"]


def test_samples_and_shards_have_the_characters_of_their_tiles(
    tmp_path: Path, rendered: Rendered, write_pages: WritePages
) -> None:
    titles = ("mono", "prose", "nothing", "hidden")
    pages = write_pages(tmp_path / "pages", {title: PAGES[title] for title in titles})
    sample = make_config(pages, tmp_path / "sample", max_tiles=4)
    shards = [make_config(pages, tmp_path / f"shard{number}", shard=f"{number}/2") for number in (0, 1)]
    seen = 0
    for config in (sample, *shards):
        made = Rendered(config)
        for tile_id in made.store.tile_ids:
            one, other = vars(made.table.of(tile_id)), vars(rendered.table.of(tile_id))
            assert all(np.array_equal(one[name], other[name]) for name in one)
        seen += len(made.store) if config is not sample else 0
        assert config is not sample or len(made.store) == 4
    assert seen == sum(len(rendered.tiles[title]) for title in titles)


def test_failed_pages_have_none(tmp_path: Path, write_pages: WritePages) -> None:
    pages = write_pages(tmp_path / "pages", {"good": PAGES["mono"], "bad": "x", "high": PAGES["prose"]})
    (bad,) = (page for page in read_jsonl(pages / "pages.jsonl", Page) if page.title == "bad")
    (pages / bad.html_path).unlink()
    made = Rendered(make_config(pages, tmp_path / "tiles", max_error_share=1.0, max_page_height_px=1000))
    assert made.counts["failed"] == 2 and set(made.tiles) == {"good"}
    assert made.counts["characters"] == len(made.one("good")) > 0


def test_pages_that_are_not_html_are_refused(tmp_path: Path, write_pages: WritePages) -> None:
    pages = write_pages(tmp_path / "pages", {"a": "x", "b": "y"})
    first, second = read_jsonl(pages / "pages.jsonl", Page)
    write_jsonl(pages / "pages.jsonl", [first, dataclasses.replace(second, html_path="documents/b.pdf")])
    with pytest.raises(
        InputError, match=r"characters: wanted pages of HTML only, found 1 PDFs or pictures \(first: .*/b"
    ):
        run_stage(STAGE, make_config(pages, tmp_path / "tiles"))


def test_half_surrogate_pairs_of_scripts_break_nothing(tmp_path: Path, write_pages: WritePages) -> None:
    script = r"document.getElementById('p').append('a\ud800b \ud83d', document.createTextNode('\ude00d'))"
    pages = write_pages(
        tmp_path / "pages", {"half": STYLE + f"<p id=p title='\\ud800'>x </p><script>{script}</script>"}
    )
    found = Rendered(make_config(pages, tmp_path / "tiles", profile=Profile(javascript=True))).tiles["half"]
    ((tile, characters),) = found
    assert tile.text == "x a\ufffdb 😀d"
    assert words(characters)[:2] == ["x", "a\ufffdb"] and text_of(characters.codes)[-1] == "d"
    plain = run_stage(STAGE, make_config(pages, tmp_path / "plain", characters=False, profile=Profile(javascript=True)))
    assert plain["counts"]["pages"] == 1


def test_kill_and_resume_gives_the_same_bytes(
    tmp_path: Path, kill_once_journalled: Callable[[list[str], Path, int], None], write_pages: WritePages
) -> None:
    write_pages(tmp_path / "pages", {str(number): PAGES["prose"] + "<p>x🙂y</p>" * 30 * number for number in range(8)})
    yaml = tmp_path / "run.yaml"
    settings = "workers: 2\nmax_tiles: null\nmax_tiles_per_page: null\ncharacters: true\n"
    yaml.write_text(f"kind: stage\npages: pages\nout: killed\n{settings}")
    kill_once_journalled(["tilewright.data_gen.render_tiles", str(yaml)], tmp_path / "killed", 2)
    work = tmp_path / "killed.partial" / ".work"
    journal = tmp_path / "killed.partial" / ".journal.jsonl"
    assert 2 <= journal.read_bytes().count(b"\n") < 8 and len(list(work.glob("*.characters.npz"))) >= 2
    (work / "0123456789abcdef.characters.npz.tmp").write_bytes(b"half a page")
    (tmp_path / "killed.partial" / "characters").mkdir()  # as a kill while pages are joined leaves it
    (tmp_path / "killed.partial" / "characters" / "codes.npy").write_bytes(b"half a table" * 10_000)
    run_stage(STAGE, load(yaml, Config))
    run_stage(STAGE, make_config(tmp_path / "pages", tmp_path / "whole", workers=1))
    assert output_digests(tmp_path / "killed") == output_digests(tmp_path / "whole")
    files = {path.name for path in (tmp_path / "killed" / "characters").iterdir()}
    assert files == {"about.json", "offsets.npy", "codes.npy", "centres.npy", "heights.npy", "flags.npy"}
