"""The journal keeps every whole line and cuts off a torn one, wherever it was torn."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.configs.journal import Journal

KEYS = st.lists(st.text(max_size=6), unique=True, min_size=1, max_size=6)


@given(KEYS, st.data())
def test_any_cut_keeps_the_whole_lines_before_it(keys: list[str], data: st.DataObject) -> None:
    with TemporaryDirectory() as folder:
        path = Path(folder) / "journal"
        with Journal(path) as journal:
            for number, key in enumerate(keys):
                journal.append(key, {"n": number})
        whole = path.read_bytes()
        cut = data.draw(st.integers(0, len(whole)))
        path.write_bytes(whole[:cut])
        with Journal(path) as journal:
            kept = whole[:cut].count(b"\n")
            assert list(journal) == keys[:kept] and len(journal) == kept
            for number, key in enumerate(keys[kept:], start=kept):
                journal.append(key, {"n": number})
        assert path.read_bytes() == whole


def test_key_twice_and_foreign_lines_are_errors(tmp_path: Path) -> None:
    with Journal(tmp_path / "j") as journal:
        journal.append("a", 1)
        with pytest.raises(ValueError, match="'a' is already finished"):
            journal.append("a", 2)
    (tmp_path / "j").write_text(json.dumps({"key": "a", "value": 1}) + "\nhello\n")
    with pytest.raises(InputError, match="j:2: not a journal line"):
        Journal(tmp_path / "j")
