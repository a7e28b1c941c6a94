"""Shared by the tests of evidence: the given tables."""

import json
from pathlib import Path
from typing import Any

import pytest

CASES = Path(__file__).with_name("table_grid.jsonl")


@pytest.fixture(scope="session")
def table_cases() -> list[dict[str, Any]]:
    """The given tables: [{id, html, expected, why}]."""
    return [json.loads(line) for line in CASES.read_text(encoding="utf-8").splitlines()]
