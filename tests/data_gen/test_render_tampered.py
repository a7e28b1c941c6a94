"""A folder of pages that was edited by hand: the page concerned fails by name, the others go on, nothing leaks."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tilewright.configs.stage import run_stage
from tilewright.data_gen.images import decode_image, encode_png
from tilewright.data_gen.records import FAILED, FailedPage, Page, read_jsonl, write_jsonl
from tilewright.data_gen.render_tiles import STAGE, Config
from tilewright.data_gen.site import FolderSite
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.data_gen.sources.source import Document, Resource
from tilewright.data_gen.store.verify import verify
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.urls import page_id

pytestmark = pytest.mark.browser
WritePages = Callable[[Path, Mapping[str, str]], Path]
STYLE = "<!doctype html><style>body{margin:0}img{display:block}</style>"
RED = encode_png(Image.new("RGB", (50, 50), (255, 0, 0)))


def render(pages: Path, out: Path, **options: Any) -> dict[str, str]:
    """Reasons of failure by title; the other pages have tiles."""
    chosen: dict[str, Any] = {"workers": 2, "max_tiles": None, "max_tiles_per_page": None, "max_error_share": 1.0}
    run_stage(STAGE, Config(pages=pages, out=out, **(chosen | options)))
    return {page.url.rpartition("/")[2]: page.reason for page in read_jsonl(out / FAILED, FailedPage)}


def add_page(folder: Path, name: str, html: str, resources: Mapping[str, bytes]) -> Page:
    """A page as make_pages writes it, at the end of pages.jsonl."""
    url = f"https://example.com/dir/{name}"
    files = [Resource(address, "image/png", data) for address, data in resources.items()]
    path, _ = PagesFolder(folder).write(page_id(url), Document(html.encode(), ".html", "0" * 64, resources=files))
    page = Page(page_id(url), url, name, path, "html_folder")
    write_jsonl(folder / "pages.jsonl", [*read_jsonl(folder / "pages.jsonl", Page), page])
    return page


def test_tables_of_resources(tmp_path: Path, write_pages: WritePages) -> None:
    folder = write_pages(tmp_path / "pages", {"fine": "fine"})
    entries = {
        "leads_out": {"sha256": "../../../../etc/passwd", "media_type": "text/css"},
        "gone": {"sha256": "0" * 64, "media_type": "image/png"},
        "number": 5,
    }
    for name, entry in entries.items():
        page = add_page(folder, name, STYLE + "<p>x</p><img src='/i.png'>", {"https://example.com/i.png": RED})
        table = (folder / page.html_path).with_suffix(".resources.json")
        table.write_text(json.dumps({"https://example.com/i.png": entry}))
    for name, text in {"no_json": "{", "list": "[1]"}.items():
        page = add_page(folder, name, STYLE + "<p>x</p><img src='/i.png'>", {"https://example.com/i.png": RED})
        (folder / page.html_path).with_suffix(".resources.json").write_text(text)
    failed = render(folder, tmp_path / "tiles", page_timeout_s=30.0)
    assert failed.keys() == {*entries, "no_json", "list"}
    assert "wanted a SHA-256" in failed["leads_out"] and "wanted a SHA-256" in failed["number"]
    assert "wanted a file of this folder" in failed["gone"]
    assert "not JSON" in failed["no_json"] and "wanted a mapping" in failed["list"]


def test_records_of_pages(tmp_path: Path, write_pages: WritePages) -> None:
    Image.new("RGB", (20, 20)).save(tmp_path / "secret.png")
    edits: dict[str, dict[str, str]] = {
        "fine": {},
        "picture": {"html_path": "../secret.png"},
        "absolute": {"html_path": str(tmp_path / "secret.png")},
        "data": {"document_url": "data:text/html,<p>another"},
        "blank": {"document_url": "about:blank"},
        "file": {"document_url": "file:///etc/hostname"},
        "source": {"document_url": "view-source:https://example.com/"},
    }
    folder = write_pages(tmp_path / "pages", dict.fromkeys(edits, "text"))
    records = read_jsonl(folder / "pages.jsonl", Page)
    write_jsonl(folder / "pages.jsonl", [dataclasses.replace(page, **edits[page.title]) for page in records])
    failed = render(folder, tmp_path / "tiles")
    assert failed.keys() == edits.keys() - {"fine"}
    for name in ("picture", "absolute"):
        assert "wanted a file of this folder" in failed[name]
    for name in ("data", "blank", "file", "source"):
        assert "wanted an http or https address" in failed[name]


def test_a_page_of_33_million_px_in_width_leaves_the_others_alone(tmp_path: Path, write_pages: WritePages) -> None:
    wide = STYLE + "<div style='width:33000000px;height:1900000px'>x</div>"
    folder = write_pages(tmp_path / "pages", {"wide": wide, "fine": "fine"})
    failed = render(folder, tmp_path / "tiles", page_timeout_s=20.0)
    assert failed.keys() == {"wide"} and "px wide" in failed["wide"]


def test_a_page_of_more_than_a_hundred_columns(tmp_path: Path, write_pages: WritePages) -> None:
    """Their ids, of three digits, stand between those of two; one such page stopped the whole stage."""
    wide = STYLE + "<div style='width:100000px;height:40px'>x</div>"
    folder = write_pages(tmp_path / "pages", {"wide": wide, "fine": "fine", "other": "other"})
    assert render(folder, tmp_path / "tiles") == {}
    columns = [tile.column for tile in TileStore.open(tmp_path / "tiles") if tile.title == "wide"]
    assert sorted(columns) == list(range(115)) != columns
    assert verify(tmp_path / "tiles").problems == []


def test_a_secure_page_gets_the_picture_that_it_names_by_http(tmp_path: Path, write_pages: WritePages) -> None:
    folder = write_pages(tmp_path / "pages", {})
    address = "http://cdn.example.org/red.png"
    page = add_page(folder, "mixed", f"{STYLE}<img src='{address}'>", {address: RED})
    assert FolderSite(folder).resource(page, "https://cdn.example.org/other.png") is None
    assert render(folder, tmp_path / "tiles") == {}
    (tile,) = TileStore.open(tmp_path / "tiles")
    assert decode_image(tile.image).getpixel((25, 25)) == (255, 0, 0)
