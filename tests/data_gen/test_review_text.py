"""The review page of text pairs: as text, in a browser, and as the stage writes it."""

import asyncio
import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.stage import run_stage
from tilewright.data_gen.passages import PassageSettings
from tilewright.data_gen.records import Block, TextPair, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.review_page import REVIEW
from tilewright.data_gen.review_text import write_text_review
from tilewright.data_gen.text_pairs import STAGE, Config
from tilewright.data_gen.tile_store import write_store
from tilewright.eval.precision import precision_by_outcome, read_marks

HOSTILE = "</div><script>window.hacked=1</script><img src=x onerror=window.hacked=2>\"'&</article>\x00\u202e"
HEADS = {f"{n:016x}": (f"Plant {n}", f"https://x.org/{n}") for n in range(4)} | {"e" * 16: (HOSTILE, "javascript:1")}


def pairs(folder: Path) -> Path:
    """Five pairs on five pages; the query of the second stands in its passage, the fifth's texts are hostile."""
    made = [
        TextPair(f"p{n}", f"Query {n}", f"Before. Query {n} and more." if n == 1 else f"Passage {n}.", page, "heading")
        for n, page in enumerate(list(HEADS)[:4])
    ]
    hostile = TextPair(f"p{HOSTILE}", HOSTILE, f"a {HOSTILE} b", "e" * 16, HOSTILE)
    write_jsonl(folder / "text_pairs.jsonl", [*made, hostile])
    return folder / "text_pairs.jsonl"


def test_a_passage_stands_where_others_show_the_tile(tmp_path: Path) -> None:
    write_text_review(tmp_path, pairs(tmp_path), HEADS, number=5, seed=0)
    html = (tmp_path / REVIEW).read_text(encoding="utf-8")
    articles = {re.findall("Query [0-9]", part)[0]: part for part in html.split("<article")[1:] if "Query " in part}
    assert len(articles) == 4 and html.count("<article") == 5
    assert '<div class="passage" dir="auto">Passage 0.</div>' in articles["Query 0"]
    assert "Before. <mark>Query 1</mark> and more." in articles["Query 1"]
    assert 'href="https://x.org/3"' in articles["Query 3"] and ">Plant 3<" in articles["Query 3"]
    assert html.count("<script") == 1 and "hacked=1</" not in html and "\x00" not in html
    assert {address.split(":")[0] for address in re.findall(r'href="([^"]*)', html)} == {"https", "data"}
    assert html.count("<dt>Method</dt>") == html.count("How it was made") == 5 and "<img" not in html
    first = (tmp_path / REVIEW).read_bytes()
    write_text_review(tmp_path, tmp_path / "text_pairs.jsonl", HEADS, number=5, seed=0)
    assert (tmp_path / REVIEW).read_bytes() == first


def test_the_stage_shows_a_seeded_sample(
    tmp_path: Path, make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    tiles = [make_tile(f"Fern {n}", [make_block("paragraph", f"Fern {n} grows tall here.")]) for n in range(12)]
    write_store(tmp_path / "tiles", sorted(tiles, key=lambda tile: tile.tile_id))

    def shown(name: str, **changes: Any) -> list[str]:
        config = Config(
            tmp_path / name, ("heading",), PassageSettings(3, 20), 3, 20, 0.5, tiles=tmp_path / "tiles",
            **({"seed": 0, "review_pairs": 4} | changes),
        )  # fmt: skip
        run_stage(STAGE, config)
        path = config.out / REVIEW
        return re.findall(r"query_id&quot;: &quot;([0-9a-f]{16})", path.read_text()) if path.exists() else []

    four, eight, other = shown("four"), shown("eight", review_pairs=8), shown("other", seed=1)
    known = {pair.pair_id for pair in read_jsonl(tmp_path / "four/text_pairs.jsonl", TextPair)}
    assert len(set(four)) == 4 and eight[:4] == four and set(eight) < known and set(four) != set(other)
    assert shown("none", review_pairs=0) == [] and not (tmp_path / "none" / REVIEW).exists()
    assert len(shown("part", shard="0/2", review_pairs=99)) < 12


@pytest.mark.browser
def test_text_pairs_are_marked_by_keyboard(tmp_path: Path, start_chromium: Any) -> None:
    write_text_review(tmp_path, pairs(tmp_path), HEADS, number=5, seed=0)

    async def mark() -> dict[str, Any]:
        from playwright.async_api import async_playwright

        async with async_playwright() as playwright:
            browser = await start_chromium(playwright)
            page = await (await browser.new_context(viewport={"width": 1100, "height": 800})).new_page()
            page.set_default_timeout(10_000)
            faults: list[str] = []
            page.on("pageerror", lambda error: faults.append(str(error)))
            await page.goto((tmp_path / REVIEW).as_uri())
            assert not await page.locator("article:not([hidden]) .decided[open]").count()
            for key in "gbugg":
                await page.keyboard.press(key)
            async with page.expect_download() as waiting:
                await page.keyboard.press("s")
            await (await waiting.value).save_as(tmp_path / "marks.jsonl")
            found: dict[str, Any] = await page.evaluate(
                "() => ({hacked: window.hacked ?? null, scripts: document.scripts.length,"
                " passages: [...document.querySelectorAll('.passage')].map((node) => node.textContent),"
                " marked: [...document.querySelectorAll('mark')].map((node) => node.textContent)})"
            )
            await browser.close()
            return found | {"faults": faults}

    found = asyncio.run(mark())
    shown = HOSTILE.replace("\x00", "\ufffd")
    assert found["hacked"] is None and found["scripts"] == 1 and not found["faults"]
    assert f"a {shown} b" in found["passages"] and set(found["marked"]) == {"Query 1", shown}
    marks = read_marks(tmp_path / "marks.jsonl").marks
    assert {json.dumps(mark.query_id) for mark in marks} == {json.dumps(f"p{n}") for n in (0, 1, 2, 3, HOSTILE)}
    assert (precision_by_outcome(marks)["kept"].good, precision_by_outcome(marks)["kept"].bad) == (3, 1)
