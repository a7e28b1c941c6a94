"""A scripted server for the tests of the client, and settings that reach it."""

import contextlib
import dataclasses
import io
import json
import random
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.records import Block, Page, Tile, write_jsonl
from tilewright.data_gen.tile_store import write_store

TOWNS = 40
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


def town_picture(number: int) -> tuple[bytes, str]:
    """(PNG, hash of its pixels): about half of its squares black, others for each number."""
    image, chance = Image.new("RGB", (80, 80), "white"), random.Random(number)
    for place in range(100):
        if chance.random() < 0.5:
            left, top = place % 10 * 8, place // 10 * 8
            image.paste("black", (left, top, left + 8, top + 8))
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return buffer.getvalue(), image_sha256(image)


@pytest.fixture
def tiles(make_tile: Callable[..., Tile], make_block: Callable[..., Block], tmp_path: Path) -> Path:
    """What render_tiles leaves of TOWNS pages of one tile each, whose pictures all differ."""
    made = []
    for number in range(TOWNS):
        text = f"The moss hall of Harrow Town {number} was built of fern stone in {1800 + number}."
        tile = make_tile(f"Harrow Town {number}", [make_block("paragraph", text)])
        image, sha256 = town_picture(number)
        made.append(dataclasses.replace(tile, image=image, image_sha256=sha256))
    folder = tmp_path / "tiles"
    folder.mkdir()
    write_store(folder / "store", sorted(made, key=lambda tile: tile.tile_id))
    pages = [Page(tile.page_id, tile.url, tile.title, "", "x", 875, 4000, True, 1) for tile in made]
    write_jsonl(folder / "pages.jsonl", sorted(pages, key=lambda page: page.page_id))
    return folder
