"""Folders of HTML files: encodings, addresses, assets, and what is asked of their URLs."""

import codecs
import os
from collections import Counter
from pathlib import Path

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.sources.html_folder import HtmlFolder, read_html

BASE = "https://docs.example.com/"


@pytest.mark.parametrize(
    "data",
    [
        '<meta charset="utf-8"><p>Größe €</p>'.encode(),
        "<p>Größe €</p>".encode(),
        '<meta charset="windows-1252"><p>Größe €</p>'.encode("cp1252"),
        "<meta charset=ISO-8859-1><p>Größe €</p>".encode("cp1252"),
        '<meta http-equiv="Content-Type" content="text/html; charset=ISO-8859-15"><p>Größe €</p>'.encode("iso8859-15"),
        codecs.BOM_UTF8 + '<meta charset="latin-1"><p>Größe €</p>'.encode(),
        codecs.BOM_UTF16_LE + "<p>Größe €</p>".encode("utf-16-le"),
        codecs.BOM_UTF16_BE + "<p>Größe €</p>".encode("utf-16-be"),
        "<p>Größe €</p>".encode("cp1252"),
        '<meta charset="no-such-thing"><p>Größe €</p>'.encode(),
        '<meta charset="utf-16"><p>Größe €</p>'.encode(),
    ],
)
def test_encodings(tmp_path: Path, data: bytes) -> None:
    (tmp_path / "a.html").write_bytes(data)
    assert "Größe €" in read_html(tmp_path / "a.html")


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


@pytest.mark.parametrize(
    ("text", "start"),
    [
        ("<!DOCTYPE html><html><head><title>x", '\ufeff<!DOCTYPE html><base href="assets/sub/"><html>'),
        ("<!-- c -->\n<!doctype html>\n<p>", '\ufeff<!-- c -->\n<!doctype html><base href="assets/sub/">\n<p>'),
        ("<p>x", '\ufeff<base href="assets/sub/"><p>x'),
    ],
)
def test_local_resources_are_found_beside_the_copy(tmp_path: Path, text: str, start: str) -> None:
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "a.html").write_text(text)
    source = HtmlFolder(tmp_path, BASE)
    ((url, document),) = source.documents({"https://docs.example.com/sub/a.html"})
    assert source.html(url, document)[0].startswith(start)


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


def test_binary_junk_is_an_item_error(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_bytes(b"\0\1\2\0\0")
    source = HtmlFolder(tmp_path, BASE)
    ((url, document),) = source.documents({"https://docs.example.com/a.html"})
    with pytest.raises(ItemError, match="NUL"):
        source.html(url, document)


def test_assets_are_copied_but_nothing_from_outside(tmp_path: Path) -> None:
    corpus, secret = tmp_path / "corpus", tmp_path / "secret.txt"
    (corpus / "img").mkdir(parents=True)
    (corpus / "a.html").write_text("x")
    (corpus / "img" / "dot.png").write_bytes(b"png")
    secret.write_text("secret")
    (corpus / "link.txt").symlink_to(secret)
    assert HtmlFolder(corpus, BASE).copy_assets(tmp_path / "out") == 1
    assert [path.name for path in (tmp_path / "out").rglob("*") if path.is_file()] == ["dot.png"]


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


def test_an_address_that_cannot_be_read_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "bad.html").write_text('<link rel=canonical href="http://[bad"><p>text</p>', encoding="utf-8")
    with pytest.raises(InputError, match=r"bad\.html: .*IPv6"):
        list(HtmlFolder(tmp_path, "https://x.org/").entries(Counter()))
