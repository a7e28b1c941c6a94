"""XHTML keeps its text when an HTML parser reads it: empty elements end, CDATA is text."""

import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from selectolax.lexbor import LexborHTMLParser

from tilewright.data_gen.sources.html_folder import HtmlFolder
from tilewright.data_gen.sources.xhtml import html_of_xhtml

BODY = "<p>Moss is <a id='x'/>green.</p>"
PAGE = f"""<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/>
<script src="a.js"/><link rel="stylesheet" href="a.css"/></head><body>{BODY}<p>And <br/>wet.</p></body></html>"""


def shown(html: str) -> tuple[str, list[str]]:
    """The text of the body, and what stands in anchors."""
    body = LexborHTMLParser(html).body
    assert body is not None
    return " ".join((body.text() or "").split()), [node.text() for node in body.css("a")]


def test_what_an_html_parser_loses_is_kept() -> None:
    assert shown(PAGE) == ("", [])
    assert shown(html_of_xhtml(PAGE)) == ("Moss is green.And wet.", [""])
    assert html_of_xhtml(PAGE).startswith("<!DOCTYPE html>")  # an XML parser knows no quirks


@pytest.mark.parametrize(
    ("xhtml", "html"),
    [
        ("<textarea rows='2' />x", "<textarea rows='2' ></textarea>x"),
        ('<a title="1 > 0/" id="b"/>', '<a title="1 > 0/" id="b"></a>'),
        ("<br/><hr /><img src='a/'/>", "<br/><hr /><img src='a/'/>"),
        ("<svg><path d='M0'/></svg>", "<svg><path d='M0'></path></svg>"),
        ("<!-- <p/> --><p/>", "<!-- <p/> --><p></p>"),
        ("<pre><![CDATA[a < b && <i/>]]></pre>", "<pre>a &lt; b &amp;&amp; &lt;i/&gt;</pre>"),
        (
            "<script>//<![CDATA[\nif (a<b/>c) {}//]]></script><p/>",
            "<script>//<![CDATA[\nif (a<b/>c) {}//]]></script><p></p>",
        ),
        ("<style/><p>1 / > 2</p>", "<style></style><p>1 / > 2</p>"),
        ("<scripture/>", "<scripture></scripture>"),
    ],
)
def test_pieces(xhtml: str, html: str) -> None:
    assert html_of_xhtml(f"<!DOCTYPE html>{xhtml}") == f"<!DOCTYPE html>{html}"


@given(st.text(alphabet="<>/!-[]CDATA'\" ap=?", max_size=60))
def test_any_text_is_read_and_ends_elements_once(text: str) -> None:
    once = html_of_xhtml(text)
    assert "<!DOCTYPE" in once or "<!doctype" in once.lower()


@pytest.mark.parametrize("piece", ["<a ", "<a '", "<!--", "<![CDATA[", "<script>", "<a b='", "<a/", "<a \"'"])
def test_hostile_text_takes_time_by_its_length_only(piece: str) -> None:
    started = time.process_time()
    html_of_xhtml(piece * (1_000_000 // len(piece)))
    assert time.process_time() - started < 5


def test_sources_give_it_as_html(tmp_path: Path) -> None:
    (tmp_path / "a.xhtml").write_text(PAGE)
    (tmp_path / "a.css").write_text("p{}")
    source = HtmlFolder(tmp_path, "https://docs.example.com/")
    (entry,) = source.entries({})  # type: ignore[arg-type]
    ((url, raw),) = source.documents({entry.url})
    document = source.convert(url, raw)
    assert document.data is not None and shown(document.data.decode("utf-8-sig"))[0] == "Moss is green.And wet."
    assert [resource.url for resource in document.resources] == ["https://docs.example.com/a.css"]
