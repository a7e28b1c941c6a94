"""render_tiles when things go wrong: bad inputs, crashes, hangs, kill -9; and pages of extreme size."""

import asyncio
import dataclasses
import os
import re
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageChops

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.load import load
from tilewright.configs.stage import StageError, run_stage
from tilewright.data_gen import chromium
from tilewright.data_gen.browser import Browser
from tilewright.data_gen.chromium import BrowserMissingError
from tilewright.data_gen.images import encode_png
from tilewright.data_gen.open_page import OpenPage
from tilewright.data_gen.page_pool import PagePool
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import Page, read_jsonl, write_jsonl
from tilewright.data_gen.render_tiles import STAGE, Config, settings_of
from tilewright.data_gen.site import FolderSite
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import tile_boxes

pytestmark = pytest.mark.browser
WritePages = Callable[[Path, Mapping[str, str]], Path]
STYLE = "<!doctype html><style>body{margin:0;font:14px/20px 'Liberation Sans',sans-serif}p{margin:0}</style>"
TEXT = (
    STYLE + "<h1>Head</h1><p>One <b>b</b>old <a href='../up'>link</a></p>"
    "<table class=infobox><tr><th>Born</th><td>1815</td></tr></table><ul><li>item</li></ul>"
)
TALL = STYLE + "<div style='height:2075px;background:linear-gradient(red,blue)'></div>"


def make_config(pages: Path, out: Path, **options: Any) -> Config:
    chosen: dict[str, Any] = {"workers": 2, "max_tiles": None, "max_tiles_per_page": None} | options
    return Config(pages=pages, out=out, **chosen)


def test_bad_inputs(tmp_path: Path, write_pages: WritePages) -> None:
    empty = write_pages(tmp_path / "empty", {})
    with pytest.raises(InputError, match="no pages in this corpus"):
        run_stage(STAGE, make_config(empty, tmp_path / "tiles"))
    (tmp_path / "other").mkdir()
    with pytest.raises(InputError, match=r"wanted the pages of make_pages"):
        run_stage(STAGE, make_config(tmp_path / "other", tmp_path / "tiles2"))
    evil = write_pages(tmp_path / "evil", {"a": "x"})
    (page,) = read_jsonl(evil / "pages.jsonl", Page)
    write_jsonl(evil / "pages.jsonl", [dataclasses.replace(page, page_id="../../../etc/x")])
    with pytest.raises(InputError, match="wanted 16 hex"):
        run_stage(STAGE, make_config(evil, tmp_path / "tiles3"))
    (tmp_path / "file").write_text("x")
    with pytest.raises(StageError, match="can't be written"):
        run_stage(STAGE, make_config(evil, tmp_path / "file" / "tiles"))
    with pytest.raises(ValueError, match="max_tiles: wanted at least 1"):
        make_config(evil, tmp_path / "tiles4", max_tiles=0)


def write_program(path: Path, script: str) -> None:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)


def test_a_program_that_is_no_browser_is_passed_over(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_pages: WritePages
) -> None:
    real = next(found for name in chromium.PROGRAMS if (found := shutil.which(name)))
    write_program(tmp_path / "chromium-headless-shell", "exec /bin/sleep 1000")
    write_program(tmp_path / "chromium-browser", "echo install the snap; exit 1")
    write_program(
        tmp_path / "google-chrome", 'test "$1" = --version || { echo no library >&2; exit 1; }'
    )  # tells a version, but doesn't start
    write_program(tmp_path / "google-chrome-stable", f"PATH='{os.environ['PATH']}' exec '{real}' \"$@\"")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("PLAYWRIGHT_BROWSERS_PATH", str(tmp_path / "none"))
    monkeypatch.setattr(chromium, "VERSION_TIMEOUT_S", 5.0)
    pages = write_pages(tmp_path / "pages", {"a": TEXT})
    assert run_stage(STAGE, make_config(pages, tmp_path / "tiles", workers=1))["counts"]["pages"] == 1
    (tmp_path / "google-chrome-stable").unlink()
    with pytest.raises(BrowserMissingError) as caught:
        run_stage(STAGE, make_config(pages, tmp_path / "other", workers=1))
    for part in (
        "chromium-headless-shell: --version took more than 5 s",
        "chromium-browser: --version ended with status 1",
    ):
        assert part in str(caught.value)
    assert re.search(r"google-chrome doesn't start:.*no library", str(caught.value)) and "isn't installed" in str(
        caught.value
    )


