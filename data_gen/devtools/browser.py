"""A Chromium that was started for us: its version, its tabs, its end."""

import asyncio
import dataclasses
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Self

from tilewright.data_gen.devtools.connection import ROOT, DevToolsError
from tilewright.data_gen.devtools.process import ChromiumProcess, LaunchError
from tilewright.data_gen.devtools.tab import Request, Tab, TabSettings

_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
_FRAMES_ON_DEMAND = (  # each drawn when all that is in it is there
    "--enable-begin-frame-control",
    "--run-all-compositor-stages-before-draw",
    "--disable-new-content-rendering-timeout",
)
Attached = tuple[str, str]  # target id, session id


class DevToolsBrowser:
    """A running browser. No page of it runs before it is guarded, and none that wasn't asked for runs at all."""

    def __init__(self, frames_on_demand: bool) -> None:
        self.version = ""
        self._frame_lock = asyncio.Lock() if frames_on_demand else None
        self._tabs: dict[str, Tab] = {}  # by browser context
        self._opening: dict[str, asyncio.Future[Attached]] = {}  # by browser context
        self._process: ChromiumProcess

    @classmethod
    async def launch(
        cls, program: str, flags: Sequence[str], timeout_s: float, *, frames_on_demand: bool = False
    ) -> Self:
        """Start ``program``; if it draws ``frames_on_demand`` only, for pages without scripts. Raises LaunchError."""
        if frames_on_demand:
            flags = [*flags, *_FRAMES_ON_DEMAND]
        browser = cls(frames_on_demand)
        try:
            browser._process = ChromiumProcess(program, flags, browser._on_event)
        except OSError as error:
            raise LaunchError(str(error), []) from error
        try:
            browser.version = await browser._process.version(timeout_s)
            await browser._root.send("Target.setAutoAttach", _ATTACH)
        except BaseException:
            await browser.close()
            raise
        return browser

    @property
    def ended(self) -> bool:
        """Whether it has ended or can't be spoken to any more."""
        return self._process.connection.ended.is_set()

    @property
    def _root(self) -> Any:
        return self._process.connection.root

    async def close(self) -> None:
        """End it, whatever it does."""
        await self._process.close()

    async def new_tab(
        self, settings: TabSettings, answer: Callable[[Request], Awaitable[None]], refused: Callable[[], None]
    ) -> Tab:
        """An empty page; see Tab. Raises DevToolsError."""
        if settings.javascript and self._frame_lock is not None:
            raise ValueError("scripts wait for frames: this browser draws them on demand only")
        settings = dataclasses.replace(settings, frame_lock=self._frame_lock)
        context = (await self._root.send("Target.createBrowserContext", {"disposeOnDetach": True}))["browserContextId"]
        tab = Tab(self._process.connection, context, settings, answer, refused)
        here = {"browserContextId": context}
        await self._root.send("Browser.setDownloadBehavior", here | {"behavior": "deny"})
        await self._root.send("Browser.grantPermissions", here | {"permissions": []})
        self._opening[context] = asyncio.get_running_loop().create_future()
        try:
            width, height = settings.viewport_px
            page = here | {"url": "about:blank", "width": width, "height": height}
            page |= {"enableBeginFrameControl": settings.frame_lock is not None}
            creating = asyncio.ensure_future(self._root.send("Target.createTarget", page))
            attached, _ = await asyncio.gather(self._opening[context], creating)
            self._tabs[context] = tab
            await tab.start(*attached)
        except BaseException:
            self._tabs.pop(context, None)
            self._root.post("Target.disposeBrowserContext", here)
            raise
        finally:
            del self._opening[context]
        return tab

    async def close_tab(self, tab: Tab) -> None:
        """Close it with all that it opened. Raises DevToolsError, or TimeoutError if it doesn't end."""
        self._tabs.pop(tab.context_id, None)
        await tab.close()

    def _on_event(self, method: str, params: dict[str, Any]) -> None:
        if method == "Target.detachedFromTarget":
            self._process.connection.detach(params["sessionId"], "its target is closed")
        elif method == "Target.attachedToTarget":
            self._attached(params)

    def _attached(self, params: dict[str, Any]) -> None:
        """A page that we open, or what a page opened: a worker that lives by itself, a window."""
        info = params["targetInfo"]
        context = info.get("browserContextId", ROOT)
        opening, tab = self._opening.get(context), self._tabs.get(context)
        if info["type"] == "page" and opening is not None and not opening.done():
            opening.set_result((info["targetId"], params["sessionId"]))
        elif tab is not None:
            tab.adopt(params)
        else:
            self._root.post("Target.closeTarget", {"targetId": info["targetId"]})


__all__ = ["DevToolsBrowser", "DevToolsError", "LaunchError", "Request", "Tab", "TabSettings"]
