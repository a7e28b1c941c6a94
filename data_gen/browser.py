"""Chromium under Playwright: lays out one local page at a time, offline, scripts off, and pictures any part of it."""

import asyncio
import base64
import contextlib
import json
from collections.abc import Coroutine
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar
from urllib.parse import urlsplit
from urllib.request import url2pathname

from PIL import Image

from tilewright.data_gen.chromium import BrowserMissingError, launch, launch_first
from tilewright.data_gen.images import decode_image
from tilewright.data_gen.tiles import TileBox

T = TypeVar("T")
POLL_S = 0.02
CLOSE_TIMEOUT_S = 10.0
_UNKNOWN = ""  # no program chosen yet
_SIZE = "() => JSON.stringify([document.documentElement.scrollWidth, document.documentElement.scrollHeight])"
_LEFT_END = """() => {
  scrollTo({left: -1e7, top: 0, behavior: "instant"});
  return JSON.stringify(Math.round(scrollX));
}"""
_SCROLL = """() => {
  scrollTo({left: %d, top: %d, behavior: "instant"});
  return JSON.stringify([Math.round(scrollX), Math.round(scrollY)]);
}"""
_LAZY_IMAGES = """() => {
  for (const image of document.images) if (image.loading === "lazy") image.loading = "eager";
  return JSON.stringify([...document.images].every((image) => image.complete));
}"""


class BrowserCrashError(RuntimeError):
    """A page's process, or the whole browser, died under our hands."""


@dataclass
class OpenPage:
    """A laid-out page. ``refused`` counts the requests that weren't for files of the corpus."""

    page: Any
    session: Any
    viewport_px: tuple[int, int]
    size_px: tuple[int, int] = (0, 0)
    left_px: int = 0  # where a page begins: below 0 if it is written from right to left and wider than the window
    refused: int = 0
    navigated: bool = False

    async def read(self, script: str) -> Any:
        """Run our own function in the page; it returns JSON, which crosses over as one string: that is fast."""
        reply = await self.session.send("Runtime.evaluate", {"expression": f"({script})()", "returnByValue": True})
        if "exceptionDetails" in reply:
            raise RuntimeError(f"our script failed in the page: {reply['exceptionDetails']}")
        return json.loads(reply["result"]["value"])

    async def load_lazy_images(self) -> None:
        """Load images that wait to be scrolled to. (Their events don't fire where a page's scripts are off: so ask.)"""
        while not await self.read(_LAZY_IMAGES):
            await asyncio.sleep(POLL_S)

    async def is_unchanged(self) -> bool:
        """Whether the layout still has the size it had when the page was opened."""
        return tuple(await self.read(_SIZE)) == self.size_px

    async def capture(self, box: TileBox, *, by_scrolling: bool) -> Image.Image:
        """RGB picture of the page's part ``box``, of exactly its size.

        Scrolling there is several times faster, but shows what is fixed to the window wherever it goes. Raises
        RuntimeError if the picture has another size than asked for.
        """
        picture = await self._capture_by_scrolling(box) if by_scrolling else None
        return picture or await self._capture_by_clip(box)

    async def _capture_by_scrolling(self, box: TileBox) -> Image.Image | None:
        """The part put together from window-sized views; None if the page can't be scrolled to show all of it."""
        picture = Image.new("RGB", (box.width_px, box.height_px))
        width, height = self.viewport_px
        for y in range(box.y_px, box.y_px + box.height_px, height):
            for x in range(box.x_px, box.x_px + box.width_px, width):
                left, top = await self.read(_SCROLL % (x + self.left_px, y))
                left -= self.left_px
                right = min(x + width, box.x_px + box.width_px)
                bottom = min(y + height, box.y_px + box.height_px)
                if not (left <= x and right <= left + width and top <= y and bottom <= top + height):
                    return None
                view = await self._screenshot({})
                if view.size != self.viewport_px:
                    raise RuntimeError(f"asked Chromium for {self.viewport_px} px, got {view.size}")
                picture.paste(view.crop((x - left, y - top, right - left, bottom - top)), (x - box.x_px, y - box.y_px))
        return picture

    async def _capture_by_clip(self, box: TileBox) -> Image.Image:
        clip = {"x": box.x_px + self.left_px, "y": box.y_px, "width": box.width_px, "height": box.height_px, "scale": 1}
        await self.read(_SCROLL % (0, 0))
        picture = await self._screenshot({"clip": clip, "captureBeyondViewport": True})
        if picture.size != (box.width_px, box.height_px):
            raise RuntimeError(f"asked Chromium for {box.width_px} x {box.height_px} px, got {picture.size}")
        return picture

    async def _screenshot(self, options: dict[str, Any]) -> Image.Image:
        options = {"format": "png", "optimizeForSpeed": True} | options
        reply = await self.session.send("Page.captureScreenshot", options)
        return decode_image(base64.b64decode(reply["data"]))


