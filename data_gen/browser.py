"""Chromium under Playwright: lays out one local page at a time, offline, scripts off, and takes pictures of any part."""

import base64
import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit
from urllib.request import url2pathname

from PIL import Image

from tilewright.configs.errors import UserError
from tilewright.data_gen.images import decode_image
from tilewright.data_gen.tiles import TileBox

PROGRAMS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
FLAGS = (
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--font-render-hinting=none",
    "--disable-lcd-text",
    "--host-resolver-rules=MAP * ~NOTFOUND",
)
MAX_STRIP_PX = 8192  # one capture; Chromium's textures end at 16,384 px
_SIZE = "[document.documentElement.scrollWidth, document.documentElement.scrollHeight]"


class BrowserMissingError(UserError, RuntimeError):
    """There's no Chromium, or no Playwright to drive it."""


@dataclass
class OpenPage:
    """A laid-out page. ``refused`` counts the requests that weren't for files of the corpus."""

    page: Any
    session: Any
    size_px: tuple[int, int] = (0, 0)
    refused: int = 0
    _navigated: bool = field(default=False, repr=False)

    async def evaluate(self, script: str) -> Any:
        """Run our own script in the page."""
        return await self.page.evaluate(script)

    async def is_unchanged(self) -> bool:
        """Whether the layout still has the size it had when the page was opened."""
        return tuple(await self.page.evaluate(_SIZE)) == self.size_px

    async def capture(self, strip: TileBox) -> Image.Image:
        """RGB picture of a part of the page of at most MAX_STRIP_PX a side. Raises if a part of it is missing."""
        clip = {"x": strip.x_px, "y": strip.y_px, "width": strip.width_px, "height": strip.height_px, "scale": 1}
        options = {"format": "png", "clip": clip, "captureBeyondViewport": True, "optimizeForSpeed": True}
        reply = await self.session.send("Page.captureScreenshot", options)
        image = decode_image(base64.b64decode(reply["data"]))
        if image.size != (strip.width_px, strip.height_px):
            raise RuntimeError(f"asked Chromium for {strip.width_px} x {strip.height_px} px, got {image.size}")
        return image


class Browser:
    """One Chromium process showing files below ``root`` at ``viewport_px`` (width, height). Start, open, close."""

    def __init__(self, root: Path, viewport_px: tuple[int, int]) -> None:
        self._root, self._viewport_px = root.resolve(), viewport_px
        self._playwright: Any = None
        self._browser: Any = None
        self._context: Any = None

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
        self._browser = await _launch(self._playwright)
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

    async def open(self, path: Path, timeout_s: float) -> OpenPage:
        """Lay out the HTML file ``path``. Raises playwright's Error if it can't be loaded in time."""
        page = await self._context.new_page()
        opened = OpenPage(page, await self._context.new_cdp_session(page))
        await page.route("**/*", lambda route: self._decide(route, opened))
        await page.goto(path.resolve().as_uri(), wait_until="load", timeout=timeout_s * 1000)
        width, height = await page.evaluate(_SIZE)
        opened.size_px = (width, height)
        return opened

    async def _decide(self, route: Any, opened: OpenPage) -> None:
        """Let files below the root through; refuse all else, also a page's wish to lead elsewhere by itself."""
        moving = route.request.is_navigation_request() and route.request.frame == opened.page.main_frame
        if self._is_ours(route.request.url) and not (moving and opened._navigated):
            opened._navigated = opened._navigated or moving
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
            await self._browser.close()
            self._browser = None


async def _launch(playwright: Any) -> Any:
    """Chromium from PATH, else Playwright's own. As root, or where the kernel allows none, it runs without sandbox."""
    from playwright.async_api import Error

    program = next((found for name in PROGRAMS if (found := shutil.which(name))), None)
    if program is None and not Path(playwright.chromium.executable_path).exists():
        raise BrowserMissingError(
            f"no Chromium found ({', '.join(PROGRAMS)} on PATH): `apt-get install chromium fonts-liberation`, or"
            " `playwright install --with-deps chromium`"
        )
    sandbox = os.geteuid() != 0
    try:
        return await playwright.chromium.launch(executable_path=program, args=list(FLAGS), chromium_sandbox=sandbox)
    except Error as error:
        if not sandbox or "sandbox" not in str(error).lower():
            raise BrowserMissingError(f"Chromium ({program or 'of Playwright'}) doesn't start: {error}") from error
    print("render_tiles: this machine allows Chromium no sandbox; it runs without", file=sys.stderr)
    return await playwright.chromium.launch(executable_path=program, args=list(FLAGS), chromium_sandbox=False)


def strips(boxes: Sequence[TileBox], max_px: int = MAX_STRIP_PX) -> list[tuple[TileBox, list[TileBox]]]:
    """Group tiles of one column that lie one below the other into strips of at most ``max_px``: (strip, its tiles)."""
    groups: list[list[TileBox]] = []
    for box in sorted(boxes, key=lambda box: (box.column, box.row)):
        last = groups[-1] if groups else []
        follows = bool(last) and last[-1].column == box.column and last[-1].row + 1 == box.row
        if follows and box.y_px + box.height_px - last[0].y_px <= max_px:
            last.append(box)
        else:
            groups.append([box])
    return [
        (TileBox(g[0].row, g[0].column, g[0].x_px, g[0].y_px, g[0].width_px, sum(box.height_px for box in g)), g)
        for g in groups
    ]
