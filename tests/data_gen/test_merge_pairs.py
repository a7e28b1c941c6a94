"""Parts whose files don't fit together are named, whatever their manifests say."""

import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.merge_pairs import Config, merge_pairs
from tilewright.data_gen.pair_outcomes import KEPT, OUTCOMES, Outcome, outcome_of, read_outcomes, write_outcomes
from tilewright.data_gen.records import QAPair, to_json

PAGE = "0123456789abcdef"


def part(folder: Path, shard: str, outcomes: dict[int, str]) -> Path:
    """A folder of the stage natural with outcomes by position."""
    folder.mkdir()
    pairs = {n: QAPair(f"q{n}", f"Who {n}?", "I", (), f"{PAGE}-0000-00", PAGE, "", "table", "", "x") for n in outcomes}
    made = [outcome_of(n, pairs[n], outcome) for n, outcome in outcomes.items()]
    counts = write_outcomes(folder, {pair.query_id: pair for pair in pairs.values()}, made)
    request: dict[str, Any] = {"stage": "natural", "schema": 1, "config": {"shard": shard}, "inputs": {}}
    manifest = {"identity": "x", "request": request, "counts": counts, "outputs": {}, "sizes": {}, "provenance": {}}
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture
def parts(tmp_path: Path) -> tuple[Path, Path]:
    return part(tmp_path / "a", "0/2", {0: KEPT, 3: "unnatural"}), part(tmp_path / "b", "1/2", {2: KEPT, 1: KEPT})


def test_parts_add_up(parts: tuple[Path, Path], tmp_path: Path) -> None:
    counts = merge_pairs(Config(tmp_path, parts), {}, tmp_path)
    assert (counts["pairs"], counts["kept"], counts["dropped_unnatural"]) == (4, 3, 1)
    assert [outcome.position for outcome in read_outcomes(tmp_path / OUTCOMES)] == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ('"position": 1', '"position": 2', "one outcome for each pair"),
        ('"position": 1', '"position": 7', "one outcome for each pair"),
        ('"q1"', '"q9"', "other pairs than"),
        ('"outcome": "kept"', '"outcome": "kopt"', "other pairs than"),
    ],
)
def test_parts_that_do_not_fit_are_named(
    old: str, new: str, message: str, parts: tuple[Path, Path], tmp_path: Path
) -> None:
    path = parts[1] / OUTCOMES
    path.write_text(path.read_text().replace(old, new, 1))
    with pytest.raises(InputError, match=message):
        merge_pairs(Config(tmp_path, parts), {}, tmp_path)
    assert not (tmp_path / OUTCOMES).exists()


GOOD = to_json(Outcome(0, "q", PAGE, "table", KEPT))


@pytest.mark.parametrize(
    "line",
    [
        b"\xff\xfe", b"", b"[]", b"{}", b"[" * 100_000, b'"x"',
        *(json.dumps(GOOD | change).encode() for change in (
            {"position": "0"}, {"position": True}, {"position": 1.0}, {"query_id": 3}, {"page_id": None},
            {"outcome": ["kept"]}, {"facts": []}, {"more": 1},
        )),
    ],
)  # fmt: skip
def test_a_line_that_is_no_outcome_is_named(line: bytes, tmp_path: Path) -> None:
    (tmp_path / OUTCOMES).write_bytes(json.dumps(GOOD).encode() + b"\n" + line + b"\n")
    with pytest.raises(InputError, match=rf"{OUTCOMES}:2: wanted an outcome"):
        read_outcomes(tmp_path / OUTCOMES)
