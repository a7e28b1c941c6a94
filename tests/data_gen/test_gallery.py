"""The gallery in text and in a real browser: every fate has its section, hostile titles do nothing."""

import argparse
import asyncio
import dataclasses
import io
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image, ImageDraw

from tilewright.configs.errors import InputError, UserError
from tilewright.data_gen.gallery import judge_tiles, write_gallery
from tilewright.data_gen.gated_tiles import read_pages
from tilewright.data_gen.gates import GateConfig
from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import Block, Page, Tile, write_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.data_gen.tiles_cli import add_gallery

CONFIG = GateConfig(3000, True, ("*(disambiguation)*",), 0.7, 10, 50.0, 0.05, 12)
HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=2>\"'&\x00"
YAML = """kind: stage
tiles: tiles
out: queries
annotator: grounded
max_pairs_per_tile: 10
gates: {min_page_height_px: 3000, require_complete: true, blocked: ["*(disambiguation)*"], first_share: 0.7,
  min_words: 10, min_text_density: 50.0, min_ink: 0.05, near_duplicate_bits: 12}
"""


def drawn(tile: Tile, seed: int, share: float = 0.5) -> Tile:
    """With a picture of its own: ``share`` of it black stripes."""
    image = Image.new("RGB", (400, 400), "white")
    for i in range(20):
        for j in range(20):
            if (seed * 7919 + i * 31 + j * (17 + seed) + i * j * seed) % 97 < 97 * share:
                ImageDraw.Draw(image).rectangle((20 * i, 20 * j, 20 * i + 19, 20 * j + 19), fill="black")
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return dataclasses.replace(
        tile, image=buffer.getvalue(), image_sha256=image_sha256(image), width_px=400, height_px=400
    )


@pytest.fixture
def tiles(make_tile: Callable[..., Tile], make_block: Callable[..., Block], tmp_path: Path) -> Path:
    """A store in which every gate stops one tile: {title: fate} is FATES."""

    def tile(title: str, words: int = 40, seed: int = 0, row: int = 0, share: float = 0.5) -> Tile:
        made = make_tile(title, [make_block("paragraph", " ".join(["word"] * words))] if words else [], row=row)
        return drawn(made, seed, share)

    made = [
        tile("Kept", seed=1),
        tile("Kept too", words=11, seed=2),
        tile(HOSTILE, seed=3),
        tile("Low", seed=4),
        tile("Cut", seed=5),
        tile("Moss (disambiguation)", seed=6),
        tile("Late", seed=7, row=3),
        tile("Short", words=9, seed=8),
        tile("Sparse", words=10, seed=9),
        tile("Pale", seed=10, share=0.0),
        tile("Picture", words=0, seed=11),
        tile("Twin", seed=1),
    ]
    made[8] = dataclasses.replace(made[8], height_px=1024)  # 10 words on 0.41 megapixels
    made[2] = dataclasses.replace(made[2], url="javascript:alert(1)")
    folder = tmp_path / "tiles"
    folder.mkdir()
    write_store(folder / "store", sorted(made, key=lambda item: item.tile_id))
    pages = [Page(item.page_id, item.url, item.title, "", "x", 875, 4000, True, 1) for item in made]
    pages[3] = dataclasses.replace(pages[3], height_px=2999)
    pages[4] = dataclasses.replace(pages[4], complete=False)
    write_jsonl(folder / "pages.jsonl", sorted(pages, key=lambda page: page.page_id))
    return folder


FATES = {
    "Kept too": "kept",
    HOSTILE: "kept",
    "Low": "page_height",
    "Cut": "incomplete_page",
    "Moss (disambiguation)": "blocked_page",
    "Late": "beyond_first_share",
    "Short": "few_words",
    "Sparse": "low_text_density",
    "Pale": "little_ink",
    "Picture": "no_text",
}


def test_every_tile_has_its_fate(tiles: Path) -> None:
    store = TileStore.open(tiles)
    judged = judge_tiles(store, read_pages(tiles), CONFIG, 100)
    fates = {item.tile.title: item.stopped_by for item in judged}
    pair = {title: fates.pop(title) for title in ("Kept", "Twin")}
    assert fates == FATES
    first, second = sorted((item for item in judged if item.tile.title in pair), key=lambda item: item.tile.tile_id)
    assert (first.stopped_by, second.stopped_by) == ("kept", "near_duplicate")
    assert (second.twin, second.twin_distance) == (first.tile.tile_id, 0)
    unhashed = dataclasses.replace(CONFIG, near_duplicate_bits=None)
    assert [item.stopped_by for item in judge_tiles(store, read_pages(tiles), unhashed, 100)].count("kept") == 4