def test_a_missing_html_file_fails_its_page_only(tmp_path: Path, write_pages: WritePages) -> None:
    pages = write_pages(tmp_path / "pages", {"a": TEXT, "b": TEXT})
    records = read_jsonl(pages / "pages.jsonl", Page)
    (pages / records[0].html_path).unlink()
    counts = run_stage(STAGE, make_config(pages, tmp_path / "tiles", max_error_share=0.5))["counts"]
    assert (counts["failed"], counts["pages"]) == (1, 1)


def test_what_python_cannot_make_of_a_page_fails_that_page(tmp_path: Path, write_pages: WritePages) -> None:
    folder = write_pages(tmp_path / "pages", {"odd": TEXT, "fine": TEXT})
    (tmp_path / "pages" / "html" / "a.png").write_bytes(encode_png(Image.new("RGB", (9, 9))))
    html = read_jsonl(folder / "pages.jsonl", Page)
    pages = [*html, dataclasses.replace(html[0], title="odd", page_id="0" * 16, html_path="html/a.png")]

    def choosing(page: Page) -> Callable[[Any], Any]:
        return lambda boxes: [dataclasses.replace(boxes[0], row=None)] if page.title == "odd" else boxes

    (tmp_path / "work").mkdir()
    settings = settings_of(make_config(folder, tmp_path / "tiles"))
    pool = PagePool(FolderSite(folder), folder, tmp_path / "work", settings, workers=1, pages_per_browser=9)
    found = [(page.title, value) for page, value in pool.run(pages, choosing)]
    assert sorted((title, isinstance(value, ItemError)) for title, value in found) == [
        ("fine", False),
        ("odd", True),
        ("odd", True),
    ]
    assert all("can't be made into tiles (TypeError" in str(value) for title, value in found if title == "odd")


@pytest.mark.parametrize("command", ["Page.crash", "Browser.crash"])
def test_a_crash_is_tried_once_more(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, write_pages: WritePages
) -> None:
    pages = write_pages(tmp_path / "pages", {"a": TEXT, "b": TALL})
    read, crashes = OpenPage.is_unchanged, []

    async def crash_at_first(opened: OpenPage) -> bool:
        if not crashes:
            crashes.append(opened)
            await opened.session.send(command)
        return await read(opened)

    monkeypatch.setattr(OpenPage, "is_unchanged", crash_at_first)
    counts = run_stage(STAGE, make_config(pages, tmp_path / "tiles", workers=1))["counts"]
    assert crashes and (counts["pages"], counts["failed"], counts["tiles"]) == (2, 0, 3)


def test_a_page_that_always_crashes_or_hangs_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, write_pages: WritePages
) -> None:
    pages = write_pages(tmp_path / "pages", {"crash": "<p>crash", "hang": "<p>hang", "fine": "<p>fine"})

    async def misbehave(opened: OpenPage) -> bool:
        text = await opened.read("() => JSON.stringify(document.body.textContent)")
        if text == "crash":
            await opened.session.send("Page.crash")
        if text == "hang":
            await asyncio.sleep(1000)
        return True

    monkeypatch.setattr(OpenPage, "is_unchanged", misbehave)
    config = make_config(pages, tmp_path / "tiles", max_error_share=0.7, page_timeout_s=10.0)
    counts = run_stage(STAGE, config)["counts"]
    assert (counts["pages"], counts["failed"]) == (1, 2)
    errors = (tmp_path / "tiles" / "logs" / "errors.jsonl").read_text()
    assert "crashed (2 attempts)" in errors and "took more than page_timeout_s = 10.0 s" in errors


