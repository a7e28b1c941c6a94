"""Reading pages: the same from a seed, structure and text kept, nothing of outside; a browser shows them dense."""

import dataclasses
import gzip
import json
import re
from collections import Counter
from pathlib import Path
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen import render_tiles
from tilewright.data_gen.make_reading_pages import STAGE, Config
from tilewright.data_gen.reading_colours import contrast, near_panel, page_panel
from tilewright.data_gen.reading_documents import Node, body_markup, lines_of, pieces, read_blocks, stretch
from tilewright.data_gen.reading_style import VIEWPORT_PX, draw_style
from tilewright.data_gen.reading_text import ReadingText
from tilewright.data_gen.reading_words import ReadingWords, number, read_word_lists
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.urls import page_id

DOCUMENT = """<html><head><title>Guide &amp; notes {name}</title><style>p {{ color: red }}</style></head><body>
<div class="sphinxsidebar"><div>menu</div>left out</div><script>alert("no")</script>
<h1 style="color:red">The {name} guide<a class="headerlink" href="x">¶</a></h1>
<img src="https://elsewhere.example/picture.png"><div><p onclick="x()">{text}<p>Second <a href="https://elsewhere.example/">link</a>
and <tt>code &lt;b&gt;</tt>.</div><ul><li>one<li>two</ul>
<table><tr><th>Key<th>Value<tr><td>alpha<td>beta</table><pre>a  b
  c</pre>loose text</body></html>"""


