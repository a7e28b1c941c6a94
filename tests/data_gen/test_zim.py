"""ZIM archives of both schemes: articles only, redirects to their end, assets for the renderer, damage named."""

import contextlib
import hashlib
import random
import struct
from collections import Counter
from collections.abc import Mapping
from pathlib import Path

import pytest
from libzim.writer import Creator, Item, StringProvider

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.make_pages import STAGE, Config
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.sources.source import MAX_FILE_BYTES
from tilewright.data_gen.sources.zim import Zim
from tilewright.data_gen.urls import page_id
from tilewright.data_gen.zim_archive import ZimArchive
from tilewright.data_gen.zim_site import ZimSite

HTML = (
    "<html><head><title>Moss &amp; fern</title>{head}</head><body><h1>Moss</h1><p>Grün.</p>"
    '<img src="../I/moss.png"></body></html>'
)
PNG = b"\x89PNG\r\n\x1a\n picture"


class Entry(Item):  # type: ignore[misc]
    """One item of an archive in the making."""

    def __init__(self, path: str, media_type: str, data: bytes, title: str) -> None:
        super().__init__()
        self._fields = path, media_type, data, title

    def get_path(self) -> str:
        return self._fields[0]

    def get_mimetype(self) -> str:
        return self._fields[1]

    def get_contentprovider(self) -> StringProvider:
        return StringProvider(self._fields[2])

    def get_title(self) -> str:
        return self._fields[3]

    def get_hints(self) -> dict[object, object]:
        return {}


def new_scheme(
    path: Path,
    items: Mapping[str, tuple[str, bytes, str]],
    redirects: Mapping[str, str] | None = None,
    date: str = "2024-05-01",
) -> Path:
    """An archive by libzim's own writer: {path: (media type, content, title)}, {from: to}."""
    with Creator(path).config_indexing(False, "eng") as creator:
        creator.set_mainpath(next(iter(items)))
        for name, (media_type, data, title) in items.items():
            creator.add_item(Entry(name, media_type, data, title))
        for name, target in (redirects or {}).items():
            creator.add_redirection(name, name, target, {})
        creator.add_metadata("Date", date)
        creator.add_metadata("Title", "Mosses")
    return path


def old_scheme(path: Path, items: Mapping[str, tuple[str, bytes]], redirects: Mapping[str, str | int]) -> Path:
    """An archive of version 5.0, byte by byte (openZIM file format): ``A/`` articles, ``I/`` images, ``-/`` layout.

    ``redirects`` lead to a path, or to an entry's number, which needn't exist: libzim's writer refuses such.
    """
    names = sorted([*items, *redirects])
    types = sorted({media_type for media_type, _ in items.values()})
    blobs, dirents = [], []
    for name in names:
        namespace, _, url = name.partition("/")
        texts = f"{url}\0\0".encode()
        if name in redirects:
            target = redirects[name]
            number = names.index(target) if isinstance(target, str) else target
            dirents.append(struct.pack("<HBcII", 0xFFFF, 0, namespace.encode(), 0, number) + texts)
        else:
            media_type, data = items[name]
            place = (types.index(media_type), 0, namespace.encode(), 0, 0, len(blobs))
            dirents.append(struct.pack("<HBcIII", *place) + texts)
            blobs.append(data)
    mime_list = b"".join(name.encode() + b"\0" for name in types) + b"\0"
    pointers_at = 80 + len(mime_list)
    dirents_at = pointers_at + 12 * len(names)
    starts = [dirents_at + sum(map(len, dirents[:i])) for i in range(len(names))]
    cluster_at = dirents_at + sum(map(len, dirents))
    offsets = [4 * (len(blobs) + 1) + sum(map(len, blobs[:i])) for i in range(len(blobs) + 1)]
    cluster = b"\1" + struct.pack(f"<{len(offsets)}I", *offsets) + b"".join(blobs)
    cluster_pointers_at = cluster_at + len(cluster)
    places = (pointers_at, pointers_at + 8 * len(names), cluster_pointers_at, 80)
    no_page = 0xFFFFFFFF
    header = struct.pack(
        "<IHH16sII4QII", 0x044D495A, 5, 0, b"0123456789abcdef", len(names), 1, *places, no_page, no_page
    )
    body = header + struct.pack("<Q", cluster_pointers_at + 8) + mime_list
    body += struct.pack(f"<{len(starts)}Q", *starts) + struct.pack(f"<{len(names)}I", *range(len(names)))
    body += b"".join(dirents) + cluster + struct.pack("<Q", cluster_at)
    path.write_bytes(body + hashlib.md5(body).digest())
    return path


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    canonical = '<link href="https://en.m.wikipedia.org/wiki/moss" rel="Canonical">'
    return new_scheme(
        tmp_path / "moss.zim",
        {
            "Moss": ("text/html", HTML.format(head=canonical).encode(), "All of moss"),
            "Cat:fern/Blatt ä?x=1": ("text/html; charset=utf-8", HTML.format(head="").encode(), ""),
            "empty": ("text/html", b" \n", "Empty"),
            "I/moss.png": ("image/png", PNG, ""),
            "style.css": ("text/css", b"p { color: green }", ""),
        },
        {"Mosses": "Bryophyta", "Bryophyta": "Moss", "logo.png": "I/moss.png"},
    )


