"""Whatever a hostile page asks for, itself, by frames, workers and windows: we are asked, and nothing gets out."""

import asyncio
import shutil
from collections.abc import Callable
from typing import Any

import pytest

from tilewright.data_gen.chromium import FLAGS, PROGRAMS
from tilewright.data_gen.devtools.browser import DevToolsBrowser, Request, Tab, TabSettings

pytestmark = pytest.mark.browser
HTML = {"content-type": "text/html; charset=utf-8"}
PAGE = "https://example.com/page"
FETCH = "fetch('{}').catch(() => 0);"


def run_worker(code: str) -> str:
    return f"new Worker(URL.createObjectURL(new Blob([`{code}`])));"


class Asked:
    """A page at PAGE made of ``documents`` {url: HTML}; what was asked for, how many sockets were refused."""

    def __init__(self, documents: dict[str, str]) -> None:
        self.documents, self.urls, self.sockets, self.text = documents, set[str](), 0, ""

    async def answer(self, request: Request) -> None:
        self.urls.add(request.url)
        if request.moving and request.url in self.documents:
            await request.fulfill(200, self.documents[request.url].encode(), HTML)
        elif request.moving and request.of_main_frame:
            await request.fulfill(204)
        else:
            await request.refuse("BlockedByClient")

    def refused(self) -> None:
        self.sockets += 1

    async def visit(self, done: Callable[[], bool], *flags: str, javascript: bool = True) -> None:
        """Show the page until ``done``, or 90 seconds."""
        program = next(found for name in PROGRAMS if (found := shutil.which(name)))
        proxy = ("--proxy-server=http://127.0.0.1:9", "--proxy-bypass-list=<-loopback>", "--no-sandbox", "--headless")
        browser = await DevToolsBrowser.launch(program, [*proxy, *FLAGS, *flags], 30)
        try:
            tab = await browser.new_tab(TabSettings((800, 600), javascript), self.answer, self.refused)
            await asyncio.wait_for(tab.go(PAGE), 20)
            for _ in range(900):
                if done():
                    break
                await asyncio.sleep(0.1)
            self.text = await evaluate(tab, "document.body.innerText")
            assert await evaluate(tab, "location.pathname") == "/page"
            await browser.close_tab(tab)
        finally:
            await browser.close()


async def evaluate(tab: Tab, expression: str) -> Any:
    call = {"expression": expression, "returnByValue": True}
    return (await tab.session.send("Runtime.evaluate", call))["result"]["value"]


def test_workers_frames_and_windows_are_asked_about_and_nothing_gets_out() -> None:
    connections: list[str] = []

    async def main() -> Asked:
        async def count(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            connections.append("in")
            writer.close()

        server = await asyncio.start_server(count, "127.0.0.1", 0)
        host = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        here = f"http://{host}/"
        worker = FETCH.format(here + "worker") + f"new WebSocket('ws://{host}/');"
        worker += f"try {{ importScripts('{here}import') }} catch {{}}"
        shared = f"new SharedWorker(URL.createObjectURL(new Blob([`{FETCH.format(here + 'shared')}`])));"
        inner = FETCH.format(here + "inner")
        html = (
            f"<!doctype html><p id=p></p><img src='{here}img'><link rel=preconnect href='{here}'>"
            f"<link rel=prefetch href='{here}prefetch'><iframe src='{here}frame'></iframe>"
            f'<iframe sandbox=allow-scripts srcdoc="<script>{inner}</script>"></iframe>'
            f"<a id=a href='#' ping='{here}ping'></a><script>"
            + run_worker(worker)
            + run_worker(f"fetch('{here}second')")
            + shared
            + f"navigator.sendBeacon('{here}beacon'); new EventSource('{here}events');"
            f"fetch('{here}put', {{method: 'PUT', headers: {{'x-a': '1'}}}}).catch(() => 0);"
            f"for (let n = 0; n < 9; n++) open('{here}window' + n);"
            f"const w = open('about:blank'); if (w) w.fetch('{here}of_window').catch(() => 0);"
            f"open('{here}noopener', '_blank', 'noopener'); a.click();"
            "navigator.serviceWorker.register('/sw.js').catch((error) => p.textContent = error.name);"
            f"new RTCPeerConnection({{iceServers: [{{urls: 'stun:{host}'}}]}}).createDataChannel('x');"
            f"setTimeout(() => location.href = '{here}away', 2000);</script>"
        )
        asked = Asked({PAGE: html})
        names = ["worker", "import", "second", "inner", "img", "prefetch", "frame", "beacon", "events"]
        names += ["put", "ping", "away"]
        wanted = {here + name for name in names}
        await asked.visit(lambda: wanted <= asked.urls and asked.sockets > 1)  # the shared worker is refused whole
        assert wanted - asked.urls == set() and here + "shared" not in asked.urls
        server.close()
        return asked

    asked = asyncio.run(main())
    assert connections == [] and asked.sockets >= 2 and asked.text == "SecurityError"
    assert "https://example.com/sw.js" not in asked.urls


def test_a_frame_in_a_process_of_its_own_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    other, kinds, adopt = "https://other.example/", [], Tab.adopt

    def watch(tab: Tab, attached: Any) -> None:
        kinds.append(attached["targetInfo"]["type"])
        adopt(tab, attached)

    monkeypatch.setattr(Tab, "adopt", watch)
    code = (
        FETCH.format(other + "fetched") + run_worker(f"fetch('{other}of_worker')") + "new WebSocket('wss://x.example')"
    )
    code += f";setTimeout(() => location.href = '{other}away', 200); alert(1)"
    frame = f"<img src='{other}img'><p>{{}}</p><script>{code}</script><iframe src='https://third.example/'></iframe>"
    asked = Asked({PAGE: f"<p>page</p><iframe src='{other}'></iframe>", other: frame})
    wanted = {other + name for name in ("fetched", "of_worker", "img", "away")} | {"https://third.example/"}
    asyncio.run(asked.visit(lambda: wanted <= asked.urls and asked.sockets > 0, "--site-per-process"))
    assert "iframe" in kinds and wanted - asked.urls == set() and asked.sockets == 1


def test_without_scripts_no_frame_runs_any() -> None:
    other = "https://other.example/"
    frame = f"<img src='{other}img'><script>{FETCH.format(other + 'fetched')}</script>"
    asked = Asked({PAGE: f"<p>page</p><iframe src='{other}'></iframe>", other: frame})
    done = {other + "img"}
    asyncio.run(asked.visit(lambda: done <= asked.urls, "--site-per-process", javascript=False))
    assert asked.urls == {PAGE, other, other + "img"}