@pytest.fixture(scope="module")
def sources(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("sources")
    (folder / "doc/deep").mkdir(parents=True)
    for at in range(4):
        text = f"Sentence of file{at}, which is long enough to be used. " * 60
        (folder / f"doc/deep/{at}.html").write_text(DOCUMENT.format(name=f"file{at}", text=text))
    (folder / "doc/other.html").write_text(f"<p>{'Слова и буквы. ' * 500}</p>", encoding="utf-8")
    (folder / "doc/short.htm").write_text("<p>Too short.</p>")
    (folder / "dict").mkdir()
    (folder / "dict/words").write_text("quartz\nvexing\nOslo\nquartz's\nfjord\n" + "x" * 40 + "\n")
    (folder / "dict/cities.gz").write_bytes(gzip.compress("12:São Paulo:BR\n".encode()))
    return folder


def config(out: Path, sources: Path | None) -> Config:
    return Config(out=out, seed=5, documentation_pages=6, generated_pages=5, path=sources, words=("dict/*",))


@pytest.fixture(scope="module")
def made(sources: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("made") / "pages"
    run_stage(STAGE, config(out, sources))
    return out


def html_of(folder: Path) -> dict[str, str]:
    """{URL's last two parts: document}."""
    pages = read_jsonl(folder / "pages.jsonl", Page)
    return {"/".join(page.url.split("/")[-2:]): (folder / page.html_path).read_text("utf-8") for page in pages}


def test_the_same_seed_gives_the_same_bytes_and_another_seed_other_pages(
    made: Path, sources: Path, tmp_path: Path
) -> None:
    again = run_stage(STAGE, config(tmp_path / "again", sources))
    assert again["outputs"] == json.loads((made / "manifest.json").read_text())["outputs"]
    other = run_stage(STAGE, dataclasses.replace(config(tmp_path / "other", sources), seed=6))
    assert not set(again["outputs"]) & set(other["outputs"]) - {"pages.jsonl"}
    counts = again["counts"]
    assert counts["passed_over_short"] >= 1 and counts["passed_over_other_scripts"] >= 1
    assert (counts["pages"], counts["words"], counts["names"]) == (11, 3, 4)


def test_more_pages_leave_the_others_as_they_are(made: Path, sources: Path, tmp_path: Path) -> None:
    more = dataclasses.replace(config(tmp_path / "more", sources), documentation_pages=9, generated_pages=8)
    run_stage(STAGE, more)
    fewer, all_pages = html_of(made), html_of(tmp_path / "more")
    assert len(all_pages) == 17 and all(all_pages[name] == html for name, html in fewer.items())
    pages = read_jsonl(made / "pages.jsonl", Page)
    assert [page.page_id for page in pages] == sorted(page_id(page.url) for page in pages)


def test_nothing_is_asked_for_from_outside(made: Path) -> None:
    for html in html_of(made).values():
        head, _, body = html.partition("<body>")
        assert not re.search(r"<(script|img|link|iframe|object|svg|style)|\son\w+=|javascript:", body)
        assert (
            set(re.findall(r'(?:href|src)="([^"]*)"', html)) <= {"#"} and "url(" not in head and "@import" not in head
        )


def test_documents_keep_structure_and_text_and_lose_the_rest() -> None:
    blocks = read_blocks(DOCUMENT.format(name="N", text="First."))
    assert [block.tag for block in blocks] == ["h1", "p", "p", "ul", "table", "pre", "p"]
    html = body_markup(blocks, Random(1), 100)
    assert "<h1>The N guide</h1>" in html and "<p>First.</p>" in html and "<p>loose text</p>" in html
    assert '<a href="#">link</a> and <code>code &lt;b&gt;</code>.' in html
    assert "<ul><li>one</li>\n<li>two</li>\n</ul>" in html and "<pre>a  b\n  c</pre>" in html
    assert "<tr><th>Key</th>\n<th>Value</th>\n</tr>\n<tr><td>alpha</td>\n<td>beta</td>" in html
    assert "left out" not in html and "menu" not in html and "¶" not in html and "alert" not in html


NAMES = "p ul li table tr td b a div pre h2 dl dt dd br script nav img span"
TAGS = st.sampled_from(NAMES.split())
PART = st.one_of(
    TAGS.map("<{}>".format), TAGS.map("</{}>".format), st.sampled_from(("<b class='related'>", "&lt;x", "</", "<![x"))
) | st.text("ab <&>", max_size=6)


@settings(max_examples=150, deadline=None)
@given(st.lists(PART, max_size=25).map("".join))
def test_any_markup_becomes_balanced_markup_that_reads_back_the_same(text: str) -> None:
    try:
        blocks = read_blocks(text)
    except AssertionError:  # html.parser on <![x
        return
    html = body_markup(blocks, Random(0), 100)
    opened: list[str] = []
    for end, tag in re.findall(r"<(/?)(\w+)[^>]*>", html):
        if end:
            assert opened.pop() == tag
        elif tag != "br":
            opened.append(tag)
    assert not opened
    words = [word for block in read_blocks(html) for word in block.text().split()]
    assert "".join(words) == "".join("".join(block.text().split()) for block in blocks)


@given(st.lists(st.integers(1, 60), min_size=1, max_size=40), st.integers(0, 9))
def test_a_stretch_is_consecutive_and_about_as_high_as_wanted(lengths: list[int], seed: int) -> None:
    blocks = [Node("p", [f"{at} " + "x" * 10 * length]) for at, length in enumerate(lengths)]
    chosen = stretch(blocks, 100, 20, Random(seed))
    heights = [lines_of(block, 100) for block in chosen]
    start = blocks.index(chosen[0])
    assert chosen == blocks[start : start + len(chosen)]
    assert sum(heights[:-1]) < 20 and (sum(heights) >= 20 or sum(lines_of(block, 100) for block in blocks) < 20)


def test_pieces_of_a_long_list_are_small_and_hold_it_all() -> None:
    block = Node("ul", [Node("li", [f"item {at}"]) for at in range(50)])
    parts = list(pieces(block, 100, 10))
    assert len(parts) > 3 and all(lines_of(part, 100) <= 12 and part.tag == "ul" for part in parts)
    assert [child for part in parts for child in part.children] == block.children
    code = Node("pre", ["\n".join(f"line {at}" for at in range(50))])
    assert "\n".join(part.text() for part in pieces(code, 100, 10)) == code.text()


def test_contrast_is_that_of_wcag_and_panels_keep_it() -> None:
    assert contrast("#000000", "#ffffff") == pytest.approx(21) and contrast("#777777", "#777777") == 1
    assert contrast("#777777", "#ffffff") == pytest.approx(4.48, abs=0.01) == contrast("#ffffff", "#777777")
    random = Random(2)
    least = []
    for _ in range(300):
        page = page_panel(random)
        for panel in (page, near_panel(random, page)):
            least.append(min(contrast(panel.background, panel.text), contrast(panel.background, panel.link)))
    assert min(least) >= 3.2 and sum(ratio >= 4.5 for ratio in least) > 0.8 * len(least)


def test_styles_vary_within_bounds() -> None:
    styles = [draw_style(Random(seed), {"serif": 1.0, "Roboto": 1.0}) for seed in range(400)]
    sizes = Counter(style.body_px for style in styles)
    assert min(sizes) == 12 and max(sizes) == 28 and sum(sizes[px] for px in range(14, 19)) > 0.55 * len(styles)
    assert len({style.css for style in styles}) == len(styles)
    assert all(style.css.count("{") == style.css.count("}") for style in styles)
    assert all(0 < style.line_characters * style.body_px * 0.47 <= VIEWPORT_PX + style.body_px for style in styles)


def test_words_are_those_of_the_lists_and_every_printable_character_occurs(sources: Path) -> None:
    words = read_word_lists(sources, ("dict/*",))
    assert (words.words, words.names) == (("fjord", "quartz", "vexing"), ("BR", "Oslo", "Paulo", "São"))
    random = Random(3)
    tokens = [words.token(random) for _ in range(60_000)]
    assert all(token == token.strip() and token for token in tokens)
    seen = Counter("".join(tokens))
    assert {chr(code) for code in range(33, 127)} <= seen.keys()
    assert 0 < sum(count for char, count in seen.items() if char > "~") < 0.02 * seen.total()
    with pytest.raises(InputError, match="'nothing/\\*': wanted word lists"):
        read_word_lists(sources, ("nothing/*",))


def test_numbers_look_as_their_kind() -> None:
    random = Random(4)
    shapes = {
        "year": r"\d{4}",
        "thousands": r"\d{1,3}(,\d{3})+",
        "percentage": r"\d+\.\d+%",
        "isbn": r"97[89]-\d-\d{3}-\d{5}-[\dX]",
        "clock": r"\d{1,2}:\d\d",
        "ordinal": r"\d*(1st|2nd|3rd|[04-9]th)|1[123]th",
        "roman": r"[XLC]*[IVX]+",
        "version": r"\d+\.\d+\.\d+",
    }
    for kind, shape in shapes.items():
        for _ in range(50):
            assert re.fullmatch(shape, number(kind, random))


def test_without_sources_words_are_invented_and_markup_is_escaped() -> None:
    text = ReadingText(ReadingWords((), ()), Random(5))
    sentences = [text.sentence() for _ in range(300)]
    plain = re.sub(r"</?(?:a href=\"#\"|a|b|i|code|small|sub|sup)>", "", " ".join(sentences))
    assert "<" not in plain and ">" not in plain and "&lt;" in plain


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"path": None}, "path: wanted the folder"),
        ({"documentation_pages": -1}, "documentation_pages.*wanted"),
        ({"documentation_pages": 0, "generated_pages": 0}, "at least 1 page, found 0"),
        ({"fonts": {"serif": 0.0}}, "fonts: wanted families"),
    ],
)
def test_a_wrong_config_is_refused(change: dict[str, object], message: str, sources: Path, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(config(tmp_path / "out", sources), **change)  # type: ignore[arg-type]


def test_a_folder_without_a_document_that_serves_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty/short.html").write_text("<p>short</p>")
    wrong = dataclasses.replace(config(tmp_path / "out", tmp_path / "empty"), words=())
    with pytest.raises(InputError, match=r"found none that serves in 1 HTML files.*passed_over_short"):
        run_stage(STAGE, wrong)


@pytest.mark.browser
def test_a_browser_shows_the_pages_dense_and_in_one_column(made: Path, tmp_path: Path) -> None:
    rendering = render_tiles.Config(out=tmp_path / "tiles", max_tiles=None, max_tiles_per_page=None, pages=made)
    counts = run_stage(render_tiles.STAGE, dataclasses.replace(rendering, workers=1))["counts"]
    assert (counts["pages_complete"], counts["requests_refused"], counts["failed"]) == (11, 0, 0)
    pages = read_jsonl(tmp_path / "tiles/pages.jsonl", Page)
    assert {page.width_px for page in pages} == {VIEWPORT_PX}
    assert all(300 < page.height_px < 6 * 1024 for page in pages)
    letters = [len(tile.text) for tile in TileStore.open(tmp_path / "tiles").iterate_light() if tile.height_px == 1024]
    assert min(letters) > 300 and sum(letters) / len(letters) > 1200
