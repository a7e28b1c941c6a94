"""The ledger: sums equal a second count, over kills at any byte; calls in flight at a kill stand apart."""

import json
import os
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.llm import Prices, Usage
from tilewright.data_gen.llm.ledger import Ledger
from tilewright.data_gen.llm.request import Reply

PRICES = Prices(1.0, 10.0)
DONE = Reply("x", "stop", Usage(100, 20, 0, 30))
EVENTS = st.lists(
    st.tuples(st.sampled_from(["generate", "judge"]), st.sampled_from(["end", "fail", "kill", "cached", "unusable"]))
)


def abandon(ledger: Ledger) -> None:
    """As a kill does: nothing is written."""
    os.close(ledger._file)


@settings(max_examples=40)
@given(st.lists(EVENTS, max_size=3))
def test_sums_over_killed_runs_equal_a_second_count(runs: list[list[tuple[str, str]]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        for events in runs:
            ledger = Ledger(Path(folder), PRICES)
            for place, (purpose, event) in enumerate(events):
                if event in ("cached", "unusable"):
                    ledger.cached(purpose) if event == "cached" else ledger.unusable(purpose, "unparsed")
                    continue
                number = ledger.start(purpose, f"{place}", 500, 0.5)
                if event == "end":
                    ledger.end(number, DONE)
                elif event == "fail":
                    ledger.fail(number, "timeout", may_cost=True)
            abandon(ledger)
        ledger = Ledger(Path(folder), PRICES)
        flat = Counter(event for events in runs for _, event in events)
        whole = ledger.whole
        assert whole.calls == flat["end"] + flat["fail"] + flat["kill"]
        assert (whole.finished, whole.cached, whole.in_flight_at_kill) == (flat["end"], flat["cached"], flat["kill"])
        assert (whole.failures["timeout"], whole.unusable["unparsed"]) == (flat["fail"], flat["unusable"])
        assert (whole.input_tokens, whole.output_tokens) == (100 * flat["end"], 20 * flat["end"])
        assert whole.image_tokens == 30 * flat["end"]
        assert whole.cost == pytest.approx(flat["end"] * (100 + 200) / 1e6)
        assert whole.unconfirmed_tokens == 500 * (flat["fail"] + flat["kill"])
        assert not ledger.open
        ledger.close()
        report = json.loads((Path(folder) / "logs/ledger.json").read_text())
        assert report["all"]["calls"] == sum(part["calls"] for part in report["by_purpose"].values())


def test_a_kill_at_any_byte_of_a_line_loses_that_line_only(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, PRICES)
    ledger.end(ledger.start("p", "a", 5, 0.0), DONE)
    path = tmp_path / "logs/ledger.jsonl"
    before = path.stat().st_size
    ledger.end(ledger.start("p", "b", 5, 0.0), DONE)
    abandon(ledger)
    content = path.read_bytes()
    for size in range(before, len(content)):
        path.write_bytes(content[:size])
        again = Ledger(tmp_path, PRICES)
        found = (again.whole.calls, again.whole.finished, again.whole.in_flight_at_kill)
        assert found in ((1, 1, 0), (2, 1, 1))
        abandon(again)


def test_a_call_that_was_stored_but_not_noted_has_finished(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path, PRICES)
    ledger.start("p", "stored", 5, 0.0)
    ledger.start("p", "lost", 5, 0.0)
    ledger.start("p", "in a batch", 5, 0.0)
    abandon(ledger)
    again = Ledger(tmp_path, PRICES, {"stored": DONE}.get, ["in a batch"])
    assert (again.whole.finished, again.whole.in_flight_at_kill, len(again.open)) == (1, 1, 1)
    assert again.whole.cost == pytest.approx(300 / 1e6)
    again.close()


def test_what_repeats_a_failed_call_is_a_retry_also_after_a_kill(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path)
    ledger.fail(ledger.start("p", "a", 5, 0.0), "http_500", may_cost=False)
    abandon(ledger)
    again = Ledger(tmp_path)
    for digest in ("a", "b", "a"):
        again.end(again.start("p", digest, 5, 0.0), DONE)
    assert (again.whole.retries, again.whole.unconfirmed_tokens) == (1, 0)
    again.close()


def test_a_foreign_line_is_an_error_that_names_it(tmp_path: Path) -> None:
    Ledger(tmp_path).close()
    with (tmp_path / "logs/ledger.jsonl").open("a") as file:
        file.write('["e", 77, [1, 2, 3, 4], 0]\n')
    with pytest.raises(InputError, match=r"ledger.jsonl:2"):
        Ledger(tmp_path)


def test_metrics_show_cost_only_with_prices(tmp_path: Path) -> None:
    for prices, shown in ((None, False), (PRICES, True)):
        ledger = Ledger(None, prices)
        ledger.end(ledger.start("p", "a", 5, 0.0), DONE)
        metrics: dict[str, Any] = ledger.metrics()
        assert metrics["calls"] == 1 and metrics["tokens_in"] == 100 and ("cost" in metrics) == shown
        ledger.close()
    assert not list(tmp_path.iterdir())
