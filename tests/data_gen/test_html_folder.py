"""Folders of HTML files: encodings, addresses, assets, and what is asked of their URLs."""

import os
from collections import Counter
from hashlib import sha256
from pathlib import Path

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.sources.html_folder import HtmlFolder
from tilewright.data_gen.sources.source import MAX_FILE_BYTES, Document

BASE = "https://docs.example.com/"


def test_addresses_by_path_and_by_canonical_link(tmp_path: Path) -> None:
    (tmp_path / "sub dir").mkdir()
    (tmp_path / "sub dir" / "ä?#.html").write_text("<title> A\n title </title>")
    (tmp_path / "b.htm").write_text('<link REL="Canonical" href="/real#x"><h1>Head<i>ing</i></h1>')
    (tmp_path / "c.html").write_text("no markup")
    (tmp_path / "style.css").write_text("p { color: red }")
    entries = {entry.place: (entry.url, entry.title) for entry in HtmlFolder(tmp_path, BASE).entries(Counter())}
    assert entries == {
        "sub dir/ä?#.html": ("https://docs.example.com/sub dir/ä%3F%23.html", "A title"),
        "b.htm": ("https://docs.example.com/real", "Heading"),
        "c.html": ("https://docs.example.com/c.html", "c"),
    }


@pytest.mark.parametrize("base", ["https://d.example/docs", "https://d.example/docs/"])
def test_the_base_is_a_folder_with_or_without_its_slash(tmp_path: Path, base: str) -> None:
    (tmp_path / "a.html").write_text("x")
    (tmp_path / "b.html").write_text("<link rel=canonical href=c.html>")
    urls = [entry.url for entry in HtmlFolder(tmp_path, base).entries(Counter())]
    assert urls == ["https://d.example/docs/a.html", "https://d.example/docs/c.html"]


