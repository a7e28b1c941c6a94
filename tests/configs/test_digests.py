"""Digests see content, not place, order or spelling."""

import dataclasses
import hashlib
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.digests import MissingInputError, canonical_json, digest_file, digest_input, output_digests

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(VALUES)
def test_canonical_json_is_json_and_a_fixed_point(value: object) -> None:
    text = canonical_json(value)
    assert json.loads(text) == value and canonical_json(json.loads(text)) == text


@given(st.dictionaries(st.text(), st.integers(), min_size=2))
def test_key_order_does_not_matter(value: dict[str, int]) -> None:
    assert canonical_json(value) == canonical_json(dict(reversed(value.items())))


def test_dataclasses_paths_and_tuples_have_one_spelling() -> None:
    @dataclasses.dataclass(frozen=True)
    class Point:
        where: Path
        xs: tuple[int, ...]

    assert canonical_json(Point(Path("a/b"), (1, 2))) == '{"where":"a/b","xs":[1,2]}'
    with pytest.raises(ValueError):
        canonical_json(float("nan"))


def test_folder_digest_follows_names_and_bytes_and_skips_logs_and_hidden(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    for folder in (one, two):
        (folder / "deep").mkdir(parents=True)
        (folder / "deep/file").write_bytes(b"x")
    assert digest_input(one) == digest_input(two)
    (one / "logs").mkdir()
    (one / "logs/progress.jsonl").write_text("12:00")
    (one / ".journal.jsonl").write_text("{}")
    assert output_digests(one) == {"deep/file": hashlib.sha256(b"x").hexdigest()} == output_digests(two)
    assert digest_input(one) != digest_input(two), "in a user's folder every file counts, whatever its name"
    (two / "manifest.json").write_text('{"name": "a web app"}')
    assert digest_input(two)
    (two / "deep/file").rename(two / "deep/renamed")
    assert digest_input(one) != digest_input(two)
    assert digest_input(one / "deep/file") == digest_file(one / "deep/file")
    with pytest.raises(MissingInputError, match="gone is missing"):
        digest_input(tmp_path / "gone")
