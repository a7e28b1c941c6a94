"""A page of Chromium that sees only what it is given: each request, of its frames and workers too, is asked about."""

import asyncio
import sys
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tilewright.data_gen.devtools.connection import Connection, DevToolsError, Params, Session, all_sent

CLOSE_TIMEOUT_S = 10.0
_ATTACH = {"autoAttach": True, "waitForDebuggerOnStart": True, "flatten": True}
_PNG = {"format": "png", "optimizeForSpeed": True}
_EVERY_REQUEST = {"patterns": [{"urlPattern": "*", "requestStage": "Request"}]}
_OFFLINE = {"offline": True, "latency": 0, "downloadThroughput": -1, "uploadThroughput": -1}
_LINUX_FONTS = {
    "standard": "Times New Roman",
    "fixed": "Monospace",
    "serif": "Times New Roman",
    "sansSerif": "Arial",
    "cursive": "Comic Sans MS",
    "fantasy": "Impact",
}
_MEDIA = {"prefers-color-scheme": "light", "prefers-reduced-motion": "reduce"}
_NO_SERVICE_WORKERS = """if (self.ServiceWorkerContainer) {
  ServiceWorkerContainer.prototype.register = () => Promise.reject(new DOMException("blocked", "SecurityError"));
}"""
Headers = Mapping[str, str]
_WINDOW, _FRAME = "page", "iframe"
_RUN = "Runtime.runIfWaitingForDebugger"
# requests of a worker of one page are asked for by that page's session; those of a shared one slip through now and then
_GUARDS_OF_WORKERS: dict[str, dict[str, Params]] = {
    "worker": {"Network.enable": {}, "Target.setAutoAttach": _ATTACH},
}


@dataclass(frozen=True)
class Request:
    """A request of the page that waits for ``fulfill`` or ``refuse``. ``moving``: a frame wants to go there."""

    session: Session
    request_id: str
    url: str
    moving: bool
    of_main_frame: bool

    async def fulfill(self, status: int, body: bytes = b"", headers: Headers | None = None) -> None:
        """Answer it. Raises DevToolsError if the page doesn't wait for it any more."""
        given = dict(headers or {}) | {"content-length": str(len(body))}
        fields = [{"name": name, "value": value} for name, value in given.items()]
        answer = {"requestId": self.request_id, "responseCode": status, "responseHeaders": fields, "body": body}
        await self.session.send("Fetch.fulfillRequest", answer)

    async def refuse(self, reason: str) -> None:
        """Let it fail with one of Network.ErrorReason. Raises DevToolsError."""
        await self.session.send("Fetch.failRequest", {"requestId": self.request_id, "errorReason": reason})


@dataclass(frozen=True)
class TabSettings:
    """Size of the window (width, height), and whether the page's own scripts run.

    ``frame_lock``: frames are drawn when asked for only, one at a time in a browser; None: whenever it likes.
    """

    viewport_px: tuple[int, int]
    javascript: bool
    frame_lock: asyncio.Lock | None = None


