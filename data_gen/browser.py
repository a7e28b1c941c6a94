"""One Chromium under Playwright with several pages: each lays out one document, offline, from a ``Site``."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from types import TracebackType
from typing import Any, Self

from tilewright.data_gen.chromium import BrowserMissingError, launch, launch_first
from tilewright.data_gen.open_page import OpenPage
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import Page
from tilewright.data_gen.site import Site

CLOSE_TIMEOUT_S = 10.0
_UNKNOWN = ""  # no program chosen yet


class _Generation:
    """A running browser process and how many pages it was and is used for."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.opened = 0
        self.open_now = 0
        self.retired = False
        self.dead = asyncio.Event()
        browser.on("disconnected", lambda _: self.dead.set())

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError):  # one that hangs is left to die with its driver
            await asyncio.wait_for(self.browser.close(), CLOSE_TIMEOUT_S)


class Browser:
    """A Chromium that is kept alive, and started anew after ``pages_per_start`` pages or a crash.

    ``viewport_px`` (width, height). Pages may be open at the same time; each has a context of its own: no cookies,
    storage or cache pass from one to the next.
    """

    def __init__(self, site: Site, viewport_px: tuple[int, int], pages_per_start: int = 500) -> None:
        self._site, self._viewport_px, self._pages_per_start = site, viewport_px, pages_per_start
        self._playwright: Any = None
        self._program: str | None = _UNKNOWN
        self._current: _Generation | None = None
        self._starting = asyncio.Lock()
        self.version = ""  # Chromium's; pixels depend on it

    async def __aenter__(self) -> Self:
        try:
            from playwright.async_api import async_playwright
        except ImportError as error:
            raise BrowserMissingError("rendering needs Playwright: pip install tilewright[render]") from error
        self._playwright = await async_playwright().start()
        try:
            await self._generation()
        except BaseException:
            await self._playwright.stop()
            raise
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._current is not None:
            await self._current.close()
        await self._playwright.stop()

    async def _generation(self) -> _Generation:
        """The browser to open the next page in, started if need be. Raises BrowserMissingError."""
        async with self._starting:
            current = self._current
            if current is not None and not current.retired and not current.dead.is_set():
                if current.opened < self._pages_per_start:
                    return current
                await self._retire(current)
            if self._program is _UNKNOWN:
                browser, self._program = await launch_first(self._playwright)
            else:  # another Chromium would give other pixels
                browser = await launch(self._playwright, self._program)
            self.version = str(browser.version)
            self._current = _Generation(browser)
            return self._current

    async def _retire(self, generation: _Generation) -> None:
        generation.retired = True
        if generation.open_now == 0:
            await generation.close()

    @contextlib.asynccontextmanager
    async def open(self, page: Page, profile: Profile, timeout_s: float) -> AsyncIterator[OpenPage]:
        """Lay out ``page`` as ``profile`` says; closed at the end. Raises playwright's Error if it can't be loaded."""
        generation = await self._generation()
        generation.opened += 1
        generation.open_now += 1
        context: Any = None
        try:
            context = await self._context(generation.browser, profile)
            opened = OpenPage(await context.new_page(), self._site, page, self._viewport_px)
            opened.page.on("crash", lambda _: opened.crashed.set())
            generation.browser.on("disconnected", lambda _: opened.crashed.set())
            await opened.guarded(opened.load(profile, timeout_s))
            yield opened
        finally:
            generation.open_now -= 1
            if not await _closed(context):
                await self._retire(generation)  # a page that can't be closed would stay for ever
            if generation.retired and generation.open_now == 0:
                await generation.close()

    async def _context(self, browser: Any, profile: Profile) -> Any:
        width, height = self._viewport_px
        return await browser.new_context(
            viewport={"width": width, "height": height},
            device_scale_factor=1,
            java_script_enabled=profile.javascript,
            offline=True,
            accept_downloads=False,
            service_workers="block",
            reduced_motion="reduce",
            color_scheme="light",
            locale="en-US",
            timezone_id="UTC",
            permissions=[],
        )


async def _closed(context: Any) -> bool:
    """Close a page's context; whether that went well."""
    from playwright.async_api import Error

    try:
        if context is not None:
            await asyncio.wait_for(context.close(), CLOSE_TIMEOUT_S)
    except (TimeoutError, Error):
        return False
    return True
