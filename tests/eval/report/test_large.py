"""A report of 5,000 questions: its size, and how soon a browser shows it."""

import dataclasses
import time
from pathlib import Path
from typing import Any

import pytest
from tests.browsers import launch

from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import QAPair, read_jsonl, write_jsonl
from tilewright.eval.evaluate import STAGE
from tilewright.eval.readers.string_evidence import StringEvidence
from tilewright.eval.rows import RowSpec

pytestmark = [pytest.mark.slow, pytest.mark.browser]


@pytest.fixture(scope="module")
def large(world: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Three retrievers with three hits each and a reader in two cells."""
    folder = tmp_path_factory.mktemp("large")
    pairs = [
        dataclasses.replace(pair, query_id=f"{pair.query_id}-{copy}", query=f"{pair.query} ({copy})")
        for copy in range(625)
        for pair in read_jsonl(world.paths["pairs"], QAPair)
    ]
    write_jsonl(folder / "pairs.jsonl", pairs)
    rows = ("base", "trained", RowSpec("bm25", "as_is", "string", (1, 3)))
    changes = {"compare": (), "deliveries": {}, "reader_checkpoints": {}, "resamples": 10, "read_questions": None}
    readers = {"string": StringEvidence("string_evidence")}
    run_stage(STAGE, world.config(folder / "out", rows=rows, readers=readers, pairs=folder / "pairs.jsonl", **changes))
    return folder / "out" / "report.html"


def test_5000_questions_open_in_two_seconds(large: Path) -> None:
    """The quickest of three loads, and of three changes of a filter."""
    assert large.stat().st_size < 30_000_000
    playwright = pytest.importorskip("playwright.sync_api")
    opened, filtered = [], []
    with playwright.sync_playwright() as browsers:
        browser = launch(browsers)
        for _ in range(3):
            page = browser.new_page()
            started = time.perf_counter()
            page.goto(large.as_uri())
            page.wait_for_selector("body[data-ready=true]")
            opened.append(time.perf_counter() - started)
            assert page.inner_text("#count") == "5000 of 5000 questions"
            started = time.perf_counter()
            page.fill("#search", "(77)")
            assert page.inner_text("#count") == "8 of 5000 questions"
            filtered.append(time.perf_counter() - started)
            page.close()
        browser.close()
    print(f"opened in {min(opened):.2f} s, filtered in {min(filtered):.2f} s, {large.stat().st_size / 1e6:.1f} MB")
    assert min(opened) < 2 and min(filtered) < 1