class Browser:
    """One Chromium process showing files below ``root`` at ``viewport_px`` (width, height). Start, open, close."""

    def __init__(self, root: Path, viewport_px: tuple[int, int]) -> None:
        self._root, self._viewport_px = root.resolve(), viewport_px
        self._playwright: Any = None
        self._browser: Any = None
        self._program: str | None = _UNKNOWN
        self._context: Any = None
        self._crashed = asyncio.Event()

    async def __aenter__(self) -> Self:
        try:
            from playwright.async_api import async_playwright
        except ImportError as error:
            raise BrowserMissingError("rendering needs Playwright: pip install tilewright[render]") from error
        self._playwright = await async_playwright().start()
        await self.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._close_browser()
        await self._playwright.stop()

    @property
    def version(self) -> str:
        """Chromium's version; pixels depend on it."""
        return str(self._browser.version)

    async def start(self) -> None:
        """Start the browser, or start it anew after a crash. Raises BrowserMissingError."""
        await self._close_browser()
        self._crashed.clear()
        if self._program is _UNKNOWN:
            self._browser, self._program = await launch_first(self._playwright)
        else:  # another Chromium would give other pixels
            self._browser = await launch(self._playwright, self._program)
        width, height = self._viewport_px
        self._context = await self._browser.new_context(
            viewport={"width": width, "height": height},
            device_scale_factor=1,
            java_script_enabled=False,
            offline=True,
            accept_downloads=False,
            service_workers="block",
            reduced_motion="reduce",
            color_scheme="light",
            locale="en-US",
            timezone_id="UTC",
        )

    async def guarded(self, work: Coroutine[Any, Any, T], timeout_s: float) -> T:
        """The result of ``work`` on a page. Raises TimeoutError, or BrowserCrashError (a dead page answers nothing)."""
        working, crash = asyncio.ensure_future(work), asyncio.ensure_future(self._crashed.wait())
        try:
            await asyncio.wait({working, crash}, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise BrowserCrashError("the page crashed") if crash.done() else TimeoutError
        finally:
            for task in (working, crash):
                task.cancel()
            await asyncio.gather(working, crash, return_exceptions=True)

    async def open(self, path: Path, timeout_s: float) -> OpenPage:
        """Lay out the HTML file ``path``. Raises playwright's Error if it can't be loaded in time."""
        page = await self._context.new_page()
        page.on("crash", lambda _: self._crashed.set())
        opened = OpenPage(page, await self._context.new_cdp_session(page), self._viewport_px)
        await page.route("**/*", lambda route: self._decide(route, opened))
        await page.goto(path.resolve().as_uri(), wait_until="load", timeout=timeout_s * 1000)
        await opened.load_lazy_images()
        width, height = await opened.read(_SIZE)
        opened.size_px = (width, height)
        opened.left_px = await opened.read(_LEFT_END)
        return opened

    async def _decide(self, route: Any, opened: OpenPage) -> None:
        """Let files below the root through; refuse all else, also a page's wish to lead elsewhere by itself."""
        moving = route.request.is_navigation_request() and route.request.frame == opened.page.main_frame
        if self._is_ours(route.request.url) and not (moving and opened.navigated):
            opened.navigated = opened.navigated or moving
            await route.continue_()
            return
        opened.refused += 1
        await route.abort("aborted" if moving else "blockedbyclient")

    def _is_ours(self, url: str) -> bool:
        parts = urlsplit(url)
        if parts.scheme != "file" or parts.netloc:
            return False
        return Path(url2pathname(parts.path)).resolve().is_relative_to(self._root)

    async def _close_browser(self) -> None:
        if self._browser is not None:
            with contextlib.suppress(TimeoutError):  # one that hangs is left to die with its driver
                await asyncio.wait_for(self._browser.close(), CLOSE_TIMEOUT_S)
            self._browser = None