@dataclass
class Tab:
    """A page in a browser context of its own. ``answer`` is asked about each request, ``refused`` told of sockets."""

    connection: Connection
    context_id: str
    settings: TabSettings
    answer: Callable[[Request], Awaitable[None]]
    refused: Callable[[], None]
    crashed: asyncio.Event = field(default_factory=asyncio.Event)
    target_id: str = ""
    session: Session = field(init=False)
    _tasks: set[asyncio.Task[None]] = field(default_factory=set)
    _arrived: dict[str, asyncio.Event] = field(default_factory=dict)  # by loader id: it has been committed
    _sent_to: str = ""  # loader id of the document that it was told to show
    _shown: tuple[str, str] = ("", "")  # loader id and address of the one it shows

    async def start(self, target_id: str, session_id: str) -> None:
        """Take over a page that waits for a debugger, and let it run. Raises DevToolsError."""
        self.target_id = target_id
        self.session = self._listen(session_id)
        width, height = self.settings.viewport_px
        size = {"width": width, "height": height, "screenWidth": width, "screenHeight": height}
        main: dict[str, Params] = {
            "Emulation.setFocusEmulationEnabled": {"enabled": True},
            "Emulation.setDeviceMetricsOverride": size
            | {
                "mobile": False,
                "deviceScaleFactor": 1,
                "screenOrientation": {"angle": 0, "type": "landscapePrimary"},
            },
        }
        await all_sent(self.session, self._looks() | main | self._guards() | {_RUN: {}})

    def adopt(self, attached: Params) -> None:
        """Take charge of what the page opened, by the parameters of Target.attachedToTarget."""
        info = attached["targetInfo"]
        session = self._listen(attached["sessionId"])
        if info["type"] == _WINDOW:
            self._close_window(session, info["targetId"])
        else:
            self._start(self._adopt(session, info["type"], info["targetId"]))

    async def go(self, url: str) -> None:
        """Go to ``url`` and wait until its document has begun. Raises DevToolsError if it can't be loaded."""
        reply = await self.session.send("Page.navigate", {"url": url})
        if reply.get("errorText") or "loaderId" not in reply:
            raise DevToolsError(f"{url}: {reply.get('errorText') or 'nothing to load'}")
        await self._arrived.setdefault(reply["loaderId"], asyncio.Event()).wait()
        self._arrived.clear()
        self._sent_to = reply["loaderId"]

    @property
    def went_to(self) -> str:
        """The address that the page went to by itself, without asking (about:blank, blob:); "" if it has stayed."""
        loader_id, url = self._shown
        return "" if loader_id == self._sent_to else url or "another document"

    async def whole_frame(self) -> bytes | None:
        """PNG of the window from a frame with all its parts; None where frames can't be asked for.

        Raises DevToolsError.
        """
        return None if self.settings.frame_lock is None else await self._frame({"screenshot": _PNG})

    async def screenshot(self, clip: Params | None = None) -> bytes:
        """PNG of the window, or of the page's part ``clip``, from the next frame. Raises DevToolsError.

        A busy Chromium draws one before all its parts are rastered; what isn't there yet is blank.
        """
        part = {} if clip is None else {"clip": clip, "captureBeyondViewport": True}
        capturing = asyncio.ensure_future(self.session.send("Page.captureScreenshot", _PNG | part))
        try:
            while self.settings.frame_lock is not None and not capturing.done():
                await self._frame({})
            return bytes((await capturing)["data"])
        finally:
            capturing.cancel()

    async def _frame(self, options: Params) -> bytes:
        """Draw a frame; a PNG of it if ``options`` ask for a screenshot."""
        assert self.settings.frame_lock is not None
        async with self.settings.frame_lock:
            reply = await self.session.send("HeadlessExperimental.beginFrame", options)
        if options and "screenshotData" not in reply:
            raise DevToolsError("a frame was drawn without a picture of it")
        return bytes(reply.get("screenshotData", b""))

    async def close(self) -> None:
        """Close it with all that it opened. Raises DevToolsError, or TimeoutError if it doesn't end."""
        for task in self._tasks:
            task.cancel()
        disposing = self.connection.root.send("Target.disposeBrowserContext", {"browserContextId": self.context_id})
        await asyncio.wait_for(disposing, CLOSE_TIMEOUT_S)

    def _guards(self) -> dict[str, Params]:
        """What keeps a page, or a frame in a process of its own, from the network, the rest of which it may change."""
        calls: dict[str, Params] = {"Network.enable": {}} if self.settings.javascript else {}  # it tells of sockets
        calls |= {
            "Fetch.enable": _EVERY_REQUEST,
            "Target.setAutoAttach": _ATTACH,
            "Network.emulateNetworkConditions": _OFFLINE,
            "Emulation.setScriptExecutionDisabled": {"value": not self.settings.javascript},
        }
        if self.settings.javascript:
            calls["Page.addScriptToEvaluateOnNewDocument"] = {"source": _NO_SERVICE_WORKERS, "runImmediately": True}
        return calls

    def _looks(self) -> dict[str, Params]:
        """How a page or frame looks."""
        media = [{"name": name, "value": value} for name, value in _MEDIA.items()]
        calls: dict[str, Params] = {
            "Page.enable": {},
            "Emulation.setUserAgentOverride": {"userAgent": "", "acceptLanguage": "en-US"},
            "Emulation.setLocaleOverride": {"locale": "en-US"},
            "Emulation.setTimezoneOverride": {"timezoneId": "UTC"},
            "Emulation.setEmulatedMedia": {"media": "", "features": media},
        }
        if sys.platform == "linux":
            calls["Page.setFontFamilies"] = {"fontFamilies": _LINUX_FONTS}
        return calls

    def _listen(self, session_id: str) -> Session:
        session = self.connection.attach(session_id, lambda method, params: self._on_event(session, method, params))
        return session

    def _on_event(self, session: Session, method: str, params: dict[str, Any]) -> None:
        """What happens in the page, its frames, its workers; of a crash it matters only if it is the page itself."""
        if method == "Fetch.requestPaused":
            self._start(self._ask(session, params))
        elif method == "Target.attachedToTarget":
            self.adopt(params)
        elif method == "Target.detachedFromTarget":
            self.connection.detach(params["sessionId"], "its target is closed")
        elif method == "Network.webSocketCreated":
            self.refused()
        elif method == "Page.javascriptDialogOpening":
            session.post("Page.handleJavaScriptDialog", {"accept": params.get("type") == "beforeunload"})
        elif session is self.session and method == "Inspector.targetCrashed":
            self.crashed.set()
        elif session is self.session and method == "Page.frameNavigated" and "parentId" not in params["frame"]:
            self._shown = params["frame"]["loaderId"], params["frame"]["url"]
            self._arrived.setdefault(params["frame"]["loaderId"], asyncio.Event()).set()

    def _start(self, work: Any) -> None:
        task = asyncio.ensure_future(_unless_gone(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _ask(self, session: Session, params: dict[str, Any]) -> None:
        asked = params["request"]
        if asked["url"].startswith("data:"):  # it is its own answer
            await session.send("Fetch.continueRequest", {"requestId": params["requestId"]})
            return
        moving = params.get("resourceType") == "Document"
        main = params.get("frameId") == self.target_id
        request = Request(session, params["requestId"], asked["url"], moving, main)
        headers = {name.lower(): value for name, value in asked.get("headers", {}).items()}
        if asked.get("method") == "OPTIONS" and "access-control-request-method" in headers:
            await request.fulfill(204, headers=_preflight(headers))
        else:
            await self.answer(request)

    async def _adopt(self, session: Session, kind: str, target_id: str) -> None:
        """Guard a frame or worker of the page and let it run. What can't be guarded is closed.

        Some answers come only when it runs; calls are obeyed in order, so it is guarded when it does.
        """
        guards = self._guards() if kind == _FRAME else _GUARDS_OF_WORKERS.get(kind)
        if kind == _FRAME:
            for method, params in self._looks().items():  # one that shares its page's process refuses some
                session.post(method, params)
        try:
            if guards is None:
                raise DevToolsError(f"{kind}: never let run")
            await all_sent(session, guards | {_RUN: {}})
        except DevToolsError:
            self.refused()
            self.connection.root.post("Target.closeTarget", {"targetId": target_id})

    def _close_window(self, session: Session, target_id: str) -> None:
        """Close what the page opened. It may share the page's process, which goes on only if it runs."""
        for method, params in (self._guards() | {_RUN: {}}).items():
            session.post(method, params)
        self.connection.root.post("Target.closeTarget", {"targetId": target_id})


def _preflight(asked: Mapping[str, str]) -> dict[str, str]:
    """Headers that allow what a preflight request asks for: the request itself is then refused or served."""
    allowed = {
        "access-control-allow-origin": asked.get("origin", "*"),
        "access-control-allow-methods": asked["access-control-request-method"],
        "access-control-allow-credentials": "true",
    }
    if "access-control-request-headers" in asked:
        allowed["access-control-allow-headers"] = asked["access-control-request-headers"]
    return allowed


async def _unless_gone(work: Awaitable[None]) -> None:
    """Do ``work``; a call that fails because the page has gone meanwhile doesn't matter."""
    try:
        await work
    except DevToolsError:
        return
