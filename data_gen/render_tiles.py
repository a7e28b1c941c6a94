"""tiles: pages.jsonl and its HTML files -> screenshot tiles with their DOM text, as a tile store."""

import asyncio
import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError, process_items
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, main
from tilewright.data_gen.browser import Browser, OpenPage
from tilewright.data_gen.dom_layer import SCRIPT, DomLayer
from tilewright.data_gen.images import encode_png, image_sha256
from tilewright.data_gen.records import Page, Tile, read_jsonl, write_jsonl
from tilewright.data_gen.tile_store import read_tiles, write_store, write_tiles
from tilewright.data_gen.tiles import TileBox, tile_boxes, tile_id
from tilewright.data_gen.urls import PAGE_ID

WORK = ".work"
ATTEMPTS = 2
MAX_VIEWPORT_PX = 16_384  # Chromium captures no wider picture


@dataclass(frozen=True)
class Config:
    """What render_tiles does.

    ``max_tiles``: of the whole store; every page gets an equal share of it (None: all tiles); with fewer tiles than
    pages some get none and are dropped. ``max_tiles_per_page`` bounds a page besides. A sampled page keeps its first
    tile; the others are drawn by a digest of page id and ``seed``. ``workers``: Chromium processes. A page that takes
    longer than ``page_timeout_s`` has failed.
    """

    out: Path
    max_tiles: int | None
    max_tiles_per_page: int | None
    workers: int = execution()
    pages: Path = input_path()
    viewport_width_px: int = 875
    tile_width_px: int = 875
    tile_height_px: int = 1024
    min_tile_px: int = 32
    seed: int = 0
    page_timeout_s: float = 120.0
    max_page_height_px: int = 2_000_000
    max_error_share: float = execution(default=0.02)

    def __post_init__(self) -> None:
        tile_boxes(1, 1, self.tile_width_px, self.tile_height_px, self.min_tile_px)  # refuses sizes that can't be
        if self.page_timeout_s <= 0 or self.min_tile_px < 1 or self.viewport_width_px > MAX_VIEWPORT_PX:
            raise ValueError(
                "wanted page_timeout_s > 0, min_tile_px >= 1 and viewport_width_px up to"
                f" {MAX_VIEWPORT_PX}, found {self.page_timeout_s}, {self.min_tile_px} and {self.viewport_width_px}"
            )
        for name in ("workers", "max_tiles", "max_tiles_per_page", "viewport_width_px"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: wanted at least 1, found {value}")


def render_tiles(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write pages.jsonl (sizes, tile counts, whether all was captured) and store/. Raises InputError without pages."""
    path = inputs["pages"] / "pages.jsonl"
    if not path.is_file():
        raise InputError(f"{path}: wanted the pages of make_pages, found no such file")
    pages = read_jsonl(path, Page, unique="page_id")
    _check(pages, path)
    shares = tile_shares([page.page_id for page in pages], config.max_tiles, config.max_tiles_per_page, config.seed)
    (out / WORK).mkdir(exist_ok=True)
    renderer = _Renderer(config, inputs["pages"], out / WORK, shares)
    finished = process_items(
        "render_tiles",
        pages,
        lambda page: page.page_id,
        renderer.run,
        out,
        max_error_share=config.max_error_share,
    )
    kept = [page for page in pages if finished.get(page.page_id, {}).get("tiles")]
    if not kept:
        raise InputError(f"{path}: none of its {len(pages)} pages gave a tile (pages of no height, or all failed)")
    write_jsonl(out / "pages.jsonl", [_with_sizes(page, finished[page.page_id]) for page in kept])
    ordered = sorted(page.page_id for page in kept)
    tiles = write_store(out / "store", (tile for key in ordered for tile in read_tiles(out / WORK / f"{key}.arrow")))
    return _counts(pages, finished, tiles)


def _check(pages: Sequence[Page], path: Path) -> None:
    if not pages:
        raise InputError(f"{path}: no pages in this corpus; wanted at least one")
    for page in pages:
        if not PAGE_ID.fullmatch(page.page_id):
            raise InputError(f"{path}: page_id {page.page_id!r}: wanted 16 hex characters")


def _with_sizes(page: Page, value: dict[str, Any]) -> Page:
    sizes = {key: value[key] for key in ("width_px", "height_px", "complete")}
    return dataclasses.replace(page, html_path="", tile_count=value["tiles"], **sizes)


def _counts(pages: Sequence[Page], finished: dict[str, Any], tiles: int) -> Counts:
    values = list(finished.values())
    return {
        "pages": sum(value["tiles"] > 0 for value in values),
        "tiles": tiles,
        "tiles_of_whole_corpus": sum(value["tiles_of_page"] for value in values),
        "pages_complete": sum(value["complete"] for value in values),
        "pages_whose_height_changed": sum(not value["stable"] for value in values),
        "dropped_zero_height": sum(value["tiles_of_page"] == 0 for value in values),
        "dropped_no_share_of_max_tiles": sum(value["tiles_of_page"] > 0 == value["tiles"] for value in values),
        "failed": len(pages) - len(values),
        "requests_refused": sum(value["requests_refused"] for value in values),
        "chromium": sorted({value["chromium"] for value in values}),
    }


def tile_shares(
    page_ids: Sequence[str], max_tiles: int | None, max_tiles_per_page: int | None, seed: int
) -> dict[str, int | None]:
    """How many tiles each page may keep (None: all): equal shares of ``max_tiles``, the odd ones by digest."""
    if max_tiles is None:
        return dict.fromkeys(page_ids, max_tiles_per_page)
    share, odd = divmod(max_tiles, max(1, len(page_ids)))
    lucky = set(sorted(page_ids, key=lambda page_id: _digest(seed, page_id))[:odd])
    most = max_tiles if max_tiles_per_page is None else max_tiles_per_page
    return {page_id: min(most, share + (page_id in lucky)) for page_id in page_ids}


def choose_tiles(boxes: Sequence[TileBox], page_id: str, share: int | None, seed: int) -> list[TileBox]:
    """``share`` of a page's tiles in their order: the first one, others by digest of page id, place and seed."""
    if share is None or share >= len(boxes):
        return list(boxes)
    drawn = sorted(boxes[1:], key=lambda box: _digest(seed, tile_id(page_id, box.row, box.column)))
    kept = {boxes[0], *drawn[: share - 1]} if share else set()
    return [box for box in boxes if box in kept]


def _digest(seed: int, key: str) -> str:
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()


class _Renderer:
    """Renders pages in several browsers at once; one page's tiles are written to ``work`` when it is finished."""

    def __init__(self, config: Config, folder: Path, work: Path, shares: dict[str, int | None]) -> None:
        self._config, self._folder, self._work, self._shares = config, folder, work, shares

    def run(self, todo: Sequence[Page]) -> Iterator[tuple[Page, dict[str, Any] | ItemError]]:
        """(page, its counts or why it failed) as pages are finished."""
        if not todo:
            return
        loop = asyncio.new_event_loop()
        results: asyncio.Queue[tuple[Page, dict[str, Any] | ItemError]] = asyncio.Queue()
        waiting = iter(todo)
        count = min(self._config.workers, len(todo))
        workers = [loop.create_task(self._worker(waiting, results)) for _ in range(count)]
        try:
            for _ in todo:
                yield loop.run_until_complete(_next(results, workers))
            loop.run_until_complete(asyncio.gather(*workers))
        finally:
            for worker in workers:
                worker.cancel()
            loop.run_until_complete(asyncio.gather(*workers, return_exceptions=True))
            loop.close()

    async def _worker(self, waiting: Iterator[Page], results: asyncio.Queue[Any]) -> None:
        viewport_px = (self._config.viewport_width_px, self._config.tile_height_px)
        async with Browser(self._folder, viewport_px) as browser:
            for page in waiting:
                await results.put((page, await self._attempt(browser, page)))

    async def _attempt(self, browser: Browser, page: Page) -> dict[str, Any] | ItemError:
        """Render a page; after a crash or time-out start the browser anew, and after a crash try once more."""
        from playwright.async_api import Error

        reason = ""
        for _ in range(ATTEMPTS):
            try:
                return await browser.guarded(self._render(browser, page), self._config.page_timeout_s)
            except ItemError as error:
                await browser.start()  # its page is still open
                return error
            except TimeoutError:
                await browser.start()
                return ItemError(f"{page.url}: took more than page_timeout_s = {self._config.page_timeout_s} s")
            except (Error, RuntimeError) as error:
                reason = f"{page.url}: {str(error).splitlines()[0]}"
                await browser.start()
        return ItemError(f"{reason} ({ATTEMPTS} attempts)")

    async def _render(self, browser: Browser, page: Page) -> dict[str, Any]:
        opened = await browser.open(self._folder / page.html_path, self._config.page_timeout_s)
        layer = DomLayer(await opened.read(SCRIPT), page.url)
        config = self._config
        if layer.height_px > config.max_page_height_px:
            raise ItemError(f"{page.url}: {layer.height_px} px high, max_page_height_px is {config.max_page_height_px}")
        sizes = (config.tile_width_px, config.tile_height_px, config.min_tile_px)
        boxes = tile_boxes(layer.width_px, layer.height_px, *sizes) if layer.height_px else []
        chosen = choose_tiles(boxes, page.page_id, self._shares[page.page_id], config.seed)
        tiles = [await _capture(opened, layer, page, box) for box in chosen]
        stable = await opened.is_unchanged()
        refused = opened.refused
        await opened.page.close()
        write_tiles(self._work / f"{page.page_id}.arrow", sorted(tiles, key=lambda tile: tile.tile_id))
        return {
            "width_px": layer.width_px,
            "height_px": layer.height_px,
            "complete": stable and 0 < len(tiles) == len(boxes),
            "stable": stable,
            "tiles": len(tiles),
            "tiles_of_page": len(boxes),
            "requests_refused": refused,
            "chromium": browser.version,
        }


async def _capture(opened: OpenPage, layer: DomLayer, page: Page, box: TileBox) -> Tile:
    """A tile of an open page, with picture and content."""
    image = await opened.capture(box, by_scrolling=not layer.has_fixed_parts)
    content = layer.cut(box)
    return Tile(
        tile_id=tile_id(page.page_id, box.row, box.column),
        page_id=page.page_id,
        url=page.url,
        title=page.title,
        **dataclasses.asdict(box),
        image=encode_png(image),
        image_sha256=image_sha256(image),
        **{name: getattr(content, name) for name in ("text", "evidence_px", "words", "blocks", "links")},
    )


async def _next(results: asyncio.Queue[Any], workers: Sequence[asyncio.Task[None]]) -> Any:
    """The next result; an error of a worker is raised instead of waited for."""
    getting = asyncio.ensure_future(results.get())
    while not getting.done():
        running = [worker for worker in workers if not worker.done()]
        await asyncio.wait([getting, *running], return_when=asyncio.FIRST_COMPLETED)
        for worker in workers:
            if worker.done() and worker.exception() is not None:
                getting.cancel()
                worker.result()
    return getting.result()


STAGE = Stage("render_tiles", Config, render_tiles, schema=1)

if __name__ == "__main__":
    main(STAGE)
