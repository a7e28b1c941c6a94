"""A page open in Chromium: its bytes served from a ``Site``, made still, read by our scripts, pictured part by part."""

import asyncio
import dataclasses
import json
from collections.abc import Coroutine
from dataclasses import dataclass
from importlib import resources
from typing import Any, TypeVar

import numpy as np

from tilewright.configs.items import ItemError
from tilewright.data_gen.browser_png import png_size, rgb_pixels
from tilewright.data_gen.devtools.connection import DevToolsError, Session
from tilewright.data_gen.devtools.tab import Request, Tab
from tilewright.data_gen.profiles import Profile
from tilewright.data_gen.records import Page
from tilewright.data_gen.site import Site
from tilewright.data_gen.tiles import TileBox

T = TypeVar("T")
Pixels = np.ndarray[Any, Any]
POLL_S = 0.02
GONE_S = 0.2
MAX_PICTURES = 6  # of one part, until two in a row are equal
SETTLE_LIMIT = 10  # a page whose scripts never rest is taken as it is after so many times `settle_s`
_WEB = ("https://", "http://")
_HTML = "text/html; charset=utf-8"
_ANY_ORIGIN = {"access-control-allow-origin": "*"}  # fonts of another host are asked for across origins
_SIZE = "() => JSON.stringify([document.documentElement.scrollWidth, document.documentElement.scrollHeight])"
_LEFT_END = """() => {
  scrollTo({left: -1e7, top: 0, behavior: "instant"});
  return JSON.stringify(Math.round(scrollX));
}"""
_SCROLL = """() => {
  scrollTo({left: %d, top: %d, behavior: "instant"});
  return JSON.stringify([Math.round(scrollX), Math.round(scrollY)]);
}"""
_READY = """() => JSON.stringify(document.readyState === "complete")"""
# the document and the open shadow roots in it, which selectors don't reach from outside
_ROOTS = """const roots = [document];
  for (const root of roots) {
    for (const { shadowRoot } of root.querySelectorAll("*")) {
      if (shadowRoot instanceof ShadowRoot) roots.push(shadowRoot); // a form may hold an input of that name
    }
  }
  const all = (selector) => roots.flatMap((root) => [...root.querySelectorAll(selector)]);"""
_PREPARE = resources.files("tilewright.data_gen").joinpath("prepare.js").read_text(encoding="utf-8")
_PREPARE = _PREPARE.replace("  ROOTS\n", f"  {_ROOTS}\n")
_LOADED = """() => { ROOTS
  document.documentElement.getBoundingClientRect(); // what lays text out asks for its fonts
  return JSON.stringify(document.fonts.status === "loaded" && all("img").every((image) => image.complete));
}""".replace("ROOTS", _ROOTS)
_FAULTS = """() => { ROOTS
  return JSON.stringify({
    images_failed: all("img").filter((image) => image.currentSrc && image.naturalWidth === 0).length,
    fonts_missing: [...document.fonts].filter((face) => face.status === "error").length,
    clipped: all("*").filter((element) => {
      if (element === document.documentElement || element === document.body) return false;
      const down = element.scrollHeight > element.clientHeight + 1 && element.clientHeight >= 16;
      const wide = element.clientWidth >= 16 && element.clientHeight > 0;
      const across = element.scrollWidth > element.clientWidth + 1 && wide;
      if (!(down || across) || /^(TEXTAREA|SELECT)$/.test(element.tagName)) return false;
      const { overflowX, overflowY } = getComputedStyle(element);
      return (down && /auto|scroll/.test(overflowY)) || (across && /auto|scroll/.test(overflowX));
    }).length,
  });
}""".replace("ROOTS", _ROOTS)


class BrowserCrashError(RuntimeError):
    """A page's process, or the whole browser, died under our hands."""


@dataclass(frozen=True)
class Faults:
    """What a page couldn't show: pictures that failed, fonts that are missing, parts that only scrolling shows."""

    images_failed: int
    fonts_missing: int
    clipped: int


@dataclass(frozen=True)
class Picture:
    """A part of a page: Chromium's own PNG where it shows exactly this part, else pixels put together [H, W, 3]."""

    png: bytes | None
    together: Pixels | None = None

    def pixels(self) -> Pixels:
        """[H, W, 3] uint8, RGB; decoding a tile takes several milliseconds."""
        if self.together is not None:
            return self.together
        assert self.png is not None
        return rgb_pixels(self.png)