def test_no_address_says_what_to_do(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text("<p>x")
    with pytest.raises(InputError, match=r"a\.html: wanted <link rel=canonical .* or base_url"):
        list(HtmlFolder(tmp_path, None).entries(Counter()))
    with pytest.raises(InputError, match="no such folder"):
        HtmlFolder(tmp_path / "a.html", BASE)


def test_empty_files_are_counted(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text(" \n")
    skipped: Counter[str] = Counter()
    assert list(HtmlFolder(tmp_path, BASE).entries(skipped)) == []
    assert skipped == {"empty_files": 1}


def convert(folder: Path, name: str, base_url: str | None = BASE) -> Document:
    """The page of the file ``name`` below ``folder``."""
    source = HtmlFolder(folder, base_url)
    url = next(entry.url for entry in source.entries(Counter()) if entry.place == name)
    ((found, raw),) = source.documents({url})
    assert found == url
    return source.convert(url, raw)


def resources(document: Document) -> dict[str, tuple[str, bytes]]:
    return {resource.url: (resource.media_type, resource.data) for resource in document.resources}


def test_a_page_is_utf8_with_the_digest_of_its_own_bytes(tmp_path: Path) -> None:
    data = "<meta charset=latin-1><p>Größe €".encode("cp1252")
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.html").write_bytes(data)
    document = convert(tmp_path, "sub/a.html")
    assert document.data == "\ufeff<meta charset=latin-1><p>Größe €".encode()  # the BOM outranks the <meta>
    assert (document.suffix, document.fetched) == (".html", "")
    assert document.document_url == "https://docs.example.com/sub/a.html"
    assert document.content_sha256 == sha256(data).hexdigest()


@pytest.mark.parametrize("base", [BASE, None])
def test_a_page_has_the_files_it_asks_for_and_no_others(tmp_path: Path, base: str | None) -> None:
    root = base or "https://pages.invalid/"
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.html").write_text(
        "<link rel=canonical href=https://elsewhere.example/a><link rel=stylesheet href='../s.css?v=1#x'>"
        "<img src='%C3%A4%20b.png'><a href=b.html>page</a><iframe src=b.html></iframe><img src=https://far.example/c.png>"
    )
    (tmp_path / "sub" / "b.html").write_text("<link rel=canonical href=https://elsewhere.example/b>")
    (tmp_path / "sub" / "ä b.png").write_bytes(b"picture")
    (tmp_path / "s.css").write_text("@import 'deep/t.css'; p { background: url(sub/none.png) }")
    (tmp_path / "deep").mkdir()
    (tmp_path / "deep" / "t.css").write_text("@font-face { font-family: f; src: url(f.woff2) } /* url(unasked.png) */")
    (tmp_path / "deep" / "f.woff2").write_bytes(b"font")
    (tmp_path / "deep" / "unasked.png").write_bytes(b"unasked")
    found = resources(convert(tmp_path, "sub/a.html", base))
    assert {url.removeprefix(root): data for url, (_, data) in found.items()} == {
        "s.css?v=1": (tmp_path / "s.css").read_bytes(),
        "sub/%C3%A4%20b.png": b"picture",
        "deep/t.css": (tmp_path / "deep" / "t.css").read_bytes(),
        "deep/f.woff2": b"font",
    }
    assert found[f"{root}s.css?v=1"][0] == "text/css" and found[f"{root}deep/f.woff2"][0] == "font/woff2"


def test_odd_characters_in_names_titles_and_links(tmp_path: Path) -> None:
    (tmp_path / "a\nb\x01.html").write_text("<p>x")
    (tmp_path / "c.html").write_text(
        "<title>One\x00\x1b\n two&#10;&lt;b></title><link rel=canonical href='/d\x01 e\n'>"
    )
    Path(os.fsdecode(os.fsencode(tmp_path) + b"/z\xff.html")).write_text("<p>x")
    entries = [(entry.url, entry.title) for entry in HtmlFolder(tmp_path, BASE).entries(Counter())]
    assert entries == [
        ("https://docs.example.com/a%0Ab%01.html", "a b"),
        ("https://docs.example.com/d%01 e", "One two <b>"),
        ("https://docs.example.com/z%FF.html", "z\ufffd"),
    ]


def test_files_that_are_too_large_are_named(tmp_path: Path) -> None:
    with (tmp_path / "a.html").open("wb") as file:
        file.write(b"<title>Large</title>")
        file.truncate(MAX_FILE_BYTES + 1)
    with pytest.raises(ItemError, match="larger than 67108864 bytes"):
        convert(tmp_path, "a.html")
    (tmp_path / "a.html").write_text("<img src=b.png><img src=c.png>")
    for name, size in (("b.png", MAX_FILE_BYTES), ("c.png", MAX_FILE_BYTES + 1)):
        with (tmp_path / name).open("wb") as file:
            file.truncate(size)
    document = convert(tmp_path, "a.html")
    assert [resource.url.rpartition("/")[2] for resource in document.resources] == ["b.png"]
    assert document.counts == {"resources_missing": 1}


def test_binary_junk_is_an_item_error(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(b"\0\1\2\0\0")
    source = HtmlFolder(tmp_path, BASE)
    ((url, document),) = source.documents({"https://docs.example.com/a.html"})
    with pytest.raises(ItemError, match="NUL"):
        source.convert(url, document)


@pytest.mark.parametrize(
    "reference",
    [
        "link.txt",
        "ring.png",
        "../secret.txt",
        "%2e%2e/secret.txt",
        "..%2Fsecret.txt",
        "folder/../../secret.txt",
        "%2Fetc%2Fpasswd",
        "/etc/passwd",
        "file:///etc/passwd",
        "dot.png%00",
        "other.html",
        "folder",
        "x" * 5000,
    ],
)
def test_nothing_from_outside_the_folder_and_no_other_page(tmp_path: Path, reference: str) -> None:
    corpus, secret = tmp_path / "corpus", tmp_path / "secret.txt"
    (corpus / "folder").mkdir(parents=True)
    (corpus / "a.html").write_text(f"<img src='{reference}'><img src=dot.png>")
    (corpus / "other.html").write_text("another page")
    (corpus / "dot.png").write_bytes(b"png")
    secret.write_text("secret")
    (corpus / "link.txt").symlink_to(secret)
    (corpus / "ring.png").symlink_to(corpus / "ring.png")
    assert [data for _, data in resources(convert(corpus, "a.html")).values()] == [b"png"]


@pytest.mark.parametrize(
    ("name", "content", "title"),
    [
        ("marked", "<title>Marked</title><p>before</p><![foo bar[ x ]]><p>after</p>", "Marked"),
        ("undefined", '<meta charset="undefined"><title>Undefined</title><p>text</p>', "Undefined"),
    ],
)
def test_odd_markup_is_read_as_a_browser_would(tmp_path: Path, name: str, content: str, title: str) -> None:
    (tmp_path / f"{name}.html").write_text(content, encoding="utf-8")
    (entry,) = HtmlFolder(tmp_path, "https://x.org/").entries(Counter())
    assert entry.title == title


def test_a_canonical_link_that_is_no_address_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text('<link rel=canonical href="http://[bad"><p>text</p>', encoding="utf-8")
    (entry,) = HtmlFolder(tmp_path, "https://x.org/").entries(Counter())
    assert entry.url == "https://x.org/bad.html"
    with pytest.raises(InputError, match=r"bad\.html: wanted <link rel=canonical"):
        list(HtmlFolder(tmp_path, None).entries(Counter()))


@pytest.mark.parametrize("base", ["http://[bad", "docs", "file"])
def test_a_base_that_is_no_address(tmp_path: Path, base: str) -> None:
    with pytest.raises(InputError, match=r"base_url: .*URL '"):
        HtmlFolder(tmp_path, base)