def test_articles_titles_urls_and_what_is_left_out(archive: Path) -> None:
    skipped: Counter[str] = Counter()
    entries = list(Zim(archive, "https://example.com/wiki").entries(skipped))
    assert [(entry.url, entry.title, entry.place) for entry in entries] == [
        ("https://example.com/wiki/Cat:fern/Blatt ä%3Fx=1", "Moss & fern", "Cat:fern/Blatt ä?x=1"),
        ("https://en.wikipedia.org/wiki/Moss", "All of moss", "Moss"),
    ]
    assert skipped == {"redirects": 3, "empty_pages": 1, "other_namespaces": 1}  # W/mainPage is a redirect
    with pytest.raises(InputError, match=r"Blatt.*wanted <link rel=canonical.*or base_url"):
        list(Zim(archive, None).entries(Counter()))


@pytest.mark.parametrize("entries_first", [True, False])
def test_documents_stay_in_the_archive(archive: Path, entries_first: bool) -> None:
    source = Zim(archive, "https://example.com/wiki/")
    wanted = {entry.url for entry in source.entries(Counter())} | {"https://example.com/unknown"}
    source = source if entries_first else Zim(archive, "https://example.com/wiki/")
    documents = {url: source.convert(url, raw) for url, raw in source.documents(wanted)}
    root = ZimArchive(archive).root
    assert {url: document.document_url for url, document in documents.items()} == {
        "https://example.com/wiki/Cat:fern/Blatt ä%3Fx=1": f"{root}Cat%3Afern/Blatt%20%C3%A4%3Fx%3D1",
        "https://en.wikipedia.org/wiki/Moss": f"{root}Moss",
    }
    for document in documents.values():
        assert document.data is None and document.fetched == "2024-05-01" and not list(document.resources)
    plain = documents["https://example.com/wiki/Cat:fern/Blatt ä%3Fx=1"]
    assert plain.content_sha256 == hashlib.sha256(HTML.format(head="").encode()).hexdigest()
    assert len(list(source.documents({"https://en.wikipedia.org/wiki/Moss"}))) == 1


def test_the_stage_writes_pages_that_the_site_serves(archive: Path, tmp_path: Path) -> None:
    config = Config(source="zim", out=tmp_path / "pages", workers=2, path=archive, base_url="https://example.com/")
    manifest = run_stage(STAGE, config)
    assert manifest["counts"]["pages"] == 2 and manifest["counts"]["redirects"] == 3
    pages = read_jsonl(tmp_path / "pages" / "pages.jsonl", Page)
    site = ZimSite(archive)
    for page in pages:
        assert page.html_path == "" and page.source == "zim" and page.page_id == page_id(page.url)
        html = site.document(page).decode("utf-8")
        assert html.startswith("\ufeff<html>") and "Grün." in html
    assert "Canonical" in site.document(next(page for page in pages if page.title == "All of moss")).decode()


