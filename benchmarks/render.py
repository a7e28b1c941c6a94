"""Rendering against a plain sequential Playwright loop: tiles/s, pixels, memory. Prints one JSON line.

    python benchmarks/render.py --cppreference FOLDER          (about 15 minutes on 2 cores)

FOLDER: ``usr/share/cppreference/doc/html`` of Debian's package cppreference-doc-en-html, unpacked anywhere. Without it
only the default corpus (the 106 articles inside the gensim wheel) is measured.

- ``tiles_per_s`` and ``plain_tiles_per_s``: the whole stage (layout, words, links, hashes, store) against ``goto`` and
  ``screenshot(full_page=True)`` of the same HTML files in one page of the same program, with the same flags (font
  hinting moves words), in turns; ``ratio`` wanted >= 2. ``program``: what both run; ``ratio_full_browser``: against
  the loop in the full browser, where there is one.
- ``cpu_s_a_tile`` and ``plain_cpu_s_a_tile``: CPU seconds of the whole machine, which must be idle otherwise;
  ``bound``: the ratio that all cores would reach if a tile took as much CPU as in the plain loop.
- ``pages_with_other_pixels``: of those up to 16,000 px, our tiles put together against the loop's picture; wanted 0.
- ``seam_mismatches``: of higher pages, tile edges against captures that overlap them; wanted 0.
- ``memory_ratio``: peak PSS of the process tree with 600 pages over that with 100; wanted <= 1.15.
"""

import argparse
import asyncio
import io
import json
import os
import shutil
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import unquote

import numpy as np
from PIL import Image

from tilewright.configs.stage import run_stage
from tilewright.data_gen import make_pages, render_tiles
from tilewright.data_gen.browser import Browser
from tilewright.data_gen.chromium import FLAGS
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.site import FolderSite
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import TileBox

MAX_SINGLE_PX = 16_000
WORKERS = os.cpu_count() or 1
BASE_URL = "https://en.cppreference.com/"
PROGRAMS = ("chromium-headless-shell", "chromium")


class Run(NamedTuple):
    """One way through all pages."""

    seconds: float
    tiles: int
    cpu_s: float


def busy_s() -> float:
    """CPU seconds that all processes of the machine have used since it started."""
    user, nice, system, _, _, irq, soft = map(int, Path("/proc/stat").read_text().split("\n", 1)[0].split()[1:8])
    return (user + nice + system + irq + soft) / os.sysconf("SC_CLK_TCK")


