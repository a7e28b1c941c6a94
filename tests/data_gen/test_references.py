"""What a page asks for: every way of naming a picture, stylesheet or font, and nothing else."""

import time
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.sources.references import MAX_CSS_DEPTH, collect, css_references, css_urls, html_references
from tilewright.data_gen.sources.source import Resource

PAGE = "https://h.example/dir/page.html"


def asked(html: str, **options: bool) -> list[str]:
    return [url.removeprefix("https://h.example/dir/") for url in html_references(html, PAGE, **options)]


@pytest.mark.parametrize(
    ("html", "wanted"),
    [
        ("<img src=a.png>", ["a.png"]),
        ("<img data-src=a.png data-original=b.png data-lazy-src=c.png>", ["a.png", "b.png", "c.png"]),
        ("<img srcset='a.png, b.png 2x,c.png 100w , d,e.png 3x'>", ["a.png", "b.png", "c.png", "d,e.png"]),
        ("<img srcset='a.png (x,y), b.png'>", ["a.png", "b.png"]),
        ("<picture><source srcset=a.webp><img src=a.png></picture>", ["a.png", "a.webp"]),
        ("<input type=image src=a.png><input type=text src=b.png>", ["a.png"]),
        ("<video poster=a.png src=b.mp4></video><audio src=c.mp3></audio>", ["a.png"]),
        ("<object data=a.svg></object><embed src=b.svg>", ["a.svg", "b.svg"]),
        ("<svg><image href=a.png /><image xlink:href=b.png /><use href='c.svg#x'/></svg>", ["a.png", "b.png", "c.svg"]),
        ("<table background=a.png>", ["a.png"]),
        ("<link rel='stylesheet alternate' href=a.css><link rel=STYLESHEET href=b.css>", ["a.css", "b.css"]),
        ("<link rel=preload as=font href=a.woff2><link rel=preload as=script href=b.js>", ["a.woff2"]),
        ("<link rel=icon href=a.ico><link rel=canonical href=b><link rel=next href=c>", []),
        ("<style>p{background:url('a.png')}</style><p style='background:url(b.png)'>", ["a.png", "b.png"]),
        ("<noscript><img src=a.png></noscript>", ["a.png"]),
        ("<a href=a.png></a><iframe src=b.html></iframe><form action=c></form>", []),
        ("<img src><img src=''><img src='#x'><img src=page.html#x>", []),
        ("<img src=data:image/png;base64,AA==><img src='javascript:x'><img src='http://[bad'>", []),
        ("<img src='ä b.png?q=ü#f'>", ["%C3%A4%20b.png?q=%C3%BC"]),
        ("<!-- <img src=a.png> --><script>'<img src=b.png>'</script><textarea><img src=c.png></textarea>", []),
        ("<img src=a.png><IMG SRC=a.png>", ["a.png"]),
        ("<base href=sub/><img src=a.png><base href=other/>", ["sub/a.png"]),
        ("<base href='javascript:x'><img src=a.png>", ["a.png"]),
    ],
)
def test_html(html: str, wanted: list[str]) -> None:
    assert asked(html) == wanted


def test_scripts_only_if_wanted() -> None:
    assert asked("<script src=a.js></script>") == [] and asked("<script src=a.js></script>", scripts=True) == ["a.js"]


@pytest.mark.parametrize(
    ("css", "wanted"),
    [
        ("@import 'a.css'; @import url(b.css); @import url('c.css') screen;", ["a.css", "b.css", "c.css"]),
        ('p { background: URL( a.png ) , url("b.png") }', ["a.png", "b.png"]),
        ("@font-face { src: url(a.woff2) format('woff2'), local('b') }", ["a.woff2"]),
        ("p { background: image-set('a.png' 1x, url(b.png) 2x) }", ["a.png", "b.png"]),
        ("@media print { @supports (x: y) { p { content: url(a.png) } } }", ["a.png"]),
        ("/* url(a.png) */ p { content: 'url(b.png)' } @charset 'c'; @namespace 'd';", []),
        ("p { background: url(a\\20 b.png) }", ["a%20b.png"]),
        ("p { background: url(data:image/png;base64,AA) } @import '';", []),
        ("p { background: url(a.png", ["a.png"]),
        ("@import 'a.css", ["a.css"]),
        ("p { width: " + "9" * 5000 + "px; background: url(a.png) }", ["a.png"]),  # more digits than Python reads
    ],
)
def test_css(css: str, wanted: list[str]) -> None:
    assert [url.removeprefix("https://h.example/dir/") for url in css_references(css, PAGE)] == wanted


@given(st.text(alphabet="url()'\"@import;{}[]/*\\ \n<>img src=et,x2", max_size=200))
def test_any_text_is_read(text: str) -> None:
    css_urls(text)
    html_references(text, PAGE)


@pytest.mark.parametrize("text", ["(" * 200_000, "url(" * 100_000, "a{" * 100_000 + "url(x)"])
def test_brackets_without_end(text: str) -> None:
    css_urls(f"url(a.png) {text}")


@pytest.mark.parametrize(
    "text", ["<img srcset='" + "a" * 2_000_000 + " b c'>", "<img srcset='" + "a,(" * 300_000 + "'>", "<b>" * 100_000]
)
def test_hostile_html_takes_time_by_its_length_only(text: str) -> None:
    started = time.monotonic()
    html_references(text, PAGE)
    assert time.monotonic() - started < 10


def library(files: dict[str, tuple[str, bytes]], moved: dict[str, str]) -> object:
    def load(url: str) -> tuple[Resource, str] | None:
        origin = moved.get(url, url)
        return (Resource(url, *files[origin]), origin) if origin in files else None

    return load


def test_stylesheets_are_followed_and_holes_counted() -> None:
    css = {f"https://h.example/{depth}.css": ("text/css", b"@import '%d.css';" % (depth + 1)) for depth in range(20)}
    counts: Counter[str] = Counter()
    urls = ["https://h.example/0.css", "https://h.example/none.png"]
    found = [resource.url for resource in collect(urls, library(css, {}), counts)]  # type: ignore[arg-type]
    assert found == [f"https://h.example/{depth}.css" for depth in range(MAX_CSS_DEPTH + 1)]
    assert counts == {"resources_missing": 1}


def test_stylesheets_that_import_each_other_end() -> None:
    files = {
        "https://h.example/a.css": ("text/css", b"@import 'b.css'"),
        "https://h.example/b.css": ("text/css", b"@import 'a.css'"),
    }
    found = collect(["https://h.example/a.css"], library(files, {}), Counter())  # type: ignore[arg-type]
    assert [resource.url for resource in found] == ["https://h.example/a.css", "https://h.example/b.css"]


def test_a_redirected_stylesheet_names_files_beside_its_real_place() -> None:
    """The browser, handed the file for the address it asked, will ask for files beside that one."""
    files = {
        "https://cdn.example/v2/s.css": ("text/css", b"p { background: url(p.png) }"),
        "https://cdn.example/v2/p.png": ("image/png", b"p"),
    }
    moved = {"https://h.example/s.css": "https://cdn.example/v2/s.css"}
    found = list(collect(["https://h.example/s.css"], library(files, moved), Counter()))  # type: ignore[arg-type]
    assert [(resource.url, resource.data) for resource in found][1:] == [("https://h.example/p.png", b"p")]
