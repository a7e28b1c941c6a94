"""One page -> its tiles: laid out by Chromium, measured, pictured tile by tile, cut into words, blocks and links."""

import asyncio
import dataclasses
import hashlib
import json
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from PIL import Image

from tilewright.configs.items import ItemError
from tilewright.data_gen.browser import Browser
from tilewright.data_gen.characters import page_file, write_page
from tilewright.data_gen.dom_layer import SCRIPT, DomLayer
from tilewright.data_gen.images import decode_image, encode_image, image_sha256, rgb_sha256
from tilewright.data_gen.open_page import Faults, OpenPage, Picture
from tilewright.data_gen.paged_documents import DocumentSizes
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import Page, Tile
from tilewright.data_gen.store.rows import TilesWriter
from tilewright.data_gen.tiles import TileBox, in_order_of_id, tile_boxes, tile_id

NO_FAULTS = Faults(images_failed=0, fonts_missing=0, clipped=0)
ImageFormat = Literal["png", "webp", "jpeg"]
MAX_PAGE_WIDTH_PX = 200_000  # a style may ask for 33 million px, whose tiles alone would fill the memory
TILES_IN_WORK = 3  # of a page: pictured, and now decoded, hashed and cut while the browser goes on
Facts = dict[str, Any]
Choose = Callable[[Sequence[TileBox]], Sequence[TileBox]]


@dataclass(frozen=True)
class PageSettings:
    """How a page is laid out and cut; see render_tiles.Config."""

    profile: Profile
    viewport_width_px: int
    tile_width_px: int
    tile_height_px: int
    min_tile_px: int
    max_page_height_px: int
    image_format: ImageFormat
    jpeg_quality: int
    page_timeout_s: float
    characters: bool

    @property
    def viewport_px(self) -> tuple[int, int]:
        """Width and height of the window: a tile is one view."""
        return self.viewport_width_px, self.tile_height_px

    @property
    def document_sizes(self) -> DocumentSizes:
        """The same for PDFs and pictures."""
        return DocumentSizes(
            self.tile_width_px,
            self.tile_height_px,
            self.min_tile_px,
            max_height_px=self.max_page_height_px,
            page_timeout_s=self.page_timeout_s,
            image_format=self.image_format,
            jpeg_quality=self.jpeg_quality,
        )


def choose_tiles(boxes: Sequence[TileBox], page_id: str, share: int | None, seed: int) -> list[TileBox]:
    """``share`` of a page's tiles in their order: the first one, others by digest of page id, place and seed."""
    if share is None or share >= len(boxes):
        return list(boxes)
    drawn = sorted(boxes[1:], key=lambda box: digest(seed, tile_id(page_id, box.row, box.column)))
    kept = {boxes[0], *drawn[: share - 1]} if share else set()
    return [box for box in boxes if box in kept]


def digest(seed: int, key: str) -> str:
    """A stable number for ``key``, as 64 hex characters."""
    return hashlib.sha256(f"{seed}:{key}".encode()).hexdigest()


async def render_page(browser: Browser, page: Page, choose: Choose, settings: PageSettings, path: Path) -> Facts:
    """Write those of the page's tiles that ``choose`` picks to ``path``; return what the journal keeps of it.

    With ``settings.characters`` their characters come to lie beside it, as ``page_file`` names it.
    Raises ItemError for a page that is too high, TimeoutError, and RuntimeError from the browser.
    """
    async with (
        asyncio.timeout(settings.page_timeout_s),
        browser.open(page, settings.profile, settings.page_timeout_s) as opened,
    ):
        return await opened.guarded(_render(opened, page, choose, settings, path)) | {"chromium": browser.version}


async def _render(opened: OpenPage, page: Page, choose: Choose, settings: PageSettings, path: Path) -> Facts:
    wanted = json.dumps(settings.characters)
    shown = await opened.read(SCRIPT, wanted)
    layer = await asyncio.to_thread(DomLayer, shown, page.url)
    if layer.height_px > settings.max_page_height_px:
        limit = settings.max_page_height_px
        raise ItemError(f"{page.url}: {layer.height_px} px high, max_page_height_px is {limit}")
    if layer.width_px > MAX_PAGE_WIDTH_PX:
        raise ItemError(f"{page.url}: {layer.width_px} px wide, at most {MAX_PAGE_WIDTH_PX} px can be rendered")
    sizes = (settings.tile_width_px, settings.tile_height_px, settings.min_tile_px)
    boxes = tile_boxes(layer.width_px, layer.height_px, *sizes) if layer.height_px else []
    chosen = in_order_of_id(choose(boxes))
    with TilesWriter(path) as writer:
        waiting: deque[asyncio.Task[Tile]] = deque()
        for box in chosen:
            picture = await opened.capture(box, by_scrolling=not layer.has_fixed_parts)
            waiting.append(asyncio.create_task(asyncio.to_thread(_tile, page, box, picture, layer, settings)))
            if len(waiting) > TILES_IN_WORK:
                writer.write(await waiting.popleft())
        stable, faults = await opened.is_unchanged(), await opened.faults()
        # without scripts nothing can put other words into the same place
        same_words = not settings.profile.javascript or await opened.read(SCRIPT, wanted) == shown
        opened.check_stays()
        while waiting:
            writer.write(await waiting.popleft())
    if opened.damage:
        raise ItemError(f"{page.url}: {opened.damage}")
    if settings.characters:
        await asyncio.to_thread(_write_characters, page_file(path.parent, page.page_id), page, layer, chosen)
    facts = facts_of(layer.width_px, layer.height_px, len(boxes), writer.count, stable, faults)
    facts["complete"] &= same_words
    return facts | {"words_changed": not same_words, "requests_refused": opened.refused}


def _write_characters(path: Path, page: Page, layer: DomLayer, boxes: Sequence[TileBox]) -> None:
    write_page(path, {tile_id(page.page_id, box.row, box.column): layer.cut_characters(box) for box in boxes})


def facts_of(
    width_px: int, height_px: int, all_tiles: int, tiles: int, stable: bool = True, faults: Faults = NO_FAULTS
) -> Facts:
    """What is kept of a rendered page. ``complete``: all of it was captured, and nothing moved meanwhile."""
    return {
        "width_px": width_px,
        "height_px": height_px,
        "complete": stable and faults.clipped == 0 and 0 < tiles == all_tiles,
        "stable": stable,
        "tiles": tiles,
        "tiles_of_page": all_tiles,
        **dataclasses.asdict(faults),
    }


def _tile(page: Page, box: TileBox, picture: Picture, layer: DomLayer, settings: PageSettings) -> Tile:
    """A tile with picture and content. Chromium's own PNG is kept where there is one: encoding is half of the work."""
    content = layer.cut(box)
    kept = picture.png if settings.image_format == "png" else None
    pixels = picture.pixels()
    encoded = kept or encode_image(Image.fromarray(pixels), settings.image_format, settings.jpeg_quality)
    lossy = settings.image_format == "jpeg"
    return Tile(
        tile_id=tile_id(page.page_id, box.row, box.column),
        page_id=page.page_id,
        url=page.url,
        title=page.title,
        **dataclasses.asdict(box),
        image=encoded,
        image_sha256=image_sha256(decode_image(encoded)) if lossy else rgb_sha256(pixels),
        **{name: getattr(content, name) for name in ("text", "evidence_px", "words", "blocks", "links")},
    )
