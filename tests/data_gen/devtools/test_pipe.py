"""Messages over real pipes: torn, joined, huge, broken; a partner who reads slowly or goes away."""

import asyncio
import os
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from tilewright.data_gen.devtools import pipe as pipes
from tilewright.data_gen.devtools.cbor import decode, encode
from tilewright.data_gen.devtools.connection import Connection, DevToolsError
from tilewright.data_gen.devtools.pipe import DevToolsPipe

MESSAGES = [{"id": number, "result": {"data": bytes([number]) * number * 1000}} for number in range(9)]


class Ends:
    """A pipe to a partner: what arrived, why it closed; the partner's own two ends."""

    def __init__(self) -> None:
        read_fd, self.partner_writes = os.pipe()
        self.partner_reads, write_fd = os.pipe()
        self.received: list[Any] = []
        self.closed: list[str] = []
        self.pipe = DevToolsPipe(read_fd, write_fd, self.received.append, self.closed.append)

    async def until(self, done: Callable[[], bool]) -> None:
        async with asyncio.timeout(20):
            while not done():
                await asyncio.sleep(0.001)


def run(work: Callable[[Ends], Awaitable[None]]) -> None:
    async def main() -> None:
        ends = Ends()
        try:
            await work(ends)
        finally:
            ends.pipe.close("over")
            for fd in (ends.partner_reads, ends.partner_writes):
                try:
                    os.close(fd)
                except OSError:
                    continue

    asyncio.run(main())


def write_all(fd: int, content: bytes, piece: int) -> threading.Thread:
    def write() -> None:
        for at in range(0, len(content), piece):
            view = memoryview(content[at : at + piece])
            while view:
                view = view[os.write(fd, view) :]

    thread = threading.Thread(target=write)
    thread.start()
    return thread


@pytest.mark.parametrize("piece", [1, 7, 4096, 1 << 20])
def test_torn_and_joined_frames(piece: int) -> None:
    async def work(ends: Ends) -> None:
        messages = MESSAGES[:4] if piece < 100 else MESSAGES
        thread = write_all(ends.partner_writes, b"".join(map(encode, messages)), piece)
        await ends.until(lambda: len(ends.received) == len(messages))
        thread.join()
        assert ends.received == messages and ends.closed == []

    run(work)


def test_a_huge_frame_both_ways() -> None:
    huge = {"id": 1, "result": {"data": os.urandom(40_000_000)}}

    async def work(ends: Ends) -> None:
        thread = write_all(ends.partner_writes, encode(huge), 1 << 16)
        await ends.until(lambda: bool(ends.received))
        thread.join()
        assert ends.received == [huge]
        frame = encode(huge)
        ends.pipe.send(huge)
        ends.pipe.send({"id": 2})
        both, wanted = bytearray(), len(frame) + len(encode({"id": 2}))

        def read() -> None:
            while len(both) < wanted:
                both.extend(os.read(ends.partner_reads, 1 << 20))

        await asyncio.wait_for(asyncio.to_thread(read), 20)
        assert decode(bytes(both[: len(frame)])) == huge and decode(bytes(both[len(frame) :])) == {"id": 2}

    run(work)


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "the browser has closed its pipe"),
        (encode(MESSAGES[3])[:-1], "stopped in a message"),
        (b'{"id": 1, "result": {}}\0', "wanted a message that begins with"),
        (b"\xd8\x18\x5a\xff\xff\xff\xff" + b"x" * 99, "wanted messages of at most"),
        (b"\xd8\x18\x5a\x00\x00\x00\x01\xbf", "broken"),
    ],
)
def test_a_partner_who_goes_away_or_speaks_nonsense(content: bytes, reason: str) -> None:
    async def work(ends: Ends) -> None:
        os.write(ends.partner_writes, encode(MESSAGES[1]) + content)
        os.close(ends.partner_writes)
        await ends.until(lambda: bool(ends.closed))
        assert ends.received == [MESSAGES[1]] and len(ends.closed) == 1 and reason in ends.closed[0]
        ends.pipe.send({"id": 1})

    run(work)


def test_a_partner_who_no_longer_reads() -> None:
    async def work(ends: Ends) -> None:
        os.close(ends.partner_reads)
        ends.pipe.send({"id": 1})
        assert len(ends.closed) == 1 and "can't write" in ends.closed[0]

    run(work)


def test_calls_are_answered_refused_or_fail_when_the_partner_goes() -> None:
    async def main() -> None:
        read_fd, partner_writes = os.pipe()
        partner_reads, write_fd = os.pipe()
        events: list[Any] = []
        connection = Connection(read_fd, write_fd, lambda *event: events.append(event))
        page = connection.attach("page", lambda *event: events.append(event))
        calls = [asyncio.ensure_future(page.send(f"Call.{name}", {"name": name})) for name in "abcd"]
        await asyncio.sleep(0)
        asked = os.read(partner_reads, 1 << 16)
        first = pipes.frame_bytes(asked[:7])
        call = {"id": 1, "method": "Call.a", "params": {"name": "a"}, "sessionId": "page"}
        assert decode(asked[:first]) == call
        os.write(partner_writes, encode({"id": 2, "result": {"x": 5}}) + encode({"id": 99, "result": {}}))
        os.write(partner_writes, encode({"id": 1, "error": {"code": 1, "message": "no such thing"}}))
        os.write(partner_writes, encode({"method": "E.e", "params": {"y": 1}, "sessionId": "page"}))
        os.write(partner_writes, encode({"method": "E.f", "params": {}, "sessionId": "unknown"}))
        os.write(partner_writes, encode({"method": "E.g", "params": {}}))
        assert await calls[1] == {"x": 5}
        with pytest.raises(DevToolsError, match=r"Call\.a: no such thing"):
            await calls[0]
        calls[2].cancel()
        os.close(partner_writes)
        with pytest.raises(DevToolsError, match="the browser has closed its pipe"):
            await calls[3]
        assert events == [("E.e", {"y": 1}), ("E.g", {})] and connection.ended.is_set()
        with pytest.raises(DevToolsError, match="has closed its pipe"):
            await page.send("Call.e")
        os.close(partner_reads)

    asyncio.run(main())


def test_calls_of_a_target_that_is_closed_fail() -> None:
    async def main() -> None:
        read_fd, partner_writes = os.pipe()
        partner_reads, write_fd = os.pipe()
        connection = Connection(read_fd, write_fd, lambda *event: None)
        page = connection.attach("page", lambda *event: None)
        call = asyncio.ensure_future(page.send("Call.a"))
        await asyncio.sleep(0)
        connection.detach("page", "its target is closed")
        with pytest.raises(DevToolsError, match="its target is closed"):
            await call
        with pytest.raises(DevToolsError, match="its target is closed"):
            await page.send("Call.b")
        connection.close("over")
        for fd in (partner_writes, partner_reads):
            os.close(fd)

    asyncio.run(main())
