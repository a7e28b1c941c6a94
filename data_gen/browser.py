"""One Chromium under Playwright with several pages: each lays out one document, offline, from a ``Site``."""

import asyncio
import contextlib
from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

from tilewright.configs.errors import InputError
from tilewright.data_gen.chromium import BrowserMissingError, launch, launch_first
from tilewright.data_gen.open_page import OpenPage
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import Page
from tilewright.data_gen.site import Site

CLOSE_TIMEOUT_S = 10.0
_SELECTOR_FAULT = """(selector) => {
  try { document.querySelector(selector); return ""; } catch (error) { return error.name; }
}"""
_UNKNOWN = ""  # no program chosen yet


@dataclass
class _Tab:
    """A page of the browser with a context of its own, and what is shown in it now."""

    context: Any
    page: Any
    session: Any
    shown: OpenPage | None = None
    crashed: asyncio.Event = field(default_factory=asyncio.Event)

    def refuse(self, socket: Any) -> None:
        """Count a connection that leads nowhere."""
        if self.shown is not None:
            self.shown.count_refused()

    async def answer(self, route: Any) -> None:
        """Leave a request to the page that is shown."""
        if self.shown is None:
            await route.abort("aborted")
        else:
            await self.shown.answer(route)

    async def close(self) -> bool:
        """Close it; whether that went well."""
        from playwright.async_api import Error

        try:
            await asyncio.wait_for(self.context.close(), CLOSE_TIMEOUT_S)
        except (TimeoutError, Error):
            return False
        return True


class _Generation:
    """A running browser process, how many pages it was and is used for, and its tabs that wait for the next page."""

    def __init__(self, browser: Any) -> None:
        self.browser = browser
        self.opened = 0
        self.open_now = 0
        self.retired = False
        self.idle: list[_Tab] = []
        self.dead = asyncio.Event()
        browser.on("disconnected", lambda _: self.dead.set())

    async def close(self) -> None:
        with contextlib.suppress(TimeoutError):  # one that hangs is left to die with its driver
            await asyncio.wait_for(self.browser.close(), CLOSE_TIMEOUT_S)


class Browser:
    """A Chromium that is kept alive, and started anew after ``pages_per_start`` pages or a crash.

    ``viewport_px`` (width, height). Pages may be open at the same time. No cookies, storage or cache pass from one
    to the next: a page with scripts has a context of its own.
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

    async def check(self, profile: Profile) -> None:
        """Raise InputError for a selector of ``profile`` that this browser doesn't understand."""
        generation = await self._generation()
        context = await generation.browser.new_context(offline=True)
        try:
            page = await context.new_page()
            for name in ("content", "remove", "reveal"):
                for selector in getattr(profile, name):
                    fault = await page.evaluate(_SELECTOR_FAULT, selector)
                    if fault:
                        raise InputError(f"profile: {name}: wanted a CSS selector, found {selector!r} ({fault})")
        finally:
            await context.close()

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
        tab: _Tab | None = None
        whole = False
        try:
            tab = await self._tab(generation, profile)
            opened = OpenPage(tab.page, tab.session, tab.crashed, self._site, page, self._viewport_px)
            tab.shown = opened
            await opened.guarded(opened.load(profile, timeout_s))
            yield opened
            whole = True
        finally:
            generation.open_now -= 1
            if tab is not None:
                tab.shown = None
                await self._put_away(generation, tab, again=whole and not profile.javascript)
            if generation.retired and generation.open_now == 0:
                await generation.close()

    async def _tab(self, generation: _Generation, profile: Profile) -> _Tab:
        """A tab for one page. Without scripts nothing can stay behind in one, so it is used again."""
        if generation.idle and not profile.javascript:
            return generation.idle.pop()
        context = await self._context(generation.browser, profile)
        page = await context.new_page()
        tab = _Tab(context, page, await context.new_cdp_session(page))
        page.on("crash", lambda _: tab.crashed.set())
        generation.browser.on("disconnected", lambda _: tab.crashed.set())
        page.on("websocket", tab.refuse)
        page.on("popup", lambda popup: asyncio.ensure_future(popup.close()))
        await page.route("**/*", tab.answer)
        return tab

    async def _put_away(self, generation: _Generation, tab: _Tab, *, again: bool) -> None:
        if again and not generation.retired and not tab.crashed.is_set():
            generation.idle.append(tab)
        elif not await tab.close():
            await self._retire(generation)  # a page that can't be closed would stay for ever

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
