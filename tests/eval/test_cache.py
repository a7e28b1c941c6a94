"""Work kept by content: asked once, errors tried again, parts apart, one process at a time."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tilewright.configs.items import ItemError
from tilewright.configs.locks import FolderBusyError
from tilewright.eval.cache import Cache


def test_each_key_is_worked_out_once_and_errors_again(tmp_path: Path) -> None:
    cache, asked = Cache(tmp_path), list[str]()

    def work(todo: Sequence[str]) -> Iterator[tuple[str, str | ItemError]]:
        for item in todo:
            asked.append(item)
            yield item, ItemError("busy") if item == "bad" and len(asked) < 4 else item.upper()

    part = cache.part("things", {"a": 1})
    assert cache.values(part, "x", ["a", "bad", "a", "b"], str, work) == ({"a": "A", "b": "B"}, {"bad": "busy"})
    assert asked == ["a", "bad", "b"]
    assert cache.values(part, "x", ["b", "bad", "c"], str, work) == ({"b": "B", "bad": "BAD", "c": "C"}, {})
    assert asked == ["a", "bad", "b", "bad", "c"]


def test_parts_are_named_by_all_that_determines_them(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    parts = [cache.part("x", *identity) for identity in (("a",), ("b",), ("a", 1), ({"k": (1, 2)},))]
    assert len({*parts, cache.part("y", "a")}) == 5
    assert cache.part("x", {"k": [1, 2]}) == parts[3] and cache.part("x", "a") == parts[0]
    assert set(cache.sizes()) == {"x", "y"}


def test_a_second_process_is_refused(tmp_path: Path) -> None:
    cache = Cache(tmp_path / "new")
    with cache.locked(), pytest.raises(FolderBusyError), Cache(tmp_path / "new").locked():
        pass
