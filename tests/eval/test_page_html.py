"""Pieces of HTML: sections, tables with their header rows, what a text was taken from."""

import pytest

from tilewright.eval.page_html import LOOKUP_CHARACTERS, ContentBlocks, dom_chunks

TABLE = (
    "<table><tr><th>Year</th><th>Town</th></tr>"
    + "".join(f"<tr><td>{year}</td><td colspan=1 style='x'>Town {year}</td></tr>" for year in range(1700, 1706))
    + "</table>"
)
PAGE = (
    "<html><head><style>p {}</style></head><body><nav>Menu</nav><h1>Title</h1><p onclick='x()'>Intro <b>bold</b>.</p>"
    f"<h2>First</h2><p>Prose of the first section.</p>{TABLE}<h2>Second</h2><div><div><p>Deep &lt;b&gt;</p></div>"
    "Loose text</div><ol class=references><li>Ref</li></ol><script>alert(1)</script></body></html>"
)


def lookup(html: str, text: str) -> str | None:
    return ContentBlocks.of(html).lookup(text)


def words(text: str) -> int:
    return len(text.split())


def test_headings_begin_chunks_and_noise_is_gone() -> None:
    chunks = dom_chunks(PAGE, 1000, words)
    assert [chunk.text.splitlines()[0] for chunk in chunks] == ["Title", "First", "Second"]
    text = "\n".join(chunk.text for chunk in chunks)
    html = "\n".join(chunk.html for chunk in chunks)
    for noise in ("Menu", "Ref", "alert", "p {}", "onclick", "style="):
        assert noise not in text + html, noise
    assert "Deep <b>" in text and "Deep &lt;b&gt;" in html and "Loose text" in text
    assert 'colspan="1"' in html


def test_a_long_table_is_cut_between_rows_under_its_header() -> None:
    chunks = dom_chunks(TABLE, 14, words)
    assert len(chunks) > 1
    for chunk in chunks:
        assert chunk.text.splitlines()[0] == "Year | Town" and words(chunk.text) <= 14
        assert chunk.html.startswith("<table><tr>") and chunk.html.count("<th>Year</th>") == 1
    rows = [line for chunk in chunks for line in chunk.text.splitlines()[1:]]
    assert rows == [f"{year} | Town {year}" for year in range(1700, 1706)]


def test_a_long_paragraph_is_cut() -> None:
    chunks = dom_chunks("<p>" + "Word and word. " * 20 + "</p>", 6, words)
    assert all(words(chunk.text) <= 6 for chunk in chunks)
    assert "".join(chunk.text for chunk in chunks).count("word") == 20


def test_nested_tables_do_not_lend_their_rows() -> None:
    inner = "<table><tr><td>inner</td></tr></table>"
    (chunk,) = dom_chunks(f"<table><tr><td>outer {inner}</td></tr><tr><td>last</td></tr></table>", 99, words)
    assert chunk.text.splitlines() == ["outer inner", "last"]


@pytest.mark.parametrize("html", ["", "<html></html>", "<p> </p>", "<table></table>"])
def test_pages_without_text_give_none(html: str) -> None:
    assert dom_chunks(html, 5, words) == [] and lookup(html, "some text") is None


def test_lookup_gives_the_span_of_matching_children() -> None:
    text = "Title\nIntro bold.\nProse of the first section."
    found = lookup(PAGE, text)
    assert found is not None and found.startswith("<p>Intro") and found.endswith("section.</p>")
    assert "<h2>First</h2>" in found and "Second" not in found and "onclick" not in found


def test_lookup_gives_up_where_nothing_fits_and_is_cut() -> None:
    assert lookup(PAGE, "Title\nno such line anywhere") is None
    assert lookup(PAGE, "abc") is None, "keys below four characters say nothing"
    assert lookup(PAGE, "Head\nLoose text deep\n" + "no such thing " * 30 + "\nProse of the first section.") is None
    long = "<p>" + "word " * 10_000 + "</p><p>the end of it</p>"
    found = lookup(f"<body>{long}</body>", "head\nthe end of it\n" + "word " * 10_000)
    assert found is not None and len(found) == LOOKUP_CHARACTERS
