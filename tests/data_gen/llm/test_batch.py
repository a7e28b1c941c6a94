"""The Batch API as another transport: the same answers from the same cache, nothing paid twice."""

import asyncio
import json
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tilewright.data_gen.llm import (
    Answered,
    BatchSettings,
    BatchUnderWayError,
    Budget,
    BudgetError,
    Client,
    DeadlineError,
    LlmSettings,
    ModelUnknownError,
    Request,
    ServerFailingError,
    Session,
)
from tilewright.data_gen.llm.batch_files import read_results
from tilewright.data_gen.llm.cache import ReplyCache, StoredBatch
from tilewright.data_gen.llm.failures import Failure
from tilewright.data_gen.llm.request import Reply

Make = Callable[..., LlmSettings]
Serve = Callable[..., Any]
BATCH = {"transport": "batch", "batch": BatchSettings(size=20, poll_s=0.05)}


def echo(text: str) -> str | None:
    return text if text.startswith("ECHO ") and len(text) == 17 else None


async def two_steps(client: Client, item: int) -> list[str]:
    values = [f"item {item}"]
    for step in ("generate", "judge"):
        found = await client.complete(Request(step, (values[-1],)), echo)
        values.append(found.value if isinstance(found, Answered) else found.reason)
    return values


def run(settings: LlmSettings, out: Path, items: int) -> tuple[dict[int, Any], dict[str, Any]]:
    with Session(settings, out) as session:
        found = dict(session.run(range(items), two_steps))
    ledger: dict[str, Any] = json.loads((out / "logs/ledger.json").read_text())["all"]
    return found, ledger


def test_batches_give_what_live_calls_give_under_faults_too(tmp_path: Path, serve: Serve, settings: Make) -> None:
    live, _ = run(settings(serve()), tmp_path / "live", 50)
    server = serve("--fault-rate", 0.2, "--batch-s", 0.05)
    batched, ledger = run(settings(server, **BATCH), tmp_path / "batch", 50)
    assert batched == live
    assert len(server.calls()) == ledger["calls"] == 100 + ledger["retries"] + sum(ledger["unusable"].values())


