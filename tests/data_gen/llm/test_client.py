"""The client against a real server that fails by script: the same answers, few calls, errors a person can act on."""

import io
import json
import sqlite3
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from tilewright.configs.items import ItemError
from tilewright.configs.stage import StageError
from tilewright.data_gen.llm import (
    Answered,
    Budget,
    BudgetError,
    CallError,
    Client,
    DeadlineError,
    DryRunError,
    ImagePart,
    ImagesUnsupportedError,
    KeyRefusedError,
    LlmSettings,
    ModelUnknownError,
    Prices,
    Request,
    ServerFailingError,
    Session,
    Unusable,
)

Make = Callable[..., LlmSettings]
Serve = Callable[..., Any]
KINDS = {
    "retry_after_s": "rate_limited",
    "retry_after_date": "rate_limited",
    "rate_limited": "rate_limited",
    "http_500": "http_500",
    "stall": "timeout",
    "drop": "connection",
    "half_json": "broken_json",
    "empty_choices": "empty_choices",
}
REASONS = {"refusal": "refused", "wrong_label": "unparsed", "length": "length"}


def png(number: int = 0) -> bytes:
    buffer = io.BytesIO()
    Image.new("RGB", (56, 28), (number, 0, 0)).save(buffer, "PNG")
    return buffer.getvalue()


def echo(text: str) -> str | None:
    return text if text.startswith("ECHO ") and len(text) == 17 else None


async def ask(client: Client, item: int) -> str:
    found = await client.complete(Request("generate", (f"item {item}",), system="You ask."), echo)
    return found.value if isinstance(found, Answered) else found.reason


async def look(client: Client, item: int) -> str:
    found = await client.complete(Request("look", (ImagePart(png(item)), "What is this?")), echo)
    return found.value if isinstance(found, Answered) else found.reason


def run(
    settings: LlmSettings, out: Path, items: int, work: Callable[[Client, int], Any] = ask
) -> tuple[dict[int, Any], dict[str, Any]]:
    """Values by item, and the sums of the ledger."""
    out.mkdir(exist_ok=True)
    with Session(settings, out) as session:
        found = dict(session.run(range(items), work))
    ledger: dict[str, Any] = json.loads((out / "logs/ledger.json").read_text())
    return found, ledger["all"]


@pytest.mark.parametrize("fault", [*KINDS, *REASONS, "slow"])
def test_each_fault_alone_changes_no_answer_and_is_counted_by_its_kind(
    tmp_path: Path, serve: Serve, settings: Make, fault: str
) -> None:
    calm, _ = run(settings(serve()), tmp_path / "calm", 12)
    server = serve("--fault-rate", 0.5, "--faults", fault, "--slow-s", 0.2, "--most-faults", 2)
    found, ledger = run(settings(server, call_timeout_s=0.8), tmp_path / "faulty", 12)
    assert found == calm and all(map(echo, found.values()))
    scripted = sum(call["fault"] is not None for call in server.calls())
    assert scripted > 2
    if fault in REASONS:
        assert ledger["unusable"] == {REASONS[fault]: scripted} and ledger["retries"] == 0
    elif fault in KINDS:
        assert ledger["failures"].get(KINDS[fault], 0) >= scripted - 2
        assert sum(ledger["failures"].values()) == ledger["retries"] >= scripted
    assert len(server.calls()) == ledger["calls"] == 12 + ledger["retries"] + sum(ledger["unusable"].values())