def plain_loop(files: Mapping[str, Path], program: str, pictures: dict[str, bytes] | None = None) -> Run:
    """The plain loop: one page that visits ``files`` {page_id: file} in turn; keeps the pictures if asked to."""

    async def run() -> Run:
        from playwright.async_api import async_playwright

        async with async_playwright() as playwright:
            browser = await playwright.chromium.launch(executable_path=program, args=list(FLAGS))
            context = await browser.new_context(viewport={"width": 875, "height": 1024}, java_script_enabled=False)
            page = await context.new_page()
            started, busy, tiles = time.perf_counter(), busy_s(), 0
            for page_id, file in files.items():
                await page.goto(file.as_uri())
                picture = await page.screenshot(full_page=True)
                with Image.open(io.BytesIO(picture)) as image:
                    tiles += -(-image.height // 1024)
                if pictures is not None:
                    pictures[page_id] = picture
            seconds, cpu_s = time.perf_counter() - started, busy_s() - busy
            await browser.close()
            return Run(seconds, tiles, cpu_s)

    return asyncio.run(run())


def our_stage(pages: Path, out: Path, workers: int | None = None) -> Run:
    """The whole stage, with its default number of workers."""
    config = render_tiles.Config(pages=pages, out=out, max_tiles=None, max_tiles_per_page=None, workers=workers)
    started, busy = time.perf_counter(), busy_s()
    counts = run_stage(render_tiles.STAGE, config)["counts"]
    return Run(time.perf_counter() - started, counts["tiles"], busy_s() - busy)


def make_corpus(out: Path, **settings: Any) -> Path:
    """The folder of make_pages."""
    run_stage(make_pages.STAGE, make_pages.Config(out=out, workers=WORKERS, **settings))
    return out


def stitched(tiles: Path) -> dict[str, Image.Image]:
    """{page_id: all its tiles put together}, of pages that a single capture can show."""
    store = TileStore.open(tiles)
    pages = {page.page_id: page for page in read_jsonl(tiles / "pages.jsonl", Page) if page.height_px <= MAX_SINGLE_PX}
    whole = {key: Image.new("RGB", (page.width_px, page.height_px)) for key, page in pages.items()}
    for tile_id in store.tile_ids:
        tile = store.light(tile_id)
        if tile.page_id in whole:
            whole[tile.page_id].paste(store.image(tile_id), (tile.x_px, tile.y_px))
    return whole


def other_pixels(tiles: Path, pictures: dict[str, bytes]) -> tuple[int, list[str]]:
    """(pages compared, the page_ids that differ)."""
    whole = stitched(tiles)
    differing = []
    for page_id, ours in whole.items():
        with Image.open(io.BytesIO(pictures[page_id])) as image:
            theirs = image.convert("RGB")
        height = min(ours.height, theirs.height)  # a page lower than the window: the loop pictures the window
        box = (0, 0, min(ours.width, theirs.width), height)
        same_size = theirs.width == ours.width and (theirs.height == ours.height or theirs.height == 1024)
        if not same_size or ours.crop(box).tobytes() != theirs.crop(box).tobytes():
            differing.append(page_id)
    return len(whole), differing


def seam_mismatches(pages: Path, tiles: Path) -> tuple[int, int]:
    """(edges looked at, those where an overlapping capture shows other pixels) of pages too high for one capture."""
    store = TileStore.open(tiles)
    rendered = {page.page_id: page for page in read_jsonl(tiles / "pages.jsonl", Page)}
    high = [page for page in read_jsonl(pages / "pages.jsonl", Page) if page.page_id in rendered]
    high = [page for page in high if rendered[page.page_id].height_px > MAX_SINGLE_PX]

    async def run() -> tuple[int, int]:
        edges = wrong = 0
        async with Browser(FolderSite(pages), (875, 1024)) as browser:
            for page in high:
                async with browser.open(page, Profile(), 120) as opened:
                    for row in range(1, rendered[page.page_id].height_px // 1024 - 1):
                        box = TileBox(0, 0, 0, row * 1024 - 512, 875, 1024)
                        across = (await opened.capture(box, by_scrolling=True)).pixels()
                        above = np.asarray(store.image(f"{page.page_id}-{row - 1:04d}-00"))[512:1024]
                        below = np.asarray(store.image(f"{page.page_id}-{row:04d}-00"))[:512]
                        edges += 1
                        wrong += not np.array_equal(across, np.concatenate([above, below]))
        return edges, wrong

    return asyncio.run(run())


def tree_pss_mb(root: int) -> float:
    """Proportional set size of a process and all below it."""
    parents: dict[int, list[int]] = {}
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, ValueError):
            continue
        parents.setdefault(parent, []).append(int(folder.name))
    total, waiting = 0, [root]
    while waiting:
        pid = waiting.pop()
        waiting += parents.get(pid, [])
        try:
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += next((int(line.split()[1]) for line in lines if line.startswith("Pss:")), 0)
    return total / 1024


def peak_memory_mb(pages: Path, out: Path) -> float:
    """Peak PSS of a fresh process tree that renders ``pages``, sampled five times a second."""
    command = [sys.executable, __file__, "--render", str(pages), str(out)]
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    peak, stop = [0.0], threading.Event()

    def watch() -> None:
        while not stop.wait(0.2):
            peak[0] = max(peak[0], tree_pss_mb(process.pid))

    thread = threading.Thread(target=watch)
    thread.start()
    status = process.wait()
    stop.set()
    thread.join()
    if status:
        raise SystemExit(f"rendering {pages} failed")
    return peak[0]


def files_of(pages: Path, folder: Path | None) -> dict[str, Path]:
    """{page_id: HTML file that a plain loop would open}: the original one, its styles beside it."""
    records = read_jsonl(pages / "pages.jsonl", Page)
    if folder is None:
        return {page.page_id: pages / page.html_path for page in records}
    return {page.page_id: folder / unquote(page.document_url.removeprefix(BASE_URL)) for page in records}


def measure(pages: Path, work: Path, name: str, folder: Path | None = None) -> dict[str, Any]:
    """Speed and pixels of one corpus."""
    files = files_of(pages, folder)
    programs = [found for found in map(shutil.which, PROGRAMS) if found]
    pictures: dict[str, bytes] = {}
    plain = [plain_loop(files, programs[0], pictures)]
    ours = [our_stage(pages, work / f"{name}-0")]
    plain.append(plain_loop(files, programs[0]))
    ours.append(our_stage(pages, work / f"{name}-1"))
    compared, differing = other_pixels(work / f"{name}-0", pictures)
    edges, wrong = seam_mismatches(pages, work / f"{name}-0")
    plain_rate, our_rate = (sum(run.tiles for run in runs) / sum(run.seconds for run in runs) for runs in (plain, ours))
    plain_cpu, our_cpu = (sum(run.cpu_s for run in runs) / sum(run.tiles for run in runs) for runs in (plain, ours))
    result = {
        "pages": len(files),
        "tiles": ours[0].tiles,
        "program": Path(programs[0]).name,
        "plain_tiles_per_s": round(plain_rate, 2),
        "tiles_per_s": round(our_rate, 2),
        "ratio": round(our_rate / plain_rate, 2),
        "plain_cpu_s_a_tile": round(plain_cpu, 4),
        "cpu_s_a_tile": round(our_cpu, 4),
        "bound": round(WORKERS / plain_cpu / plain_rate, 2),
        "pages_compared": compared,
        "pages_with_other_pixels": len(differing),
        "seams": edges,
        "seam_mismatches": wrong,
    }
    if len(programs) > 1:
        full = plain_loop(files, programs[1])
        result["ratio_full_browser"] = round(our_rate / (full.tiles / full.seconds), 2)
    return result


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--cppreference", type=Path, metavar="FOLDER")
    parser.add_argument("--render", nargs=2, type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.render:
        our_stage(*options.render)
        return
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        result = {"benchmark": "render", "cores": WORKERS, "workers": WORKERS + render_tiles.SPARE_WORKERS}
        result["default_corpus"] = measure(make_corpus(work / "wiki", source="wiki_dump"), work, "wiki-tiles")
        if options.cppreference:
            settings = {
                "source": "html_folder",
                "path": options.cppreference,
                "base_url": BASE_URL,
            }
            few, many = (make_corpus(work / f"cpp-{count}", max_pages=count, **settings) for count in (100, 600))
            result["cppreference"] = measure(few, work, "cpp-tiles", options.cppreference)
            peaks = [peak_memory_mb(pages, work / f"memory-{pages.name}") for pages in (few, many)]
            result["memory_mb"], result["memory_ratio"] = [round(mb) for mb in peaks], round(peaks[1] / peaks[0], 3)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