def page_of(archive: ZimArchive, path: str, sha256: str = "") -> Page:
    url = f"https://example.com/{path}"
    return Page(page_id(url), url, path, "", "zim", document_url=archive.address(path), content_sha256=sha256)


def test_the_site_serves_assets_only(archive: Path) -> None:
    opened, site = ZimArchive(archive), ZimSite(archive)
    page = page_of(opened, "Moss")
    for url in ("I/moss.png", "logo.png", "I/moss.png?width=3#top", "I%2Fmoss.png"):
        found = site.resource(page, opened.root + url)
        assert found is not None and (found.media_type, found.data) == ("image/png", PNG)
        assert found.url == opened.root + url
    for refused in ("Moss", "Mosses", "Cat:fern/Blatt%20%C3%A4%3Fx=1", "nowhere", "", "Date", "mainPage", "M/Date"):
        assert site.resource(page, opened.root + refused) is None, refused
    assert site.resource(page, "https://example.com/I/moss.png") is None


def test_pages_of_another_archive_and_changed_pages_are_named(archive: Path, tmp_path: Path) -> None:
    other = ZimArchive(new_scheme(tmp_path / "other.zim", {"Moss": ("text/html", b"<p>x", "Moss")}))
    site = ZimSite(archive)
    with pytest.raises(InputError, match="wanted a page of this archive"):
        site.document(page_of(other, "Moss"))
    with pytest.raises(ItemError, match="run make_pages again"):
        site.document(page_of(ZimArchive(archive), "Moss", sha256="0" * 64))
    for missing in ("Fern", "style.css"):
        with pytest.raises(ItemError, match="no page at"):
            site.document(page_of(ZimArchive(archive), missing))


def test_the_old_scheme_and_redirects_that_lead_nowhere(tmp_path: Path) -> None:
    page = HTML.format(head="").encode()
    path = old_scheme(
        tmp_path / "old.zim",
        {
            "-/style.css": ("text/css", b"p {}"),
            "A/Moss": ("text/html", page),
            "A/sub/Fern": ("text/html", page),
            "I/moss.png": ("image/png", PNG),
            "U/help.html": ("text/html", page),
        },
        {"A/B": "A/C", "A/C": "A/Moss", "A/D": 99, "A/E": "A/F", "A/F": "A/E", "A/G": "A/G", "-/favicon": "I/moss.png"},
    )
    skipped: Counter[str] = Counter()
    source = Zim(path, "https://example.com/wiki/")
    assert [entry.url for entry in source.entries(skipped)] == [
        "https://example.com/wiki/Moss",
        "https://example.com/wiki/sub/Fern",
    ]
    assert skipped == {"redirects": 2, "dangling_redirects": 1, "cyclic_redirects": 3, "other_namespaces": 2}
    archive, site = ZimArchive(path), ZimSite(path)
    assert archive.date == ""
    moss = page_of(archive, "A/Moss")
    assert "Grün." in site.document(moss).decode()
    for url in ("I/moss.png", "-/favicon"):
        found = site.resource(moss, archive.root + url)
        assert found is not None and found.data == PNG
    for url in ("A/D", "A/E", "A/G", "A/Moss", "A/B"):
        assert site.resource(moss, archive.root + url) is None


def test_what_is_no_archive(tmp_path: Path) -> None:
    (tmp_path / "bad.zim").write_bytes(b"no archive" * 50)
    for path, message in ((tmp_path / "bad.zim", "not a readable ZIM"), (tmp_path / "none.zim", "no such file")):
        with pytest.raises(InputError, match=message):
            Zim(path, None)


