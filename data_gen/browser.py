"""A Chromium with its pages: each lays out one document, offline, from a ``Site``."""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator
from dataclasses import dataclass
from types import TracebackType
from typing import Self

from tilewright.configs.errors import InputError
from tilewright.data_gen.chromium import launch, launch_first
from tilewright.data_gen.devtools.browser import DevToolsBrowser, DevToolsError, Request, Tab, TabSettings
from tilewright.data_gen.open_page import OpenPage
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import Page
from tilewright.data_gen.site import Site

_SELECTOR_FAULT = """(selector) => {
  try { document.querySelector(selector); return ""; } catch (error) { return error.name; }
}"""


@dataclass
class _Shown:
    """A tab, and the page that is shown in it now."""

    tab: Tab | None = None
    page: OpenPage | None = None

    async def answer(self, request: Request) -> None:
        """Leave a request to the page that is shown."""
        if self.page is None:
            await request.refuse("Aborted")
        else:
            await self.page.answer(request)

    def refused(self) -> None:
        """Count a connection that leads nowhere."""
        if self.page is not None:
            self.page.count_refused()


class _Generation:
    """A running browser process, how many pages it was and is used for, and its tabs that wait for the next page."""

    def __init__(self, browser: DevToolsBrowser, javascript: bool) -> None:
        self.browser = browser
        self.javascript = javascript
        self.opened = 0
        self.open_now = 0
        self.retired = False
        self.idle: list[_Shown] = []


class Browser:
    """A Chromium that is kept alive, and started anew after ``pages_per_start`` pages or a crash.

    ``viewport_px`` (width, height). Pages may be open at the same time. No cookies, storage or cache pass from one
    to the next: a page with scripts has a context of its own.
    """

    def __init__(self, site: Site, viewport_px: tuple[int, int], pages_per_start: int = 500, program: str = "") -> None:
        self._site, self._viewport_px, self._pages_per_start = site, viewport_px, pages_per_start
        self.program = program  # "": the first that starts
        self._current: _Generation | None = None
        self._starting = asyncio.Lock()
        self.version = ""  # Chromium's; pixels depend on it

    async def __aenter__(self) -> Self:
        await self._generation(javascript=False)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._current is not None:
            await self._current.browser.close()

    async def check(self, profile: Profile) -> None:
        """Raise InputError for a selector of ``profile`` that this browser doesn't understand."""
        generation = await self._generation(profile.javascript)
        shown = await self._new_tab(generation, profile)
        assert shown.tab is not None
        try:
            for name in ("content", "remove", "reveal"):
                for selector in getattr(profile, name):
                    call = {"expression": f"({_SELECTOR_FAULT})({json.dumps(selector)})", "returnByValue": True}
                    fault = (await shown.tab.session.send("Runtime.evaluate", call))["result"]["value"]
                    if fault:
                        raise InputError(f"profile: {name}: wanted a CSS selector, found {selector!r} ({fault})")
        finally:
            await generation.browser.close_tab(shown.tab)

    async def _generation(self, javascript: bool) -> _Generation:
        """The browser to open the next page in, started if need be. Raises BrowserMissingError.

        Scripts wait for frames, so a browser that draws them on demand isn't one for pages with scripts.
        """
        async with self._starting:
            current = self._current
            if current is not None and not current.retired:
                usable = current.javascript == javascript and not current.browser.ended
                if usable and current.opened < self._pages_per_start:
                    return current
                await self._retire(current)
            if not self.program:
                browser, self.program = await launch_first(frames_on_demand=not javascript)
            else:  # another Chromium would give other pixels
                browser = await launch(self.program, frames_on_demand=not javascript)
            self.version = browser.version
            self._current = _Generation(browser, javascript)
            return self._current

    async def _retire(self, generation: _Generation) -> None:
        generation.retired = True
        if generation.open_now == 0:
            await generation.browser.close()

    @contextlib.asynccontextmanager
    async def open(self, page: Page, profile: Profile, timeout_s: float) -> AsyncIterator[OpenPage]:
        """Lay out ``page`` as ``profile`` says; closed at the end. Raises DevToolsError if it can't be loaded."""
        generation = await self._generation(profile.javascript)
        generation.opened += 1
        generation.open_now += 1
        shown: _Shown | None = None
        whole = False
        try:
            shown = await self._tab(generation, profile)
            assert shown.tab is not None
            shown.page = opened = OpenPage(shown.tab, self._site, page, self._viewport_px)
            await opened.guarded(opened.load(profile, timeout_s))
            yield opened
            whole = True
        finally:
            generation.open_now -= 1
            if shown is not None:
                shown.page = None
                await self._put_away(generation, shown, again=whole and not profile.javascript)
            if generation.retired and generation.open_now == 0:
                await generation.browser.close()

    async def _tab(self, generation: _Generation, profile: Profile) -> _Shown:
        """A tab for one page. Without scripts nothing can stay behind in one, so it is used again."""
        if generation.idle and not profile.javascript:
            return generation.idle.pop()
        return await self._new_tab(generation, profile)

    async def _new_tab(self, generation: _Generation, profile: Profile) -> _Shown:
        shown, settings = _Shown(), TabSettings(self._viewport_px, profile.javascript)
        shown.tab = await generation.browser.new_tab(settings, shown.answer, shown.refused)
        return shown

    async def _put_away(self, generation: _Generation, shown: _Shown, *, again: bool) -> None:
        assert shown.tab is not None
        if again and not generation.retired and not shown.tab.crashed.is_set():
            generation.idle.append(shown)
            return
        try:
            await generation.browser.close_tab(shown.tab)
        except (TimeoutError, DevToolsError):
            await self._retire(generation)  # a page that can't be closed would stay for ever
