"""A mirror as a source of pages: addresses, encodings, and what pages are given."""

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.fetch.mirror import MIRROR, OBJECTS, MirrorRecord, Objects
from tilewright.data_gen.make_pages import STAGE, Config
from tilewright.data_gen.records import Page, read_jsonl, write_jsonl
from tilewright.data_gen.sources.mirror import MirrorSource
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.data_gen.sources.source import Document
from tilewright.data_gen.urls import canonical_url, page_id

ASKED = "https://h.example/asked"
Add = Callable[..., MirrorRecord]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """An empty mirror."""
    (tmp_path / "mirror").mkdir()
    (tmp_path / "mirror" / MIRROR).write_text("")
    return tmp_path / "mirror"


@pytest.fixture
def add(folder: Path) -> Add:
    """add(url, body, kind=..., **fields) puts a record into the mirror."""
    records: list[MirrorRecord] = []

    def put(url: str, body: bytes, kind: str = "page", **fields: Any) -> MirrorRecord:
        media_type = fields.pop("media_type", "text/html")
        digest = Objects(folder / OBJECTS).put(body)
        values: dict[str, Any] = {
            "final_url": url,
            "redirects": (),
            "charset": "",
            "fetched": "2024-10-01T10:00:00Z",
            "checked": "2024-10-02T10:00:00Z",
        }
        named = {"url": url, "canonical_url": canonical_url(url), "kind": kind, "media_type": media_type, "status": 200}
        rest = {"not_modified": False, "etag": "", "last_modified": "", "sha256": digest, "size_bytes": len(body)}
        record = MirrorRecord(**(values | named | rest | {"resources": ()} | fields))
        records.append(record)
        write_jsonl(folder / MIRROR, sorted(records, key=lambda record: record.canonical_url))
        return record

    return put


def convert(folder: Path) -> Document:
    source = MirrorSource(folder)
    (entry,) = source.entries(Counter())
    ((url, raw),) = source.documents({entry.url})
    return source.convert(url, raw)


@pytest.mark.parametrize(
    ("canonical", "url"),
    [
        (None, ASKED),
        ("https://h.example/real#x", "https://h.example/real"),
        ("HTTP://H.example/real", "http://h.example/real"),
        ("real", "https://h.example/to/real"),
        ("https://other.example/real", ASKED),
        ("https://h.example:8443/real", ASKED),
        ("https://h.example.evil.example/", ASKED),
        ("javascript:x", ASKED),
        ("http://[bad", ASKED),
        ("", ASKED),
    ],
)
def test_a_canonical_link_counts_on_the_same_host(folder: Path, add: Add, canonical: str | None, url: str) -> None:
    link = "" if canonical is None else f"<link rel=canonical href='{canonical}'>"
    add(ASKED, f"{link}<title> A\n B </title>".encode(), final_url="https://h.example/to/final")
    (entry,) = MirrorSource(folder).entries(Counter())
    assert (entry.url, entry.title, entry.place) == (url, "A B", ASKED)


def test_a_link_cannot_move_a_page_that_moved_to_another_host(folder: Path, add: Add) -> None:
    body = b"<link rel=canonical href='https://www.other.example/x'>x"
    add(ASKED, body, final_url="https://www.other.example/x", redirects=(ASKED,))
    (entry,) = MirrorSource(folder).entries(Counter())
    assert (entry.url, entry.title) == (ASKED, "/asked")
    assert convert(folder).document_url == "https://www.other.example/x"


def test_two_requests_with_one_canonical_page(folder: Path, add: Add, tmp_path: Path) -> None:
    for number in (1, 2):
        add(f"https://h.example/{number}", f"<link rel=canonical href=/one>{number}".encode())
    config = Config(source="urls", out=tmp_path / "pages", workers=1, path=folder)
    with pytest.raises(InputError, match=r"URL https://h.example/one: https://h.example/1 and https://h.example/2"):
        run_stage(STAGE, config)
    dropped = Config(source="urls", out=tmp_path / "dropped", workers=1, path=folder, same_url="drop")
    assert run_stage(STAGE, dropped)["counts"].items() >= {"pages": 1, "dropped_same_url": 1}.items()
    (page,) = read_jsonl(tmp_path / "dropped" / "pages.jsonl", Page)
    assert PagesFolder(tmp_path / "dropped").document(page.html_path).endswith(b"1")