def test_a_truncated_archive_is_an_error_or_counted(archive: Path, tmp_path: Path) -> None:
    data = archive.read_bytes()
    for share in (0.02, 0.3, 0.6, 0.95):
        (tmp_path / "cut.zim").write_bytes(data[: int(share * len(data))])
        with pytest.raises(InputError, match="not a readable ZIM archive"):
            Zim(tmp_path / "cut.zim", "https://example.com/")


def test_damaged_content_is_counted(tmp_path: Path) -> None:
    page = HTML.format(head="").encode()
    path = old_scheme(tmp_path / "old.zim", {"A/Moss": ("text/html", page), "A/Fern": ("text/html", page)}, {})
    data = bytearray(path.read_bytes())
    cluster = data.index(b"\1\x0c\0\0\0")
    data[cluster + 5 : cluster + 9] = struct.pack("<I", 0x7FFFFFFF)  # the first blob ends far behind the file
    path.write_bytes(bytes(data))
    skipped: Counter[str] = Counter()
    found = len(list(Zim(path, "https://example.com/").entries(skipped)))
    assert skipped["unreadable"] and found + skipped["unreadable"] == 2


def test_a_page_above_the_limit_is_counted(tmp_path: Path) -> None:
    huge = b"<p>" + b" " * MAX_FILE_BYTES + b"x"
    path = new_scheme(tmp_path / "huge.zim", {"Moss": ("text/html", b"<p>x", "M"), "Huge": ("text/html", huge, "H")})
    skipped: Counter[str] = Counter()
    assert [entry.place for entry in Zim(path, "https://example.com/").entries(skipped)] == ["Moss"]
    assert skipped["unreadable"] == 1


def test_other_encodings_are_served_as_utf_8(tmp_path: Path) -> None:
    html = '<meta charset="shift_jis"><title>苔</title><p>苔'
    path = new_scheme(tmp_path / "sjis.zim", {"Moss": ("text/html", html.encode("shift_jis"), "")})
    (entry,) = Zim(path, "https://example.com/").entries(Counter())
    assert entry.title == "苔"
    assert ZimSite(path).document(page_of(ZimArchive(path), "Moss")) == f"\ufeff{html}".encode()


def test_xhtml_is_served_as_html(tmp_path: Path) -> None:
    xhtml = b"<!DOCTYPE html><html><head><title/></head><body><p>Moss</p></body></html>"
    path = new_scheme(tmp_path / "x.zim", {"Moss": ("application/xhtml+xml", xhtml, "Moss")})
    served = ZimSite(path).document(page_of(ZimArchive(path), "Moss"))
    assert served == b"\xef\xbb\xbf" + xhtml.replace(b"<title/>", b"<title></title>")


def test_damaged_archives_are_read_or_named(tmp_path: Path) -> None:
    page = HTML.format(head="").encode()
    items = {"-/s.css": ("text/css", b"p {}"), "A/Moss": ("text/html", page), "I/moss.png": ("image/png", PNG)}
    data = old_scheme(tmp_path / "old.zim", items, {"A/B": "A/Moss", "A/C": 99}).read_bytes()
    refused = 0
    for seed in range(60):
        chance, damaged = random.Random(seed), bytearray(data)
        for _ in range(chance.choice((1, 3, 10))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        path = tmp_path / f"{seed}.zim"
        path.write_bytes(bytes(damaged))
        try:
            source = Zim(path, "https://example.com/")
            wanted = {entry.url for entry in source.entries(Counter())}
            site, root = ZimSite(path), ZimArchive(path).root
        except InputError:
            refused += 1
            continue
        for url, raw in source.documents(wanted):
            with contextlib.suppress(ItemError):
                assert source.convert(url, raw).document_url.startswith(root)
        for name in ("I/moss.png", "A/B", "A/C", "-/s.css"):
            site.resource(page_of(ZimArchive(path), "A/Moss"), root + name)
    assert 0 < refused < 60
