"""Small corpora for the tests of pages, tiles and queries, and running a stage in a process that is killed."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

import pytest

from tilewright.data_gen.chromium import FLAGS, launch_first
from tilewright.data_gen.paged_documents import DocumentWorker
from tilewright.data_gen.records import Block, Page, Tile, write_jsonl
from tilewright.data_gen.urls import page_id

Dump = Callable[..., Path]


def dump_text(pages: Mapping[str, str], base: str = "https://en.wikipedia.org/wiki/Main_Page") -> str:
    """A MediaWiki XML dump of {title: wikitext}; a text of "#REDIRECT ..." makes a redirect."""
    entries = []
    for number, (title, text) in enumerate(pages.items(), start=1):
        redirect = '<redirect title="x" />' if text.startswith("#REDIRECT") else ""
        namespace = "1" if title.startswith("Talk:") else "0"
        entries.append(
            f"<page><title>{escape(title)}</title><ns>{namespace}</ns><id>{number}</id>{redirect}"
            f'<revision><id>{number}</id><text xml:space="preserve">{escape(text)}</text></revision></page>'
        )
    head = f"<siteinfo><sitename>W</sitename><base>{base}</base></siteinfo>"
    return (
        '<mediawiki xmlns="http://www.mediawiki.org/xml/export-0.10/" version="0.10">'
        + "\n".join([head, *entries])
        + "\n</mediawiki>\n"
    )


@pytest.fixture
def write_dump(tmp_path: Path) -> Dump:
    """write_dump({title: wikitext}) -> path of an XML dump."""

    def write(pages: Mapping[str, str], name: str = "dump.xml", **options: str) -> Path:
        path = tmp_path / name
        path.write_text(dump_text(pages, **options), encoding="utf-8")
        return path

    return write


@pytest.fixture
def kill_once_journalled(tmp_path: Path) -> Callable[[list[str], Path, int], None]:
    """Run ``python -m ARGUMENTS`` and kill -9 it as soon as ``out``'s journal has so many lines (not all)."""

    def run(arguments: list[str], out: Path, lines: int) -> None:
        journal = out.with_name(out.name + ".partial") / ".journal.jsonl"
        with (tmp_path / "killed.log").open("wb") as log:
            process = subprocess.Popen(
                [sys.executable, "-m", *arguments],
                env=os.environ | {"PYTHONHASHSEED": "1"},
                stdout=log,
                stderr=log,
            )
            deadline = time.monotonic() + 120
            while time.monotonic() < deadline and process.poll() is None:
                if journal.exists() and journal.read_bytes().count(b"\n") >= lines:
                    break
                time.sleep(0.002)
            alive = process.poll() is None
            process.send_signal(signal.SIGKILL)
            process.wait()
        assert alive, (tmp_path / "killed.log").read_text()

    return run


@pytest.fixture
def start_chromium() -> Callable[[Any], Awaitable[Any]]:
    """await start_chromium(playwright) -> the browser that renders, but driven by Playwright."""

    async def start(playwright: Any) -> Any:
        browser, program = await launch_first()
        await browser.close()
        return await playwright.chromium.launch(executable_path=program, args=list(FLAGS))

    return start


@pytest.fixture
def make_block() -> Callable[..., Block]:
    """make_block(kind, text, cells, labels, section, caption, whole) -> Block."""

    def make(
        kind: str,
        text: str,
        cells: Sequence[str] = (),
        labels: Sequence[str] = (),
        section: str = "",
        caption: str = "",
        whole: bool = True,
    ) -> Block:
        return Block(kind, text, tuple(cells), tuple(labels), section, caption, whole, 0.0, 0.0, 100.0, 20.0)

    return make


@pytest.fixture
def make_tile() -> Callable[..., Tile]:
    """make_tile(title, blocks, row=0) -> Tile of the page called ``title``, without picture and words."""

    def make(title: str, blocks: Sequence[Block], row: int = 0) -> Tile:
        url = f"https://en.wikipedia.org/wiki/{title.replace(' ', '_')}"
        page, text = page_id(url), "\n".join(block.text for block in blocks)
        evidence_px = {"infobox": 0, "table": 0, "list": 0, "paragraph": 0}
        place = (row, 0, 0, 1024 * row, 875, 1024)
        return Tile(
            f"{page}-{row:04d}-00", page, url, title, *place, b"", "0" * 64, text, evidence_px, blocks=tuple(blocks)
        )

    return make


@pytest.fixture(scope="session")
def write_pages() -> Callable[[Path, Mapping[str, str]], Path]:
    """write_pages(folder, {title: HTML}) -> folder, as make_pages leaves it; URLs are https://example.com/dir/{title}."""

    def write(folder: Path, pages: Mapping[str, str]) -> Path:
        (folder / "html").mkdir(parents=True)
        records = []
        for name, html in pages.items():
            url = f"https://example.com/dir/{name}"
            identifier = page_id(url)
            (folder / "html" / f"{identifier}.html").write_text(html, encoding="utf-8")
            records.append(Page(identifier, url, name, f"html/{identifier}.html", "html_folder"))
        write_jsonl(folder / "pages.jsonl", records)
        return folder

    return write


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    """Writes a PDF's bytes and gives its path."""

    def write(data: bytes, name: str = "a.pdf") -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write


@pytest.fixture(scope="module")
def worker() -> Iterator[DocumentWorker]:
    """A process that draws documents."""
    with DocumentWorker() as shared:
        yield shared
