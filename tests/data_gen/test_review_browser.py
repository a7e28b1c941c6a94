"""The review page in a real browser: keys, marks, files, hostile texts, frames on the right pixels."""

import asyncio
import io
import json
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data_gen.review_items import HOSTILE, items_of, tile_of, write

from tilewright.data_gen.records import Block, Tile
from tilewright.data_gen.review import write_review
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.precision import read_marks


@pytest.fixture
def store(make_tile: Callable[..., Tile], make_block: Callable[..., Block], tmp_path: Path) -> TileStore:
    """Five pages with one tile each. The pixels of their words "42 km" are blue; the fifth's are hostile; no words in
    the fourth."""
    return TileStore.open(write(tmp_path / "store", [tile_of(make_tile, make_block, n) for n in range(5)]))


Steps = Callable[[Any], Awaitable[None]]


@pytest.fixture
def browse(store: TileStore, tmp_path: Path, start_chromium: Any) -> Callable[..., None]:
    """browse(steps, **options of the browser context): writes the page of ``items_of``, opens it, and takes the steps.

    Fails for an error of the page's script and for any request but the page itself.
    """
    path = tmp_path / "review.html"
    write_review(path, items_of(store), store, title=f"Round {HOSTILE}")

    def run(*every: Steps, **options: Any) -> None:
        asyncio.run(_browse(path, every, options, start_chromium))

    return run


async def _browse(path: Path, every: tuple[Steps, ...], options: dict[str, Any], start: Any) -> None:
    from playwright.async_api import async_playwright

    async with async_playwright() as playwright:
        browser = await start(playwright)
        for steps in every:  # each in a profile of its own
            context = await browser.new_context(viewport={"width": 1100, "height": 800}, **options)
            page = await context.new_page()
            page.set_default_timeout(10_000)
            requests: list[str] = []
            faults: list[str] = []
            blocked: list[str] = []
            page.on("request", lambda request, seen=requests: seen.append(request.url))
            page.on("requestfailed", lambda request, seen=blocked: seen.append(f"{request.failure} {request.url}"))
            page.on("pageerror", lambda error, seen=faults: seen.append(str(error)))
            await page.goto(path.as_uri())
            await steps(page)
            sent = [url for url in requests if url != path.as_uri() and f"csp {url}" not in blocked]
            assert {url.split(":")[0] for url in sent} <= {"data", "blob"} and not faults, (requests, blocked, faults)
            await context.close()
        await browser.close()


async def state(page: Any) -> dict[str, Any]:
    found: dict[str, Any] = await page.evaluate(
        """() => ({
            shown: [...document.querySelectorAll("article")].flatMap((node, i) => (node.hidden ? [] : [i + 1])),
            marks: [...document.querySelectorAll("#strip i")].map((node) => node.className.split(" ")[0]),
            pressed: [...document.querySelectorAll(".marks [aria-pressed=true]")].map((node) => node.id),
            note: document.getElementById("note").value,
            tally: document.getElementById("tally").textContent,
            said: document.getElementById("said").textContent,
            decided: document.querySelector("article:not([hidden]) .decided").open,
        })"""
    )
    found["marks"] = ["" if name == "current" else name for name in found["marks"]]
    return found


async def press(page: Any, *keys: str) -> dict[str, Any]:
    for key in keys:
        await page.keyboard.press(key)
    return await state(page)


@pytest.mark.browser
def test_marks_by_keyboard_are_kept_saved_and_loaded(
    browse: Callable[..., None], store: TileStore, tmp_path: Path
) -> None:
    saved = tmp_path / "saved.jsonl"

    async def mark(page: Any) -> None:
        before = await state(page)
        assert before["shown"] == [1] and before["tally"].startswith("0 of 5 marked") and not before["decided"]
        assert (await press(page, "g", "2"))["marks"] == ["good", "bad", "", "", ""]
        assert (await press(page, "3", "ArrowRight", "k", "k"))["shown"] == [3]
        await press(page, "n")
        await page.keyboard.type('g: "why" é\n')
        noted = await press(page, "Escape", "ArrowLeft", "j")
        assert noted["note"] == 'g: "why" é\n' and noted["pressed"] == ["unsure"] and noted["decided"]
        assert (await press(page, "j", "j", "g"))["marks"] == ["good", "bad", "unsure", "", "good"]
        assert (await press(page, "f"))["shown"] == [4]
        undone = await press(page, "z", "Control+z")
        assert undone["marks"] == ["good", "bad", "", "", ""] and undone["shown"] == [3]
        assert undone["note"] == 'g: "why" é\n' and "Undone" in undone["said"]
        await press(page, "u", "j", "g")
        async with page.expect_download() as waiting:
            await page.keyboard.press("s")
        download = await waiting.value
        await download.save_as(saved)
        assert download.suggested_filename.startswith("round-script-window-hacked-1")
        await page.reload()
        again = await state(page)
        assert again["marks"] == ["good", "bad", "unsure", "", "good"] and again["shown"] == [4]
        assert (await press(page, "k"))["note"] == 'g: "why" é\n'

    async def load(page: Any) -> None:
        assert (await state(page))["marks"] == [""] * 5
        await press(page, "b")
        wrong = tmp_path / "wrong.jsonl"
        wrong.write_text(saved.read_text(encoding="utf-8") + '{"query_id": "q3", "mark": "great"}\n', encoding="utf-8")
        await page.set_input_files("#file", wrong)
        await page.locator("#said", has_text="line 5").wait_for()  # a polled function is eval, which the policy forbids
        assert (await state(page))["marks"] == ["bad", "", "", "", ""]
        await page.set_input_files("#file", saved)
        await page.locator("#said", has_text="4 marks loaded").wait_for()
        assert (await state(page))["marks"] == ["good", "bad", "unsure", "", "good"]
        assert (await press(page, "z"))["marks"] == ["bad", "", "", "", ""]

    browse(mark, load)
    lines = [json.loads(line) for line in saved.read_bytes().splitlines()]
    items = items_of(store)
    assert [line["mark"] for line in lines] == ["good", "bad", "unsure", "good"]
    assert len({line.pop("sample") for line in lines}) == 1
    chosen = [items[0], items[1], items[2], items[4]]
    for line, item, note in zip(lines, chosen, ["", "", 'g: "why" é\n', ""], strict=True):
        expected = {"query_id": item.query_id, "outcome": item.outcome, "page_id": item.page_id, "note": note}
        assert {name: value for name, value in line.items() if name != "mark"} == expected
    assert [entry.mark for entry in read_marks(saved).marks] == ["good", "bad", "unsure", "good"]


