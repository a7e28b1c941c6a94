"""A stage under faults, killed again and again: the same bytes, no finished call repeated, every call accounted for."""

import json
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

PROGRAM = Path(__file__).with_name("stage_program.py")
SOFT = ("refusal", "wrong_label", "length")
SOFT_OR_NONE = (*SOFT, "slow", None)
Serve = Callable[..., Any]


def run(url: str, out: Path, items: int, *changes: str) -> dict[str, Any]:
    """Run to the end; the ledger."""
    command = [sys.executable, str(PROGRAM), url, str(out), str(items), *changes]
    result = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert result.returncode == 0, result.stderr[-3000:]
    ledger: dict[str, Any] = json.loads((out / "logs/ledger.json").read_text())
    return ledger


def kill_at(server: Any, calls: int, url: str, out: Path, items: int, *changes: str) -> bool:
    """Kill -9 as soon as the server has seen so many calls; whether the stage was still at work."""
    command = [sys.executable, str(PROGRAM), url, str(out), str(items), *changes]
    with subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) as process:
        while process.poll() is None and len(server.calls()) < calls:
            time.sleep(0.01)
        alive = process.poll() is None
        process.send_signal(signal.SIGKILL)
    return alive


def check_accounts(server: Any, ledger: dict[str, Any], items: int) -> None:
    """Every call the server saw is in the ledger, and completions came twice only for calls in flight at a kill."""
    whole, started = ledger["all"], server.calls()
    lost = whole["in_flight_at_kill"]
    assert ledger["open"] == 0
    assert whole["calls"] == whole["finished"] + sum(whole["failures"].values()) + lost
    assert whole["calls"] - lost <= len(started) <= whole["calls"]
    completions = Counter(call["digest"] for call in server.calls("end") if call["fault"] in SOFT_OR_NONE)
    unusable = {call["digest"] for call in started if call["fault"] in SOFT}
    assert sum(whole["unusable"].values()) <= len(unusable)
    assert len(started) <= items * 2 + whole["retries"] + len(unusable) + lost
    assert sum(completions.values()) - len(completions) <= lost


@pytest.mark.parametrize("transport", ["live", "batch"])
def test_faults_and_kills_change_no_byte_and_repeat_no_finished_call(
    tmp_path: Path, serve: Serve, transport: str
) -> None:
    chosen, items = f'transport="{transport}"', 100
    run(serve().url, tmp_path / "whole", items, chosen)
    server, out = serve("--fault-rate", 0.2, "--seed", 5, "--latency-s", 0.02), tmp_path / "killed"
    moments = [40, 120] if transport == "live" else [20, 120]
    killed = [kill_at(server, moment, server.url, out, items, chosen) for moment in moments]
    ledger = run(server.url, out, items, chosen)
    assert all(killed)
    assert (out / "values.jsonl").read_bytes() == (tmp_path / "whole/values.jsonl").read_bytes()
    check_accounts(server, ledger, items)
    before = len(server.calls())
    run(server.url, out, items, chosen)
    assert len(server.calls()) == before


def test_killed_with_a_batch_under_way_and_gone_on_live_no_call_is_made_twice(tmp_path: Path, serve: Serve) -> None:
    items = 40
    run(serve().url, tmp_path / "whole", items)
    server, out = serve("--batch-s", 1.5), tmp_path / "killed"
    assert kill_at(server, items, server.url, out, items, 'transport="batch"')
    time.sleep(1.5)
    ledger = run(server.url, out, items)
    assert (out / "values.jsonl").read_bytes() == (tmp_path / "whole/values.jsonl").read_bytes()
    check_accounts(server, ledger, items)
    assert ledger["all"]["in_flight_at_kill"] == 0
    assert len(server.calls()) == 2 * items == len({call["digest"] for call in server.calls()})


@pytest.mark.slow
def test_two_thousand_items_at_20_percent_faults_killed_ten_times(tmp_path: Path, serve: Serve) -> None:
    items = 2000
    whole = run(serve().url, tmp_path / "whole", items)
    assert whole["all"]["calls"] == 2 * items and whole["all"]["retries"] == 0
    faulty = serve("--fault-rate", 0.2, "--seed", 1)
    check_accounts(faulty, run(faulty.url, tmp_path / "faulty", items), items)
    server, draw = serve("--fault-rate", 0.2, "--seed", 2), random.Random(4)
    moments = sorted(draw.sample(range(20, 4600), 10))
    killed = [kill_at(server, moment, server.url, tmp_path / "killed", items) for moment in moments]
    ledger = run(server.url, tmp_path / "killed", items)
    assert sum(killed) == 10
    check_accounts(server, ledger, items)
    assert 0 < ledger["all"]["in_flight_at_kill"] <= 10 * 32
    wanted = (tmp_path / "whole/values.jsonl").read_bytes()
    assert wanted.count(b"ECHO") == 2 * items
    for name in ("faulty", "killed"):
        assert (tmp_path / name / "values.jsonl").read_bytes() == wanted
