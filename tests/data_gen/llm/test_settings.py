"""Settings: what is refused, what identifies a reply, and where the key comes from."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.configs.load import ConfigError, load
from tilewright.configs.requests import request_of
from tilewright.data_gen.llm import BatchSettings, Budget, ImageSettings, LlmSettings, Prices

URL = "http://localhost:8000/v1"
Make = Callable[..., LlmSettings]


@dataclass(frozen=True)
class Config:
    out: Path
    llm: LlmSettings


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"model": ""}, "model"),
        ({"temperature": -1.0}, "temperature"),
        ({"temperature": float("nan")}, "temperature"),
        ({"max_tokens": 0}, "max_tokens"),
        ({"concurrency": 0}, "concurrency"),
        ({"attempts": 0}, "attempts"),
        ({"base_url": "localhost:8000"}, "wanted http"),
        ({"base_url": "http://me:secret@host/v1"}, "no user"),
        ({"base_url": "http://host/v1?key=secret"}, "no user"),
        ({"extra_body": {"api_key": "secret"}}, "no secret"),
        ({"extra_body": {"a": [{"authorization": "x"}]}}, "no secret"),
        ({"extra_body": {"temperature": 1}}, "its own setting"),
        ({"extra_body": {"day": date(2020, 1, 1)}}, "JSON"),
        ({"api_key_env": "sk-secret.1"}, "never the key itself"),
        ({"budget": Budget(max_cost=1.0)}, "prices"),
    ],
)
def test_what_cannot_work_is_refused_without_showing_secrets(
    settings: Make, changes: dict[str, Any], message: str
) -> None:
    with pytest.raises(ValueError, match=message) as error:
        settings(URL, **changes)
    assert "secret" not in str(error.value).replace("no secret", "")


EXECUTION: dict[str, Any] = {
    "base_url": "http://elsewhere/v1",
    "api_key_env": "KEY",
    "transport": "batch",
    "concurrency": 3,
    "requests_per_minute": 1.0,
    "tokens_per_minute": 1.0,
    "max_retries": 1,
    "max_reply_bytes": 9,
    "call_timeout_s": 1.0,
    "stage_timeout_s": 1.0,
    "max_tokens_name": "max_completion_tokens",
    "image_patch_px": 32,
    "batch": BatchSettings(size=1),
    "cache": Path("c.sqlite"),
    "prices": Prices(1.0, 1.0),
    "budget": Budget(max_calls=1),
    "dry_run": True,
}
IDENTITY: dict[str, Any] = {
    "model": "other",
    "temperature": 0.5,
    "max_tokens": 7,
    "seed": 9,
    "top_p": 0.5,
    "extra_body": {"top_k": 5},
    "image": ImageSettings(encoding="jpeg"),
    "structured_output": "none",
    "attempts": 1,
}


def test_a_stage_is_identified_by_what_determines_a_reply_and_by_nothing_else(settings: Make) -> None:
    base = settings(URL)
    identity = request_of("s", 1, Config(Path("out"), base))
    assert set(EXECUTION) | set(IDENTITY) == set(vars(base))
    for name, value in EXECUTION.items():
        assert request_of("s", 1, Config(Path("out"), replace(base, **{name: value}))) == identity, name
    for name, value in IDENTITY.items():
        assert request_of("s", 1, Config(Path("out"), replace(base, **{name: value}))) != identity, name


def test_a_yaml_block_is_checked_and_its_cache_is_relative_to_the_file(tmp_path: Path) -> None:
    path = tmp_path / "run.yaml"
    text = f"kind: stage\nout: o\nllm:\n  model: m\n  temperature: 0\n  max_tokens: 5\n  base_url: {URL}\n"
    path.write_text(text + "  cache: replies.sqlite\n  extra_body: {top_k: 3}\n  prices: {input: 1, output: 2}\n")
    llm = load(path, Config).llm
    assert llm.cache == tmp_path / "replies.sqlite" and llm.extra_body == {"top_k": 3}
    assert load(path, Config, ["llm.budget.max_calls=3"]).llm.budget == Budget(max_calls=3)
    path.write_text(text + "  concurency: 3\n")
    with pytest.raises(ConfigError, match="did you mean 'concurrency'"):
        load(path, Config)


def test_the_key_comes_from_the_environment_and_is_in_no_repr(settings: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", " sk-abc \n")
    found = settings(URL, api_key_env="MY_KEY")
    assert found.api_key() == "sk-abc" and "sk-abc" not in repr(found)
    assert settings(URL).api_key() is None
    for bad in ("", "two words", "schlüssel"):
        monkeypatch.setenv("MY_KEY", bad)
        with pytest.raises(InputError, match="MY_KEY") as error:
            found.api_key()
        assert not bad or bad not in str(error.value)


def test_cost_is_price_times_tokens() -> None:
    assert Prices(2.0, 10.0).cost(1_000_000, 500_000) == pytest.approx(7.0)
    assert Prices(2.0, 10.0, cached_input=0.5).cost(1_000_000, 0, 400_000) == pytest.approx(1.2 + 0.2)
