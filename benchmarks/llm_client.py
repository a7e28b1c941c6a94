"""The LLM client against a bare ``AsyncOpenAI`` loop, on the same lean local server. Prints one JSON line.

    python benchmarks/llm_client.py [--quick]        (about 2 minutes; --quick: 15 s, noisy)

- ``at``: for each concurrency, requests/s of both, their ratio (``speed_ratio``, wanted >= 0.95) and the ratio of CPU
  seconds a call of this process (``cpu_ratio``, wanted <= 1.2). The two take turns; ratios are medians over the turns.
  Ours includes all it does: digest, cache, ledger, budget, parser. ``server_busy``: CPU share of the server, a process
  of its own; far below 1 it isn't what is measured.
- ``slow``: a server that answers after 2 s, at 64: requests/s over 64 / 2 s, wanted >= 0.95.
- ``journal_open_s``: opening a journal of 100,000 items, wanted < 2 s.
"""

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.journal import Journal
from tilewright.data_gen.llm import Answered, Client, LlmSettings, Request, Session

TEXT = "One question about this passage, please. " + "The tower was finished in 1889 and is 330 m high. " * 20
REPLY = json.dumps(
    {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Q: How high is the tower? A: 330 m. " * 4},
                "finish_reason": "stop",
            }
        ],
        "usage": {"prompt_tokens": 300, "completion_tokens": 40, "total_tokens": 340},
    }
).encode()
ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(REPLY) + REPLY
CALLS = {1: 400, 16: 1500, 64: 2000, 256: 3000}


class LeanServer(asyncio.Protocol):
    """Answers every whole request with ANSWER after ``delay_s``; reads no more of it than its length."""

    delay_s = 0.0

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport, self._data = transport, b""

    def data_received(self, data: bytes) -> None:
        self._data += data
        while (head := self._data.find(b"\r\n\r\n")) >= 0:
            at = self._data.lower().index(b"content-length:") + 15
            end = head + 4 + int(self._data[at : self._data.index(b"\r\n", at)])
            if len(self._data) < end:
                return
            self._data = self._data[end:]
            asyncio.get_running_loop().call_later(self.delay_s, self._transport.write, ANSWER)


async def serve(delay_s: float) -> None:
    LeanServer.delay_s = delay_s
    server = await asyncio.get_running_loop().create_server(LeanServer, "127.0.0.1", 0, backlog=2048)
    print(server.sockets[0].getsockname()[1], flush=True)
    await server.serve_forever()


@contextlib.contextmanager
def lean_server(delay_s: float = 0.0) -> Iterator[tuple[str, int]]:
    """(base URL, process id) of a server in a process of its own."""
    command = [sys.executable, __file__, "--serve", str(delay_s)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield f"http://127.0.0.1:{int(process.stdout.readline())}/v1", process.pid
        finally:
            process.kill()


@dataclass(frozen=True)
class Turn:
    """One measured turn: calls, seconds, CPU seconds of this process and of the server."""

    calls: int
    seconds: float
    cpu_s: float
    server_cpu_s: float

    @property
    def per_s(self) -> float:
        return self.calls / self.seconds


def server_cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def bare(url: str, calls: int, concurrency: int) -> None:
    """What one would write without us: a client, a counter, as many workers as calls at a time."""

    async def all_calls() -> None:
        from openai import AsyncOpenAI

        numbers = iter(range(calls))
        async with AsyncOpenAI(base_url=url, api_key="none", max_retries=0) as client:

            async def worker() -> None:
                for number in numbers:
                    reply = await client.chat.completions.create(
                        model="m",
                        messages=[
                            {"role": "system", "content": "You ask questions."},
                            {"role": "user", "content": f"{number} {TEXT}"},
                        ],
                        temperature=0.0,
                        max_tokens=100,
                        seed=1,
                    )
                    assert (reply.choices[0].message.content or "").startswith("Q:")

            await asyncio.gather(*(worker() for _ in range(concurrency)))

    asyncio.run(all_calls())


def ours(url: str, calls: int, concurrency: int) -> None:
    """The same calls by the client, into a fresh cache and ledger."""

    async def ask(client: Client, number: int) -> str:
        request = Request("generate", (f"{number} {TEXT}",), system="You ask questions.")
        found = await client.complete(request, lambda text: text if text.startswith("Q:") else None)
        assert isinstance(found, Answered)
        return found.value

    settings = LlmSettings("m", 0.0, 100, url, seed=1, concurrency=concurrency)
    with tempfile.TemporaryDirectory() as folder, Session(settings, Path(folder)) as session:
        assert sum(1 for _ in session.run(range(calls), ask)) == calls


def measure(way: object, url: str, pid: int, calls: int, concurrency: int) -> Turn:
    assert callable(way)
    started, cpu_s, server_s = time.perf_counter(), time.process_time(), server_cpu_s(pid)
    way(url, calls, concurrency)
    seconds = time.perf_counter() - started
    return Turn(calls, seconds, time.process_time() - cpu_s, server_cpu_s(pid) - server_s)


def compare(url: str, pid: int, calls: int, concurrency: int, turns: int) -> dict[str, float]:
    """Both ways in turns, the first of each pair by turns too."""
    pairs = []
    for turn in range(turns):
        order = (bare, ours) if turn % 2 == 0 else (ours, bare)
        found = {way: measure(way, url, pid, calls, concurrency) for way in order}
        pairs.append((found[bare], found[ours]))
    busy = [ours_turn.server_cpu_s / ours_turn.seconds for _, ours_turn in pairs]
    return {
        "bare_per_s": round(statistics.median(pair[0].per_s for pair in pairs), 1),
        "ours_per_s": round(statistics.median(pair[1].per_s for pair in pairs), 1),
        "speed_ratio": round(statistics.median(pair[1].per_s / pair[0].per_s for pair in pairs), 3),
        "cpu_ratio": round(statistics.median(pair[1].cpu_s / pair[0].cpu_s for pair in pairs), 3),
        "server_busy": round(statistics.median(busy), 3),
    }


def slow_server(rounds: int) -> dict[str, float]:
    """64 at a time on a server that answers after 2 s, against 64 / 2 s."""
    with lean_server(2.0) as (url, pid):
        turn = measure(ours, url, pid, 64 * rounds, 64)
    return {"per_s": round(turn.per_s, 2), "of_ideal": round(turn.per_s / 32.0, 3)}


def journal_open_s(items: int) -> float:
    """Seconds to open a journal of so many items, each a question-answer pair."""
    value = {"pairs": [{"query": "How high is the tower?", "answer": "330 m", "span": TEXT[:200]}], "dropped": {}}
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "journal.jsonl"
        with Journal(path) as journal:
            for number in range(items):
                journal.append(f"{number:016x}-0000-00", value)
        started = time.perf_counter()
        with Journal(path) as journal:
            seconds = time.perf_counter() - started
            assert len(journal) == items
    return round(seconds, 3)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--serve", type=float)
    options = parser.parse_args()
    if options.serve is not None:
        asyncio.run(serve(options.serve))
        return
    turns, share = (2, 4) if options.quick else (6, 1)
    result: dict[str, object] = {"benchmark": "llm_client", "cores": os.cpu_count(), "turns": turns}
    with lean_server() as (url, pid):
        for way in (bare, ours):
            measure(way, url, pid, 50, 4)  # imports
        result["at"] = {str(at): compare(url, pid, calls // share, at, turns) for at, calls in CALLS.items()}
    result["slow"] = slow_server(2 if options.quick else 10)
    result["journal_open_s"] = journal_open_s(100_000)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
