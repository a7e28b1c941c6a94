"""A scripted server for the tests of the client, and settings that reach it."""

import contextlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tilewright.data_gen.llm import LlmSettings

SERVER = Path(__file__).with_name("scripted_server.py")


@dataclass
class ScriptedServer:
    """A running server: its base URL and the log of its calls."""

    url: str
    log: Path
    process: subprocess.Popen[str]

    def calls(self, event: str = "start") -> list[dict[str, Any]]:
        """The calls that started, or (``end``) whose answer was written."""
        lines = map(json.loads, self.log.read_text().splitlines()) if self.log.exists() else ()
        return [line for line in lines if line["event"] == event]


@contextlib.contextmanager
def started(folder: Path, *options: str) -> Iterator[ScriptedServer]:
    folder.mkdir(parents=True, exist_ok=True)
    log = folder / f"calls{len(list(folder.glob('calls*')))}.jsonl"
    command = [sys.executable, str(SERVER), "--log", str(log), *options]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield ScriptedServer(process.stdout.readline().strip(), log, process)
        finally:
            process.kill()


@pytest.fixture
def serve(tmp_path: Path) -> Iterator[Callable[..., ScriptedServer]]:
    """serve("--fault-rate", "0.2", ...) -> a server that lives as long as the test."""
    with contextlib.ExitStack() as stack:
        yield lambda *options: stack.enter_context(started(tmp_path / "server", *map(str, options)))


@pytest.fixture
def settings() -> Callable[..., LlmSettings]:
    """settings(server, **changes) -> LlmSettings with short time-outs."""

    def make(server: ScriptedServer | str, **changes: Any) -> LlmSettings:
        url = server if isinstance(server, str) else server.url
        values: dict[str, Any] = {"model": "m", "temperature": 0.0, "max_tokens": 50, "seed": 1, "base_url": url}
        return LlmSettings(**(values | {"call_timeout_s": 2.0, "concurrency": 16} | changes))

    return make
