"""The review page of mining in a real browser: query, positive, negatives, known positives side by side, escaped."""

import asyncio
import dataclasses
from pathlib import Path
from typing import Any

import pytest
from tests.mining.planted import FALSE_NEGATIVES, Planted, with_pairs

from tilewright.configs.stage import run_stage
from tilewright.data_gen.chromium import FLAGS, launch_first
from tilewright.data_gen.html_page import text
from tilewright.data_gen.records import TrainingExample, read_jsonl
from tilewright.data_gen.review_page import REVIEW
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.eval.precision import precision_by_outcome, read_marks
from tilewright.mining.mine_negatives import STAGE, Config

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=2>\"'&</title></article>{0}\x00\u202e"


@pytest.fixture
def config(planted: Planted, tmp_path: Path) -> Config:
    """Of six facts, one asked in hostile words; a title and an address of its tiles are hostile too."""
    tiles = [
        dataclasses.replace(tile, title=HOSTILE, url="javascript:window.hacked=3")
        if tile.tile_id == planted.tile(0, "wrong")
        else tile
        for tile in TileStore.open(planted.root / "tiles")
    ]
    write_store(tmp_path / "tiles", tiles)
    pairs = [dataclasses.replace(pair, aliases=(HOSTILE,), annotator=HOSTILE) for pair in planted.pairs]
    inputs = with_pairs(planted, tmp_path, pairs) | {"tiles": tmp_path / "tiles"}
    return Config(
        tmp_path / "mined", "judged", top_k=20, negatives=2, short="keep", same_page="allow",
        review_pairs=99, seed=1, **inputs,
    )  # fmt: skip


def shown(config: Config, name: str, **changes: Any) -> list[str]:
    """The query_ids on the page of a run, in order."""
    one = dataclasses.replace(config, out=config.out.with_name(name), **changes)
    run_stage(STAGE, one)
    path = one.out / REVIEW
    found = path.read_text().split("<article")[1:] if path.exists() else []
    return [part.split("query_id&quot;: &quot;")[1].split("&quot;")[0] for part in found]


def test_the_sample_is_drawn_by_seed_from_what_was_kept(config: Config) -> None:
    two, four = shown(config, "two", review_pairs=2), shown(config, "four", review_pairs=4)
    assert len(set(four)) == 4 and four[:2] == two
    assert {tuple(shown(config, f"s{seed}", seed=seed, review_pairs=2)) for seed in (2, 3, 4)} != {tuple(two)}
    assert shown(config, "none", review_pairs=0) == []
    assert shown(config, "dropped", top_k=2, short="drop") == []


@pytest.mark.browser
def test_query_positive_and_negatives_stand_side_by_side(config: Config, tmp_path: Path) -> None:
    run_stage(STAGE, config)
    examples = {one.query_id: one for one in read_jsonl(config.out / "examples.jsonl", TrainingExample)}
    path = config.out / REVIEW
    html = path.read_text(encoding="utf-8")
    assert text(HOSTILE) in html and "hacked=1</" not in html and "javascript:" not in html

    async def look() -> dict[str, Any]:
        from playwright.async_api import async_playwright

        async with async_playwright() as playwright:
            first, program = await launch_first()
            await first.close()
            browser = await playwright.chromium.launch(executable_path=program, args=list(FLAGS))
            page = await (await browser.new_context(viewport={"width": 1400, "height": 900})).new_page()
            page.set_default_timeout(10_000)
            faults: list[str] = []
            page.on("pageerror", lambda error: faults.append(str(error)))
            page.on("console", lambda message: faults.append(message.text) if message.type == "error" else None)
            await page.goto(path.as_uri())
            found: dict[str, Any] = await page.evaluate(
                """() => ({hacked: window.hacked ?? null, scripts: document.scripts.length,
                  images: [...document.querySelectorAll("article:not([hidden]) .sides img")].map(
                    (image) => [image.naturalWidth, image.getBoundingClientRect().top]),
                  articles: [...document.querySelectorAll("article")].map((article) => ({
                    names: JSON.parse(article.dataset.pair), query: article.querySelector("h2").textContent,
                    decided: article.querySelector(".decided").textContent,
                    figures: [...article.querySelectorAll("figure")].map(
                      (figure) => [figure.className, figure.querySelector("code").textContent])}))})"""
            )
            for key in "gb":
                await page.keyboard.press(key)
            async with page.expect_download() as waiting:
                await page.keyboard.press("s")
            await (await waiting.value).save_as(tmp_path / "marks.jsonl")
            await browser.close()
            return found | {"faults": faults}

    found = asyncio.run(look())
    assert found["hacked"] is None and found["scripts"] == 1 and not found["faults"]
    assert len(found["articles"]) == 6
    for article in found["articles"]:
        example = examples[article["names"]["query_id"]]
        figures = [("positive", example.positive_tile_id)]
        figures += [("negative", tile_id) for tile_id in example.negative_tile_ids]
        figures += [("known", tile_id) for tile_id in example.known_positive_tile_ids]
        assert [tuple(figure) for figure in article["figures"]] == figures and len(figures) == 6
        assert article["query"] == example.query
        assert article["decided"].count("CORRECT by grounded") == len(FALSE_NEGATIVES)
    widths, tops = zip(*found["images"], strict=True)
    assert set(widths) == {64} and len(set(tops[:2])) == 1, "side by side"
    marks = read_marks(tmp_path / "marks.jsonl").marks
    assert [mark.mark for mark in marks] == ["good", "bad"]
    kept = precision_by_outcome(marks)["kept"]
    assert (kept.good, kept.bad) == (1, 1)
