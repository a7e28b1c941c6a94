"""Agreement of two judges by closed forms."""

import importlib
from pathlib import Path
from typing import Any

import pytest


@pytest.fixture
def benchmark(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "benchmarks"))
    return importlib.import_module("llm_loop")


def cells(both: int, first: int, second: int, neither: int) -> dict[tuple[bool, bool], int]:
    return {(True, True): both, (True, False): first, (False, True): second, (False, False): neither}


@pytest.mark.parametrize(
    ("table", "kappa"),
    [
        (cells(5, 0, 0, 5), 1.0),
        (cells(0, 5, 5, 0), -1.0),
        (cells(4, 4, 4, 4), 0.0),
        (cells(20, 5, 10, 15), 0.4),  # Wikipedia's example: equal .7, by chance .5
        (cells(9, 0, 0, 0), None),
        ({}, None),
    ],
)
def test_kappa(benchmark: Any, table: dict[tuple[bool, bool], int], kappa: float | None) -> None:
    assert benchmark.kappa(table) == (None if kappa is None else pytest.approx(kappa))