@dataclass
class OpenPage:
    """A page of ``site``. ``refused`` counts its requests for what the site has not."""

    tab: Tab
    site: Site
    record: Page
    viewport_px: tuple[int, int]
    document: bytes = b""
    size_px: tuple[int, int] = (0, 0)
    left_px: int = 0  # where a page begins: below 0 if it is written from right to left and wider than the window
    refused: int = 0
    navigated: bool = False
    world: dict[str, int] = dataclasses.field(default_factory=dict)  # {"contextId"} of our own
    damage: str = ""  # why a file that the page has couldn't be read

    @property
    def session(self) -> Session:
        """What the page is spoken to by."""
        return self.tab.session

    async def load(self, profile: Profile, timeout_s: float) -> None:
        """Lay the page out and make it ready. Raises DevToolsError, ItemError for a document that isn't there."""
        try:
            self.document = self.site.document(self.record)
        except (ValueError, OSError) as error:
            raise ItemError(str(error)) from error
        address = self.record.document_url or self.record.url
        if not address.lower().startswith(_WEB):  # others a browser opens by itself, without asking us
            raise ItemError(
                f"{self.record.url}: wanted an http or https address of its document, found {address[:99]!r}"
            )
        await asyncio.wait_for(self.tab.go(address), timeout_s)
        await self._leave_its_world()
        settings = dataclasses.asdict(profile) | {"expand": bool(profile.content)}
        while not await self.read(_READY):
            await asyncio.sleep(POLL_S)
        await self.read(_PREPARE, json.dumps(settings))
        while not await self.read(_LOADED):
            await asyncio.sleep(POLL_S)
        if profile.javascript:
            await self._settle(profile.settle_s)
        width, height = await self.read(_SIZE)
        self.size_px = (width, height)
        self.left_px = await self.read(_LEFT_END)
        self.check_stays()

    async def _leave_its_world(self) -> None:
        """Run our functions where neither the page's scripts nor names in its markup can change what they call."""
        frame = {"frameId": self.tab.target_id, "worldName": "tilewright"}
        world = await self.session.send("Page.createIsolatedWorld", frame)
        self.world = {"contextId": world["executionContextId"]}

    async def _settle(self, settle_s: float) -> None:
        """Wait until the layout has kept its size for ``settle_s``, at most SETTLE_LIMIT times that."""
        loop = asyncio.get_running_loop()
        end = loop.time() + SETTLE_LIMIT * settle_s
        size, since = await self.read(_SIZE), loop.time()
        while loop.time() - since < settle_s and loop.time() < end:
            await asyncio.sleep(POLL_S)
            now = await self.read(_SIZE)
            if now != size:
                size, since = now, loop.time()

    async def read(self, script: str, argument: str = "") -> Any:
        """Run our own function in the page; it returns JSON, which crosses over as one string: that is fast."""
        call = {"expression": f"({script})({argument})", "returnByValue": True} | self.world
        try:
            reply = await self.session.send("Runtime.evaluate", call)
        except DevToolsError:
            await asyncio.sleep(GONE_S)  # our world goes with its document: what took its place is told a bit later
            self.check_stays()
            raise
        if "exceptionDetails" in reply:
            thrown = reply["exceptionDetails"].get("exception", {}).get("description", "an exception")
            raise RuntimeError(f"our script failed in the page: {thrown}")
        return json.loads(reply["result"]["value"])

    def check_stays(self) -> None:
        """Raise ItemError if the page went where the browser needn't ask us: what it shows is no page of ours."""
        if self.tab.went_to:
            place = "a blob of its own" if self.tab.went_to.startswith("blob:") else self.tab.went_to[:99]
            raise ItemError(f"{self.record.url}: it went to {place} by itself")

    async def guarded(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of ``work`` on this page. Raises BrowserCrashError if it dies meanwhile: it answers nothing."""
        working, crash = asyncio.ensure_future(work), asyncio.ensure_future(self.tab.crashed.wait())
        try:
            await asyncio.wait({working, crash}, return_when=asyncio.FIRST_COMPLETED)
            if working.done():
                return working.result()
            raise BrowserCrashError("the page crashed")
        finally:
            for task in (working, crash):
                task.cancel()
            await asyncio.gather(working, crash, return_exceptions=True)

    async def is_unchanged(self) -> bool:
        """Whether the layout still has the size it had when the page was opened."""
        return tuple(await self.read(_SIZE)) == self.size_px

    async def faults(self) -> Faults:
        """What the page couldn't show."""
        return Faults(**await self.read(_FAULTS))

    async def capture(self, box: TileBox, *, by_scrolling: bool) -> Picture:
        """RGB picture of the page's part ``box``, of exactly its size.

        Scrolling there is several times faster, but shows what is fixed to the window wherever it goes. Raises
        RuntimeError if the picture has another size than asked for, or the part can't be shown.
        """
        leftwards = self.left_px < 0  # Chromium clips nothing left of where a page begins: it gives white
        picture = await self._capture_by_scrolling(box) if by_scrolling or leftwards else None
        if picture is None and leftwards:
            raise RuntimeError(f"can't scroll to {box}")
        return picture or await self._capture_by_clip(box)

    async def _capture_by_scrolling(self, box: TileBox) -> Picture | None:
        """The part put together from window-sized views; None if the page can't be scrolled to show all of it."""
        width, height = self.viewport_px
        together = np.empty((0, 0, 3), dtype=np.uint8)
        for y in range(box.y_px, box.y_px + box.height_px, height):
            for x in range(box.x_px, box.x_px + box.width_px, width):
                left, top = await self.read(_SCROLL % (x + self.left_px, y))
                left -= self.left_px
                right = min(x + width, box.x_px + box.width_px)
                bottom = min(y + height, box.y_px + box.height_px)
                if not (left <= x and right <= left + width and top <= y and bottom <= top + height):
                    return None
                png = await self._screenshot(self.viewport_px)
                if (left, top) == (box.x_px, box.y_px) and self.viewport_px == (box.width_px, box.height_px):
                    return Picture(png)
                view = await asyncio.to_thread(rgb_pixels, png)
                if not together.size:
                    together = np.empty((box.height_px, box.width_px, 3), dtype=np.uint8)
                part = view[y - top : bottom - top, x - left : right - left]
                together[y - box.y_px : bottom - box.y_px, x - box.x_px : right - box.x_px] = part
        return Picture(None, together)

    async def _capture_by_clip(self, box: TileBox) -> Picture:
        clip = {"x": box.x_px, "y": box.y_px, "width": box.width_px, "height": box.height_px, "scale": 1}
        await self.read(_SCROLL % (0, 0))
        return Picture(await self._screenshot((box.width_px, box.height_px), clip))

    async def _screenshot(self, size_px: tuple[int, int], clip: dict[str, int] | None = None) -> bytes:
        """A picture from a frame that is known to be whole, else one that came twice in a row.

        Chromium may draw a frame before all of it is rastered (seen in one of some 1,000). Raises RuntimeError if
        none comes twice.
        """
        whole = await self.tab.whole_frame() if clip is None else None
        if whole is not None:
            return _of_size(whole, size_px)
        picture = await self.tab.screenshot(clip)
        for _ in range(MAX_PICTURES - 1):
            again = await self.tab.screenshot(clip)
            if again == picture:
                return _of_size(picture, size_px)
            picture = again
        raise RuntimeError(f"{MAX_PICTURES} pictures of one part differ: the page never comes to rest")

    async def answer(self, request: Request) -> None:
        """Serve the document once and the page's own files; refuse all else, also its wish to lead elsewhere."""
        main = request.moving and request.of_main_frame
        if main and not self.navigated:
            self.navigated = True
            await request.fulfill(200, self.document, {"content-type": _HTML})
            return
        found = None
        try:
            if not request.moving:
                found = await asyncio.to_thread(self.site.resource, self.record, request.url)
        except (ValueError, OSError) as error:
            self.damage = self.damage or str(error)
        if found is not None:
            await request.fulfill(200, found.data, _ANY_ORIGIN | {"content-type": found.media_type})
            return
        self.count_refused()
        if main:
            await request.fulfill(204)  # "no content": the browser stays where it is
        else:
            await request.refuse("Aborted" if request.moving else "BlockedByClient")

    def count_refused(self) -> None:
        """Count a request for what the site has not."""
        self.refused += 1


def _of_size(png: bytes, size_px: tuple[int, int]) -> bytes:
    """``png``. Raises RuntimeError if it is of another size."""
    found = png_size(png)
    if found != size_px:
        raise RuntimeError(f"asked Chromium for {size_px} px, got {found}")
    return png
