"""A real HTTP server on loopback with scripted faults, which keeps a log of what it was asked."""

import asyncio
import contextlib
import socket
import struct
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from tilewright.data_gen.fetch.mirror import Failure, Mirror, MirrorRecord
from tilewright.data_gen.fetch.settings import Limits, Politeness
from tilewright.data_gen.fetch_pages import Config
from tilewright.data_gen.records import read_jsonl

HOSTS = ("127.0.0.1", "127.0.0.2")
SHOWN = "<title>T</title><link rel=stylesheet href=/s.css><img src=/a.png><img src=/none.png><a href=/other>x</a>"


@dataclass(frozen=True)
class Reply:
    """What the server does: ``wait_s`` before the answer, ``pause_s`` between its bytes; ``endless`` repeats the body
    for ever, ``reset`` breaks the connection off at once, ``cut`` after so many bytes of the body.
    """

    body: bytes = b""
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    wait_s: float = 0.0
    pause_s: float = 0.0
    endless: bool = False
    reset: bool = False
    cut: int | None = None


@dataclass
class Asked:
    """One request: when it came and when its answer began, which host and path, and its headers (lower case)."""

    started: float
    host: str
    path: str
    headers: dict[str, str]
    answered: float = float("inf")


Script = Callable[[Asked], Reply]


class WebServer:
    """Answers by ``routes``: {path: a Reply, a list of them (the last one repeats), or a function}. 404 for others."""

    def __init__(self) -> None:
        self.routes: dict[str, Reply | list[Reply] | Script] = {}
        self.log: list[Asked] = []
        self.port = 0

    def url(self, path: str, host: str = HOSTS[0]) -> str:
        return f"http://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        """What was asked for, robots.txt left out."""
        return [asked.path for asked in self.log if asked.path != "/robots.txt"]

    def page(self, path: str, html: str, **headers: str) -> None:
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.routes[path] = Reply(html.encode(), headers={"Content-Type": "text/html; charset=utf-8"} | named)

    def _reply(self, asked: Asked) -> Reply:
        route = self.routes.get(asked.path, Reply(b"none", status=404, headers={"Content-Type": "text/html"}))
        if isinstance(route, list):
            return route.pop(0) if len(route) > 1 else route[0]
        return route if isinstance(route, Reply) else route(asked)

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError, asyncio.IncompleteReadError, asyncio.CancelledError):
            while head := await reader.readuntil(b"\r\n\r\n"):
                lines = head.decode("latin-1").split("\r\n")
                headers = {
                    name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:] if line)
                }
                asked = Asked(time.monotonic(), headers.get("host", ""), lines[0].split()[1], headers)
                self.log.append(asked)
                reply = self._reply(asked)
                await asyncio.sleep(reply.wait_s)
                if reply.reset:
                    linger = struct.pack("ii", 1, 0)  # a close that is a reset
                    writer.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, linger)
                    break
                asked.answered = time.monotonic()
                await self._send(writer, reply)
                if reply.cut is not None or reply.endless:
                    break
        writer.close()

    async def _send(self, writer: asyncio.StreamWriter, reply: Reply) -> None:
        length = {} if reply.endless else {"Content-Length": str(len(reply.body))}
        head = [f"HTTP/1.1 {reply.status} X", *(f"{k}: {v}" for k, v in (length | dict(reply.headers)).items())]
        writer.write("\r\n".join([*head, "", ""]).encode("latin-1"))
        body = reply.body[: reply.cut]
        while True:
            for start in range(0, len(body), 1) if reply.pause_s else (0,):
                writer.write(body[start : start + 1] if reply.pause_s else body)
                await writer.drain()
                await asyncio.sleep(reply.pause_s)
            if not reply.endless:
                return

    async def run(self, ready: threading.Event, stop: asyncio.Event) -> None:
        first = await asyncio.start_server(self.serve, HOSTS[0], 0)
        self.port = first.sockets[0].getsockname()[1]
        second = await asyncio.start_server(self.serve, HOSTS[1], self.port)
        ready.set()
        await stop.wait()
        first.close()
        second.close()


@pytest.fixture
def server() -> Iterator[WebServer]:
    """A WebServer at work in a thread, on two loopback addresses with one port."""
    made, ready = WebServer(), threading.Event()
    loop = asyncio.new_event_loop()
    stop = asyncio.Event()
    thread = threading.Thread(target=loop.run_until_complete, args=(made.run(ready, stop),))
    thread.start()
    assert ready.wait(10)
    yield made
    loop.call_soon_threadsafe(stop.set)
    thread.join()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0.01))
    loop.close()


@pytest.fixture
def reply() -> type[Reply]:
    """The class Reply."""
    return Reply


@pytest.fixture
def fast() -> Politeness:
    """No waits to speak of."""
    return Politeness(delay_s=0.0, connections_per_host=8, retries=2, backoff_s=0.02)


@pytest.fixture
def fetch_config(tmp_path: Path, fast: Politeness) -> Callable[..., Config]:
    """fetch_config(urls, **options) -> Config of a fetch of them into tmp_path / "mirror"; all may fail."""

    def make(urls: list[str], **options: object) -> Config:
        name = str(options.pop("name", "mirror"))
        (tmp_path / f"{name}.txt").write_text("\n".join(urls) + "\n", encoding="utf-8")
        defaults: dict[str, object] = {
            "user_agent": "testbot/1.0 (+https://test.example/bot)",
            "allow_private_hosts": True,
            "politeness": fast,
            "limits": Limits(request_timeout_s=5.0),
            "max_error_share": 1.0,
        }
        return Config(urls=tmp_path / f"{name}.txt", out=tmp_path / name, **(defaults | options))  # type: ignore[arg-type]

    return make


@pytest.fixture
def records() -> Callable[[Path], dict[str, MirrorRecord]]:
    """records(mirror) -> {URL: record}."""
    return lambda mirror: {record.url: record for record in Mirror(mirror).records()}


@pytest.fixture
def reasons() -> Callable[[Path], dict[str, str]]:
    """reasons(mirror) -> {URL that failed: reason}."""
    return lambda mirror: {entry.url: entry.reason for entry in read_jsonl(mirror / "failed.jsonl", Failure)}


@pytest.fixture
def shown() -> str:
    """The HTML that the pages of ``site`` begin with."""
    return SHOWN


@pytest.fixture
def site(server: WebServer) -> Callable[..., list[str]]:
    """site(pages=1) -> URLs of pages that show one stylesheet with a font, one picture, and one that isn't there."""

    def make(pages: int = 1) -> list[str]:
        css, png, font = ({"Content-Type": kind} for kind in ("text/css", "image/png", "font/woff2"))
        server.routes["/s.css"] = Reply(b"@font-face { src: url(fonts/f.woff2) }", headers=css)
        server.routes["/fonts/f.woff2"] = Reply(b"font", headers=font)
        server.routes["/a.png"] = Reply(b"picture", headers=png)
        for number in range(pages):
            server.page(f"/{number}.html", SHOWN + f"<p>{number}</p>")
        return [server.url(f"/{number}.html") for number in range(pages)]

    return make