@pytest.mark.parametrize(
    ("body", "charset"),
    [
        ("<meta charset=utf-8>größe".encode("latin-1"), "iso-8859-1"),
        ("\ufeffgröße".encode(), "iso-8859-1"),
        ("<meta charset=iso-8859-1>größe".encode("latin-1"), ""),
        ("größe".encode(), ""),
    ],
)
def test_charsets(folder: Path, add: Add, body: bytes, charset: str) -> None:
    record = add(ASKED, body, charset=charset)
    document = convert(folder)
    assert document.data is not None and document.data.decode("utf-8-sig").endswith("größe")
    assert document.data.startswith(b"\xef\xbb\xbf")
    assert (document.content_sha256, document.fetched) == (record.sha256, record.fetched)


def test_a_page_is_given_the_mirrors_resources_and_nothing_else(folder: Path, add: Add, tmp_path: Path) -> None:
    add(ASKED, b"<link rel=stylesheet href=s.css><img src=p.png><img src=none.png><img src=/other>")
    add("https://h.example/other", b"another page")
    css = "https://cdn.example/v1/s.css"
    add("https://h.example/s.css", b"p{background:url(bg.png)}", "resource", media_type="text/css", final_url=css)
    add("https://cdn.example/v1/bg.png", b"bg", "resource", media_type="image/png")
    add("https://h.example/p.png", b"png", "resource", media_type="")
    config = Config(source="urls", out=tmp_path / "pages", workers=2, path=folder)
    counts = run_stage(STAGE, config)["counts"]
    assert counts == {"pages": 2, "failed": 0, "resources": 3, "resources_missing": 2}
    table = PagesFolder(tmp_path / "pages").resources(f"documents/{page_id(ASKED)}.html")
    kinds = {url: entry["media_type"] for url, entry in table.items()}
    assert (
        kinds
        == {  # named as the browser will ask: the redirected stylesheet's picture beside where it was asked for
            "https://h.example/s.css": "text/css",
            "https://h.example/bg.png": "image/png",
            "https://h.example/p.png": "image/png",
        }
    )
    pages = {page.url: page for page in read_jsonl(tmp_path / "pages" / "pages.jsonl", Page)}
    assert pages[ASKED].fetched == "2024-10-01T10:00:00Z" and pages[ASKED].source == "urls"


def test_damaged_and_empty_pages_are_counted(folder: Path, add: Add) -> None:
    record = add(ASKED, b"x")
    add("https://h.example/empty", b" \n")
    add("https://h.example/junk", b"\0\1")
    source = MirrorSource(folder)
    raw = dict(source.documents({ASKED, "https://h.example/junk"}))
    with pytest.raises(ItemError, match="NUL"):
        source.convert("https://h.example/junk", raw["https://h.example/junk"])
    Objects(folder / OBJECTS).path(record.sha256).write_bytes(b"y")
    skipped: Counter[str] = Counter()
    assert [entry.url for entry in source.entries(skipped)] == ["https://h.example/junk"]
    assert skipped == {"damaged_pages": 1, "empty_pages": 1}
    with pytest.raises(ItemError, match="gone or damaged"):
        source.convert(ASKED, raw[ASKED])


def test_hostile_records_lead_nowhere(folder: Path, add: Add, tmp_path: Path) -> None:
    (tmp_path / "secret").write_bytes(b"secret")
    add(ASKED, b"x", sha256="../../../secret")
    with pytest.raises(InputError, match="wanted a SHA-256"):
        list(MirrorSource(folder).entries(Counter()))
    with pytest.raises(InputError, match="wanted a mirror"):
        MirrorSource(tmp_path)


def test_one_content_from_many_threads(tmp_path: Path) -> None:
    objects, data = Objects(tmp_path), b"x" * 3_000_000
    with ThreadPoolExecutor(8) as pool:
        digests = set(pool.map(objects.put, [data] * 16))
    assert [objects.get(digest) for digest in digests] == [data]
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == list(digests)