def test_a_sample_of_a_larger_store_is_always_the_same(tiles: Path) -> None:
    store = TileStore.open(tiles)
    few, more = ([item.tile.tile_id for item in judge_tiles(store, read_pages(tiles), CONFIG, n)] for n in (3, 6))
    assert len(few) == 3 and set(few) < set(more) and few == sorted(few)


def section(html: str, name: str) -> str:
    found = re.search(rf'<section id="{name}">.*?</section>', html, re.DOTALL)
    assert found, name
    return found[0]


def test_sections_show_tiles_and_values(tiles: Path, tmp_path: Path) -> None:
    out = tmp_path / "new" / "gallery.html"
    write_gallery(tiles, CONFIG, out, per_gate=2, max_tiles=100)
    html = out.read_text(encoding="utf-8")
    for title, fate in FATES.items():
        if title != HOSTILE:
            assert f">{title}</a>" in section(html, fate), title
    for name in {*FATES.values(), "near_duplicate"}:
        assert section(html, name).count("<figure>") <= 4
        assert f'<a href="#{name}">{name}</a>' in html
    assert "Dropped: 1" in section(html, "few_words")
    short = next(part for part in section(html, "few_words").split("<figure>") if ">Short<" in part)
    for value in ("<dt>words</dt><dd>9</dd>", "<dt>words/MP</dt><dd>56</dd>", "<dd>400 x 400 px</dd>", "<dt>ink</dt>"):
        assert value in short
    kept_nearest = section(html, "few_words").split("Kept, nearest")[1]
    assert ">Kept too</a>" in kept_nearest.split("<figure>")[1]  # its 11 words are the fewest of the kept
    assert section(html, "near_duplicate").count("<img") == 2 and "<dt>bits apart</dt><dd>0</dd>" in html
    write_gallery(tiles, CONFIG, tmp_path / "again.html", per_gate=2, max_tiles=100)
    assert (tmp_path / "again.html").read_bytes() == out.read_bytes()


def test_nothing_of_a_tile_is_markup(tiles: Path, tmp_path: Path) -> None:
    write_gallery(tiles, CONFIG, tmp_path / "g.html", per_gate=20, max_tiles=100)
    html = (tmp_path / "g.html").read_text(encoding="utf-8")
    assert "<script" not in html and "javascript:" not in html.replace("&", "")
    assert "&lt;script&gt;window.hacked=1" in html and "\x00" not in html


def test_the_command(tiles: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_gallery(parser.add_subparsers())
    (tmp_path / "queries.yaml").write_text(YAML)
    out = tmp_path / "g.html"
    arguments = ["gallery", str(tiles), "--out", str(out), "--gates", str(tmp_path / "queries.yaml")]

    def run(*more: str) -> str:
        options = parser.parse_args([*arguments, *more])
        options.action(options)
        return out.read_text(encoding="utf-8")

    assert "Dropped: 1" in section(run(), "few_words")
    assert "Dropped: 0" in section(run("gates.min_words=1"), "few_words")
    assert str(out) in capsys.readouterr().out
    with pytest.raises(UserError, match="min_wordz"):
        run("gates.min_wordz=1")
    with pytest.raises(InputError, match="at least 1 tile a gate"):
        run("--per-gate", "0")


@pytest.mark.browser
def test_in_a_browser_nothing_runs_and_nothing_is_fetched(tiles: Path, tmp_path: Path, start_chromium: Any) -> None:
    from playwright.async_api import async_playwright

    path = tmp_path / "g.html"
    write_gallery(tiles, CONFIG, path, per_gate=5, max_tiles=100)

    async def look() -> tuple[list[str], dict[str, object]]:
        async with async_playwright() as playwright:
            browser = await start_chromium(playwright)
            page = await browser.new_page(viewport={"width": 1000, "height": 800})
            requests: list[str] = []
            page.on("request", lambda request: requests.append(request.url))
            await page.goto(path.as_uri())
            found = await page.evaluate(
                """() => ({
                    hacked: window.hacked ?? null,
                    scripts: document.scripts.length,
                    pictures: [...document.images].every((image) => image.complete && image.naturalWidth > 0),
                    count: document.images.length,
                    titles: [...document.querySelectorAll('figure strong')].map((node) => node.textContent),
                    links: [...document.links].map((link) => link.protocol),
                    wide: document.documentElement.scrollWidth > 1000,
                    coloured: getComputedStyle(document.querySelector('figure')).borderTopWidth,
                })"""
            )
            await browser.close()
            return requests, found

    requests, found = asyncio.run(look())
    assert [url for url in requests if not url.startswith("data:")] == [path.as_uri()]
    assert found["hacked"] is None and found["scripts"] == 0 and found["wide"] is False
    assert found["pictures"] is True and found["count"] and found["coloured"] == "1px"
    assert HOSTILE.replace("\x00", "\ufffd") in found["titles"]  # type: ignore[operator]
    assert set(found["links"]) <= {"https:", "file:"}  # type: ignore[call-overload]