@pytest.mark.browser
def test_hostile_texts_do_nothing_and_the_policy_holds(browse: Callable[..., None]) -> None:
    async def look(page: Any) -> None:
        for _ in range(5):
            await press(page, "v", "j")
        found = await page.evaluate(
            """async () => {
                const tried = (work) => { try { work(); return "done"; } catch (error) { return error.name; } };
                const added = document.createElement("img");
                const answers = {
                    sink: tried(() => document.body.insertAdjacentHTML("beforeend", "<b onclick=hacked=4>x</b>")),
                    attribute: tried(() => added.setAttribute("onerror", "window.hacked = 5")),
                };
                const remote = new Promise((resolve) => added.addEventListener("error", () => resolve("blocked")));
                added.src = "https://example.com/x.png";
                return {
                    ...answers,
                    remote: await remote,
                    hacked: window.hacked ?? null,
                    scripts: document.scripts.length,
                    query: document.querySelector("#query-5").textContent,
                    links: [...document.links].map((link) => link.protocol),
                    pictures: [...document.querySelectorAll("article img")].every((image) => image.naturalWidth > 0),
                };
            }"""
        )
        assert found["hacked"] is None and found["scripts"] == 1 and found["pictures"]
        assert found["sink"] == "TypeError" and found["attribute"] == "TypeError"
        assert found["query"] == HOSTILE.replace("\x00", "\ufffd")
        assert set(found["links"]) == {"https:"} and len(found["links"]) == 4
        await page.wait_for_timeout(200)
        assert await page.evaluate("window.hacked ?? null") is None

    browse(look)


@pytest.mark.browser
@pytest.mark.parametrize("width_px", [700, 1500])
def test_the_frame_lies_on_the_pixels_of_the_span(browse: Callable[..., None], width_px: int) -> None:
    async def look(page: Any) -> None:
        await page.set_viewport_size({"width": width_px, "height": 1600})
        frames = await page.evaluate(
            """() => [...document.querySelectorAll("article:not([hidden]) rect")].map((rect) => {
                const { left, top, right, bottom } = rect.getBoundingClientRect();
                return [rect.getAttribute("class"), left, top, right, bottom];
            })"""
        )
        image = await page.locator("article:not([hidden]) img").bounding_box()
        pixels = np.asarray(Image.open(io.BytesIO(await page.screenshot())).convert("RGB")).astype(int)
        left, top = round(image["x"]), round(image["y"])
        inside = pixels[top : top + round(image["height"]), left : left + round(image["width"])]
        blue = (inside[..., 2] > 150) & (inside[..., 0] < 110) & (inside[..., 1] < 110)
        rows, columns = np.flatnonzero(blue.any(1)), np.flatnonzero(blue.any(0))
        drawn = [columns[0] + left, rows[0] + top, columns[-1] + 1 + left, rows[-1] + 1 + top]
        assert [frame[0] for frame in frames] == ["span", "answer"]
        for _, *frame in frames:
            assert np.abs(np.array(frame) - drawn).max() <= 4.0, (frame, drawn)
        assert (image["width"] < 875) is (width_px == 700)

    browse(look)


@pytest.mark.browser
def test_buttons_focus_and_a_key_held_down(browse: Callable[..., None]) -> None:
    async def use(page: Any) -> None:
        await page.keyboard.down("g")
        await page.keyboard.down("g")
        await page.keyboard.up("g")
        assert (await state(page))["marks"] == ["good", "", "", "", ""]
        for name in ("Next", "Bad", "First unmarked"):
            await page.get_by_role("button", name=name).click()
        clicked = await state(page)
        assert clicked["marks"] == ["good", "", "bad", "", ""] and clicked["shown"] == [2]
        await page.locator("#undo").focus()
        await page.keyboard.press("Shift+Tab")
        focused = await page.evaluate(
            "() => [document.activeElement.id, getComputedStyle(document.activeElement).outlineStyle]"
        )
        assert focused == ["unsure", "solid"]
        assert (await press(page, "Enter"))["marks"] == ["good", "unsure", "bad", "", ""]
        assert (await press(page, "Control+b", "Alt+g"))["marks"] == ["good", "unsure", "bad", "", ""]
        nameless = await page.evaluate(
            "() => [...document.querySelectorAll('button, input, textarea')].filter((node) =>"
            " !node.textContent.trim() && !node.labels?.length && !node.ariaLabel).length"
        )
        assert nameless == 0

    browse(use)


@pytest.mark.browser
def test_without_scripts_all_pairs_are_shown(browse: Callable[..., None]) -> None:
    async def look(page: Any) -> None:
        assert await page.locator("article:visible").count() == 5
        assert await page.locator("footer:visible, nav:visible").count() == 0

    browse(look, java_script_enabled=False)