def test_live_and_batch_share_a_cache(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server, cache = serve(), tmp_path / "c.sqlite"
    batched, _ = run(settings(server, cache=cache, **BATCH), tmp_path / "a", 5)
    live, ledger = run(settings(server, cache=cache), tmp_path / "b", 5)
    assert live == batched and ledger["calls"] == 0 and len(server.calls()) == 10


def test_a_batch_left_under_way_is_picked_up(
    tmp_path: Path, serve: Serve, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def until_sent(client: Client, item: int) -> list[str]:
        if item < 8:
            return await two_steps(client, item)
        while len(server.calls()) < 8:
            await asyncio.sleep(0.02)
        raise ZeroDivisionError  # ends the run while the other items wait for their batch

    monkeypatch.setattr("tilewright.data_gen.llm.batch._QUIET_S", 0.2)
    server, out = serve("--batch-s", 1.0), tmp_path / "o"
    with pytest.raises(ZeroDivisionError), Session(settings(server, **BATCH), out) as session:
        list(session.run(range(9), until_sent))
    found, ledger = run(settings(server, **BATCH), out, 8)
    assert len(server.calls()) == 16 and ledger["calls"] == ledger["finished"] == 16
    assert ledger["in_flight_at_kill"] == 0 and all(echo(values[2]) for values in found.values())


def test_a_batch_whose_id_was_lost_in_a_kill_is_found_by_its_mark(
    tmp_path: Path, serve: Serve, settings: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = ReplyCache.put_batch

    def killed_before_the_id_is_stored(cache: ReplyCache, server: str, batch: StoredBatch) -> None:
        if batch.batch is not None:
            raise ZeroDivisionError
        store(cache, server, batch)

    server, out = serve(), tmp_path / "o"
    with monkeypatch.context() as patch:
        patch.setattr(ReplyCache, "put_batch", killed_before_the_id_is_stored)
        with pytest.raises(ZeroDivisionError):
            run(settings(server, **BATCH), out, 5)
    found, ledger = run(settings(server, **BATCH), out, 5)
    assert len(server.calls()) == ledger["calls"] == ledger["finished"] == 10
    assert all(echo(values[2]) for values in found.values())


def test_a_batch_that_never_got_out_is_sent_again(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server, out = serve(), tmp_path / "o"
    chosen = settings(server, **BATCH, cache=tmp_path / "c.sqlite")
    run(chosen, tmp_path / "other", 2)
    with ReplyCache(tmp_path / "c.sqlite") as cache:
        cache.put_batch(server.url, StoredBatch("mark", None, ("0" * 64,)))
    run(chosen, out, 5)
    with ReplyCache(tmp_path / "c.sqlite") as cache:
        assert cache.batches(server.url) == []


def test_a_deadline_leaves_a_batch_under_way_for_the_next_run(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server, out = serve("--batch-s", 1.5), tmp_path / "o"
    with pytest.raises(DeadlineError):
        run(settings(server, **BATCH, stage_timeout_s=0.7), out, 5)
    _, ledger = run(settings(server, **BATCH), out, 5)
    assert len(server.calls()) == ledger["calls"] == 10


def left_under_way(server: Any, settings: Make, out: Path, items: int, **changes: Any) -> None:
    """A run that ends while the batch of its items' first calls is at the server."""
    for timeout_s in (0.5, 5, 50):  # a busy machine may send nothing in a short time
        with pytest.raises(DeadlineError):
            run(settings(server, stage_timeout_s=timeout_s, **BATCH, **changes), out, items)
        if server.calls():
            break
    assert len(server.calls()) == items


def test_live_calls_pick_up_what_a_batch_of_an_earlier_run_has_answered(
    tmp_path: Path, serve: Serve, settings: Make
) -> None:
    server, out = serve("--batch-s", 1.5), tmp_path / "o"
    left_under_way(server, settings, out, 5)
    time.sleep(1.5)
    found, ledger = run(settings(server), out, 7)
    assert found == run(settings(serve()), tmp_path / "calm", 7)[0]
    assert len(server.calls()) == ledger["calls"] == ledger["finished"] == 14  # 5 were in the batch, 9 came live
    assert ledger["in_flight_at_kill"] == ledger["retries"] == 0 and not ledger["unconfirmed_tokens"]
    with ReplyCache(out / ".llm_cache.sqlite") as cache:
        assert cache.batches(server.url) == []


def test_live_calls_of_a_batch_that_is_not_over_are_refused(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server, out = serve("--batch-s", 4.0), tmp_path / "o"
    left_under_way(server, settings, out, 5)
    with pytest.raises(BatchUnderWayError, match=r"5 calls are in batch batch-0 .*in_progress.*/batch-0/cancel"):
        run(settings(server), out, 5)
    assert len(server.calls()) == 5, "no call went out"
    found, ledger = run(settings(server, **BATCH), out, 5)
    assert len(server.calls()) == ledger["calls"] == ledger["finished"] == 10
    assert all(echo(values[2]) for values in found.values())


def test_after_a_cancelled_batch_only_the_rest_is_asked_live(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server, out = serve("--batch-s", 60.0), tmp_path / "o"
    left_under_way(server, settings, out, 6)
    urllib.request.urlopen(f"{server.url}/batches/batch-0/cancel", data=b"").close()
    found, ledger = run(settings(server), out, 6)
    assert found == run(settings(serve()), tmp_path / "calm", 6)[0]
    assert ledger["failures"] == {"batch_cancelled": 3} and ledger["retries"] == 3
    assert len(server.calls()) == ledger["calls"] == 6 + 3 + 6 and ledger["finished"] == 12


def test_a_batch_of_another_stage_is_no_matter_to_live_calls(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server, cache = serve("--batch-s", 60.0), tmp_path / "c.sqlite"
    left_under_way(server, settings, tmp_path / "o", 3, cache=cache)

    async def other(client: Client, item: int) -> list[str]:
        return await two_steps(client, item + 100)

    (tmp_path / "p").mkdir()
    with Session(settings(server, cache=cache), tmp_path / "p") as session:
        assert len(dict(session.run(range(4), other))) == 4
    with ReplyCache(cache) as stored:
        assert len(stored.batches(server.url)) == 1


@pytest.mark.parametrize("changes", [{}, BATCH], ids=["live", "batch"])
def test_a_batch_that_the_server_has_lost_is_asked_again(
    tmp_path: Path, serve: Serve, settings: Make, changes: dict[str, Any]
) -> None:
    server, out = serve("--batch-s", 60.0), tmp_path / "o"
    left_under_way(server, settings, out, 5)
    server.process.kill()
    server.process.wait()
    again = serve("--port", server.url.rpartition(":")[2].removesuffix("/v1"))  # the same server, its batches forgotten
    found, ledger = run(settings(again, **changes), out, 5)
    assert found == run(settings(serve()), tmp_path / "calm", 5)[0]
    assert ledger["failures"] == {"batch_lost": 5} and ledger["retries"] == 5 and ledger["finished"] == 10
    assert ledger["unconfirmed_tokens"] > 0  # what the lost batch may have cost


def test_results_longer_than_the_limit_stop_the_stage_and_a_higher_limit_goes_on(
    tmp_path: Path, serve: Serve, settings: Make
) -> None:
    server, out = serve(), tmp_path / "o"
    small = BatchSettings(size=20, poll_s=0.05, max_result_bytes=1500)  # the server's other answers are shorter
    with pytest.raises(ServerFailingError, match=r"longer than llm\.batch\.max_result_bytes \(1500 bytes\)"):
        run(settings(server, transport="batch", batch=small), out, 9)
    assert len(server.calls()) == 9
    _, ledger = run(settings(server, **BATCH), out, 9)
    assert len(server.calls()) == ledger["calls"] == ledger["finished"] == 18


def test_a_server_without_batches_says_so(tmp_path: Path, serve: Serve, settings: Make) -> None:
    with pytest.raises(ModelUnknownError, match="Batch API at"):
        run(settings(serve("--batches", 0), **BATCH), tmp_path / "o", 3)


def test_a_refused_model_stops_a_batch(tmp_path: Path, serve: Serve, settings: Make) -> None:
    with pytest.raises(ModelUnknownError, match="does not exist"):
        run(settings(serve("--model", "other"), **BATCH), tmp_path / "o", 3)


def test_a_budget_binds_batches(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server = serve()
    with pytest.raises(BudgetError):
        run(settings(server, budget=Budget(max_calls=9), **BATCH), tmp_path / "o", 8)
    assert len(server.calls()) <= 9


def test_a_batch_is_bounded_by_bytes(tmp_path: Path, serve: Serve, settings: Make) -> None:
    server = serve()
    chosen = settings(server, transport="batch", batch=BatchSettings(size=20, max_bytes=900, poll_s=0.02))
    found, _ = run(chosen, tmp_path / "o", 9)
    assert len(found) == 9 and len(server.calls()) == 18


def line(digest: str, **more: Any) -> bytes:
    return json.dumps({"custom_id": digest, **more}).encode() + b"\n"


def test_results_are_read_line_by_line_and_only_for_what_was_asked() -> None:
    body = {"choices": [{"message": {"content": "hi"}, "finish_reason": "stop"}]}
    output = line("a", response={"status_code": 200, "body": body}) + b'{"custom_id": "b", "respo\n[]\n'
    output += line("stranger", response={"status_code": 200, "body": body})
    errors = line("c", response={"status_code": 429, "body": {}}) + line("d", error={"code": "batch_expired"})
    errors += line("a", error={"code": "late"})
    found = read_results([output, errors], frozenset("abcd"), None)
    assert found["a"] == Reply("hi", "stop") and set(found) == {"a", "c", "d"}
    kinds = [failure.kind for failure in (found["c"], found["d"]) if isinstance(failure, Failure)]
    assert kinds == ["rate_limited", "batch_expired"]