def test_kill_and_resume_gives_the_same_bytes(
    tmp_path: Path, kill_once_journalled: Callable[[list[str], Path, int], None], write_pages: WritePages
) -> None:
    write_pages(tmp_path / "pages", {str(number): TEXT + "<p>x</p>" * (30 * number) for number in range(8)})
    yaml = tmp_path / "run.yaml"
    yaml.write_text("kind: stage\npages: pages\nout: killed\nworkers: 2\nmax_tiles: null\nmax_tiles_per_page: null\n")
    kill_once_journalled(["tilewright.data_gen.render_tiles", str(yaml)], tmp_path / "killed", 2)
    journal = tmp_path / "killed.partial" / ".journal.jsonl"
    assert 2 <= journal.read_bytes().count(b"\n") < 8
    journal.write_bytes(journal.read_bytes()[:-9])  # the kill fell into the middle of a line
    (tmp_path / "killed.partial" / ".work" / "0123456789abcdef.arrow.tmp").write_bytes(b"half a page")
    run_stage(STAGE, load(yaml, Config))
    run_stage(STAGE, make_config(tmp_path / "pages", tmp_path / "whole", workers=1))
    assert output_digests(tmp_path / "killed") == output_digests(tmp_path / "whole")
    assert sorted(path.name for path in (tmp_path / "killed").iterdir()) == [
        "failed.jsonl",
        "logs",
        "manifest.json",
        "pages.jsonl",
        "store",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("count", [1000, 1500])
def test_a_page_of_200_000_px_and_more(tmp_path: Path, write_pages: WritePages, count: int) -> None:
    rows = "".join(f"<p style='height:200px'>row {number}</p>" for number in range(count))
    run_stage(STAGE, make_config(write_pages(tmp_path / "pages", {"tall": STYLE + rows}), tmp_path / "tiles"))
    (page,) = read_jsonl(tmp_path / "tiles" / "pages.jsonl", Page)
    store = TileStore.open(tmp_path / "tiles")
    tiles = list(store)
    assert (page.height_px, page.complete, page.tile_count, len(tiles)) == (
        200 * count,
        True,
        *[-(-200 * count // 1024)] * 2,
    )
    assert [(tile.y_px, tile.height_px) for tile in tiles] == [
        (box.y_px, box.height_px) for box in tile_boxes(875, 200 * count)
    ]
    lines = [line for tile in tiles for line in tile.text.split("\n") if line]
    assert lines == [f"row {number}" for number in range(count)]
    for tile in tiles:
        image = store.image(tile.tile_id).convert("L")
        for word in tile.words:
            box = (word.x_px, max(0, word.y_px), word.x_px + word.width_px, word.y_px + word.height_px)
            assert image.crop(tuple(round(edge) for edge in box)).getextrema()[0] < 128


def test_clip_and_scroll_take_the_same_picture(tmp_path: Path, write_pages: WritePages) -> None:
    pages = write_pages(tmp_path / "pages", {"a": TEXT + "<p>x</p>" * 200})
    (page,) = read_jsonl(pages / "pages.jsonl", Page)

    async def both() -> list[tuple[Image.Image, Image.Image]]:
        site = FolderSite(pages)
        async with Browser(site, (875, 1024)) as browser, browser.open(page, Profile(), 30) as opened:
            boxes = tile_boxes(875, opened.size_px[1])
            found = [[await opened.capture(box, by_scrolling=way) for way in (True, False)] for box in boxes]
            return [(Image.fromarray(one.pixels()), Image.fromarray(other.pixels())) for one, other in found]

    pairs = asyncio.run(both())
    assert len(pairs) > 3
    assert all(ImageChops.difference(*pair).getbbox() is None for pair in pairs)