def test_retry_after_is_honoured(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server = serve("--fault-rate", 1.0, "--faults", "retry_after_s")
    with Session(settings(server, max_retries=2), tmp_path) as session:
        started = time.monotonic()
        ((_, value),) = session.run([0], ask)
        assert 2.0 <= time.monotonic() - started < 60.0
    assert isinstance(value, CallError) and "rate_limited after 3 tries" in str(value)


def test_a_repeated_run_makes_no_call(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server = serve("--fault-rate", 0.2, "--faults", "wrong_label,http_500")
    changes = {"cache": tmp_path / "c.sqlite"}
    first, _ = run(settings(server, **changes), tmp_path / "a", 20, look)
    calls = len(server.calls())
    again, ledger = run(settings(server, concurrency=3, **changes), tmp_path / "b", 20, look)
    assert again == first and len(server.calls()) == calls and ledger["calls"] == 0 and ledger["cached"] >= 20


def test_equal_requests_at_one_moment_are_one_call(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server = serve("--latency-s", 0.1)

    async def same(client: Client, item: int) -> str:
        return await ask(client, item % 2)

    found, ledger = run(settings(server), tmp_path / "o", 10, same)
    assert len(server.calls()) == 2 and ledger["cached"] == 8 and len(set(found.values())) == 2


def test_a_reply_nobody_can_use_is_asked_for_again_and_then_given_up(
    tmp_path: Path, serve: Serve, settings: Make
) -> None:
    async def never(client: Client, item: int) -> Any:
        return await client.complete(Request("p", (f"{item}",)), lambda text: None)

    server = serve()
    found, ledger = run(settings(server, attempts=3), tmp_path / "o", 1, never)
    assert isinstance(found[0], Unusable) and found[0].reason == "unparsed" and len(found[0].replies) == 3
    assert len({call["digest"] for call in server.calls()}) == 3  # each with a seed of its own
    assert ledger["unusable"] == {"unparsed": 3}


def test_pictures_go_out_and_are_counted(tmp_path: Path, serve: Serve, settings: Make) -> None:
    found, ledger = run(settings(serve(), prices=Prices(1.0, 10.0)), tmp_path / "o", 3, look)
    assert len(set(found.values())) == 3 and ledger["image_tokens"] == 300
    wanted = (ledger["input_tokens"] + 10 * ledger["output_tokens"]) / 1e6
    assert ledger["cost"] == pytest.approx(wanted) and ledger["cost"] > 0


@pytest.mark.parametrize("status", [400, 500])
def test_a_server_without_pictures_stops_the_stage_with_one_call(
    tmp_path: Path, serve: Serve, settings: Make, status: int
) -> None:
    server = serve("--no-images", status)
    with pytest.raises(ImagesUnsupportedError, match="--mmproj"):
        run(settings(server, concurrency=1), tmp_path / "o", 50, look)
    assert len(server.calls()) == 1


def test_another_model_stops_the_stage(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server = serve("--model", "other")
    with pytest.raises(ModelUnknownError, match=r"does not exist.*llm.model"):
        run(settings(server, concurrency=1), tmp_path / "o", 5)
    assert not list((tmp_path / "o").glob(".*"))  # nothing was done: a mended config may take the folder


def test_a_key_is_sent_and_shown_nowhere(
    tmp_path: Path, serve: Serve, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = serve("--key", "right-k3y")
    monkeypatch.setenv("KEY", "right-k3y")
    changes = {"api_key_env": "KEY", "cache": tmp_path / "c.sqlite", "concurrency": 1}
    found, _ = run(settings(server, **changes), tmp_path / "o", 3)
    assert all(map(echo, found.values()))
    monkeypatch.setenv("KEY", "wrong-k3y")
    with pytest.raises(KeyRefusedError, match="Incorrect API key") as error:
        run(settings(server, **changes), tmp_path / "p", 9)
    assert "k3y" not in f"{error.value!r}{error.value.__cause__!r}"
    files = [path for path in tmp_path.rglob("*") if path.is_file() and "server" not in path.parts]
    assert len(files) >= 5 and not any(b"k3y" in path.read_bytes() for path in files)


def test_an_error_that_echoes_the_key_is_scrubbed(
    tmp_path: Path, serve: Serve, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("KEY", "some-k3y")
    found, _ = run(settings(serve("--refuse", 400), api_key_env="KEY"), tmp_path / "o", 1)
    assert isinstance(found[0], CallError) and "you sent" in str(found[0]) and "k3y" not in str(found[0])


def test_a_server_that_refuses_everything_stops_the_stage_early(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server = serve("--refuse", 422)
    with pytest.raises(ServerFailingError, match="calls in a row failed"):
        run(settings(server, concurrency=4), tmp_path / "o", 500)
    assert len(server.calls()) < 40


def test_a_server_that_is_not_there_stops_the_stage(tmp_path: Path, settings: Make) -> None:
    with pytest.raises(ServerFailingError, match="never reached in 2 tries"):
        run(settings("http://127.0.0.1:9/v1", max_retries=1), tmp_path / "o", 5)


@pytest.mark.parametrize(("wanted", "calls"), [("auto", 6), ("none", 5)])
def test_without_structured_output_the_schema_is_left_out(
    tmp_path: Path, serve: Serve, settings: Make, wanted: str, calls: int
) -> None:
    async def structured(client: Client, item: int) -> Any:
        request = Request("p", (f"{item}",), schema={"type": "object"})
        return (await client.complete(request, echo)).__class__

    server = serve("--no-schema")
    found, _ = run(settings(server, structured_output=wanted, concurrency=1), tmp_path / "o", 5, structured)
    assert set(found.values()) == {Answered} and len(server.calls()) == calls


def test_json_schema_insists(tmp_path: Path, serve: Serve, settings: Make) -> None:
    async def structured(client: Client, item: int) -> Any:
        return await client.complete(Request("p", (f"{item}",), schema={"type": "object"}), echo)

    chosen = settings(serve("--no-schema"), structured_output="json_schema")
    found, _ = run(chosen, tmp_path / "o", 1, structured)
    assert isinstance(found[0], CallError) and "json_schema" in str(found[0])


@pytest.mark.parametrize(
    "budget", [Budget(max_calls=7), Budget(max_tokens=700), Budget(max_cost=0.0006)], ids=["calls", "tokens", "cost"]
)
def test_a_budget_is_never_passed_and_a_larger_one_goes_on(
    tmp_path: Path, serve: Serve, settings: Make, budget: Budget
) -> None:
    server, prices = serve("--fault-rate", 0.2, "--seed", 3, "--most-faults", 1), Prices(1.0, 2.0)
    out = tmp_path / "o"
    done: dict[int, Any] = {}
    out.mkdir()
    chosen = settings(server, budget=budget, prices=prices, cache=tmp_path / "c.sqlite", concurrency=4)
    with pytest.raises(BudgetError, match=r"raise the budget"), Session(chosen, out) as session:
        for item, value in session.run(range(60), ask):
            done[item] = value
    whole = json.loads((out / "logs/ledger.json").read_text())["all"]
    used = whole["input_tokens"] + whole["output_tokens"] + whole["unconfirmed_tokens"]
    assert 0 < len(server.calls()) == whole["calls"] <= (budget.max_calls or 10**9)
    assert used <= (budget.max_tokens or 10**9)
    assert 0 < whole["cost"] + whole["unconfirmed_cost"] <= (budget.max_cost or 10**9)
    calls = whole["calls"]
    found, again = run(settings(server, prices=prices, cache=tmp_path / "c.sqlite"), out, 60)
    assert all(found[item] == value for item, value in done.items())
    assert again["calls"] > calls and all(map(echo, found.values()))


def test_a_deadline_keeps_what_is_finished(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server = serve("--latency-s", 0.1)
    changes = {"cache": tmp_path / "c.sqlite", "concurrency": 2}
    for timeout_s in (0.5, 5, 50):  # a busy machine may finish nothing in a short time
        with pytest.raises(DeadlineError, match="stage_timeout_s"):  # the calls would take 500 s
            run(settings(server, stage_timeout_s=timeout_s, **changes), tmp_path / f"o{timeout_s}", 10_000)
        if ended := len(server.calls("end")):
            break
    with sqlite3.connect(tmp_path / "c.sqlite") as db:
        assert 0 < ended == db.execute("SELECT count(*) FROM replies").fetchone()[0]


def test_a_dry_run_counts_and_makes_no_call_and_no_file(tmp_path: Path, serve: Serve, settings: Make) -> None:
    async def two_steps(client: Client, item: int) -> str:
        made = await client.complete(Request("generate", (f"item {item}" * 10,)), echo, stand_in="ECHO 0123456789ab")
        assert isinstance(made, Answered)
        await client.complete(Request("judge", (made.value, ImagePart(png()))), echo)
        raise AssertionError("a step without stand-in ends the item")

    server, out = serve(), tmp_path / "o"
    chosen = settings(server, dry_run=True, prices=Prices(1.0, 2.0))
    with pytest.raises(DryRunError, match="no call was made") as error, Session(chosen, out) as session:
        list(session.run(range(10), two_steps))
    counts = error.value.counts
    assert counts["generate"]["calls"] == counts["judge"]["calls"] == 10 and counts["judge"]["image_tokens"] == 20
    assert counts["generate"]["most_output_tokens"] == 500
    wanted = (counts["generate"]["input_tokens"] + 2 * 500) / 1e6
    assert counts["generate"]["most_cost"] == pytest.approx(wanted)
    assert server.calls() == [] and not out.exists()


def test_pace_bounds_calls_a_minute(tmp_path: Path, serve: Serve, settings: Make) -> None:
    started = time.monotonic()
    run(settings(serve(), requests_per_minute=600.0), tmp_path / "o", 21)
    assert time.monotonic() - started > 0.9  # 10 at once, then one each 0.1 s


def test_what_is_no_picture_is_an_error_of_its_item_only(tmp_path: Path, serve: Serve, settings: Make) -> None:
    async def bad(client: Client, item: int) -> Any:
        return await client.complete(Request("p", (ImagePart(b"no"),)), echo) if item else await look(client, item)

    found, _ = run(settings(serve()), tmp_path / "o", 2, bad)
    assert isinstance(found[1], ItemError) and echo(found[0])


def test_a_full_or_broken_cache_stops_the_stage(tmp_path: Path, serve: Serve, settings: Make) -> None:
    with (
        Session(settings(serve(), cache=tmp_path / "c.sqlite"), tmp_path / "o") as session,
        pytest.raises(StageError, match=r"c.sqlite can't be written"),
    ):
        session.cache._db.execute("PRAGMA max_page_count = 1")
        list(session.run(range(500), ask))


@pytest.mark.parametrize(("fault", "kind"), [("endless", "body_too_long"), ("compressed", "body_compressed")])
@pytest.mark.parametrize("status", [200, 500])
def test_no_more_of_a_body_is_read_than_the_limit_allows(
    tmp_path: Path, serve: Serve, settings: Make, fault: str, kind: str, status: int
) -> None:
    server = serve("--fault-rate", 0.3, "--faults", fault, "--seed", 1, "--huge-status", status)
    calm, _ = run(settings(serve()), tmp_path / "calm", 12)
    found, ledger = run(settings(server, max_reply_bytes=100_000, call_timeout_s=20.0), tmp_path / "o", 12)
    failed = [item for item, value in found.items() if isinstance(value, CallError)]
    assert ledger["failures"] == {kind: len(failed)} and 2 <= len(failed) <= 8  # its error is the item's, not a retry
    assert all(f"{kind} after 1 tries" in str(found[item]) for item in failed)
    assert all(found[item] == calm[item] for item in range(12) if item not in failed)
    assert ledger["unconfirmed_tokens"] > 0 and ledger["retries"] == 0  # its work may be billed
    sent = [call["bytes"] for call in server.calls("huge")]
    assert len(sent) == len(failed) and max(sent) < 20_000_000  # what buffers between us took; it would go on to 40 MB


def test_a_reply_as_long_as_the_limit_is_read(tmp_path: Path, serve: Serve, settings: Make) -> None:
    rules = tmp_path / "rules.py"
    rules.write_text("RULES = [('', lambda prompt: 'ECHO 0123456789ab')]\n")
    server = serve("--rules", rules)
    body = {"id": "c", "object": "chat.completion", "created": 0, "model": "m"}
    message = {"role": "assistant", "content": "ECHO 0123456789ab"}
    choice = {"index": 0, "message": message, "finish_reason": "stop"}
    usage = {"prompt_tokens": len("You ask.item 0") // 4, "completion_tokens": 17 // 4}
    size = len(json.dumps(body | {"choices": [choice], "usage": usage}))
    found, _ = run(settings(server, max_reply_bytes=size), tmp_path / "a", 1)
    assert found == {0: "ECHO 0123456789ab"}
    cut, _ = run(settings(server, max_reply_bytes=size - 1), tmp_path / "b", 1)
    assert "llm.max_reply_bytes" in str(cut[0])
