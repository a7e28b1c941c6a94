"""The inputs of embedder training: pools by split, choices by digest, and each unusable file named with its line."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair, TrainingExample, write_jsonl
from tilewright.train.training_data import TrainingData, load_training_data, pool_counts


def pair(query_id: str, tile_id: str) -> QAPair:
    return QAPair(query_id, f"{query_id}?", "a", (), tile_id, tile_id.partition("-")[0], "", "paragraph", "", "test/1")


@pytest.fixture
def folder(reader_parts: Any, tmp_path: Path) -> Path:
    """Ten examples over five training pages, six questions over two validation pages; a page for testing."""
    ids = reader_parts.tile_ids
    examples = [TrainingExample(f"q{n}", f"{n}?", ids[n % 5], (ids[(n + 1) % 5],), (ids[7],)) for n in range(10)]
    write_jsonl(tmp_path / "examples.jsonl", examples)
    write_jsonl(tmp_path / "validation.jsonl", [pair(f"v{n}", ids[5 + n % 2]) for n in range(6)])
    pages = [tile_id.partition("-")[0] for tile_id in ids]
    (tmp_path / "pages.json").write_text(
        json.dumps({"train": pages[:5], "validation": pages[5:7], "test": pages[7:]}), encoding="utf-8"
    )
    return tmp_path


def load(folder: Path, tiles: Path, limit: int | None = None) -> TrainingData:
    inputs = {"examples": folder / "examples.jsonl", "validation": folder / "validation.jsonl"}
    inputs |= {"splits": folder, "tiles": tiles}
    return load_training_data(inputs, seed=1, limit_examples=limit, validation_queries=4, train_recall_queries=8)


def test_pools_hold_all_tiles_of_their_split(folder: Path, reader_parts: Any) -> None:
    data = load(folder, reader_parts.tiles)
    assert data.training_tiles == sorted(reader_parts.tile_ids[:5]) == list(data.training.tile_ids)
    assert sorted(data.validation.tile_ids) == sorted(reader_parts.tile_ids[5:7])
    assert pool_counts(data.validation) == {"queries": 4, "tiles": 2, "pages": 2}
    assert pool_counts(data.training) == {"queries": 8, "tiles": 5, "pages": 5}
    for pool in (data.training, data.validation):
        assert pool.relevant.keys() == pool.queries.keys()
        assert all(set(tiles) < set(pool.tile_ids) and len(tiles) == 1 for tiles in pool.relevant.values())


def test_limits_choose_by_digest(folder: Path, reader_parts: Any) -> None:
    limited, whole = load(folder, reader_parts.tiles, 3), load(folder, reader_parts.tiles)
    assert limited.examples == whole.examples[:3] and len(whole.examples) == 10
    assert set(limited.training.queries) == {example.query_id for example in limited.examples}
    lines = (folder / "examples.jsonl").read_text().splitlines()
    (folder / "examples.jsonl").write_text("\n".join(lines[::-1]) + "\n")
    assert load(folder, reader_parts.tiles, 3).examples == limited.examples


STRANGE = TrainingExample("q9", "Which?", "0" * 16 + "-0042-00", ())


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("examples.jsonl", "", "no training examples"),
        ("examples.jsonl", json.dumps(dataclasses.asdict(STRANGE)), "examples.jsonl:1: positive_tile_id: tile '0"),
        ("examples.jsonl", '{"query_id": 3}\n', "examples.jsonl:1: TrainingExample: .*missing keys"),
        ("validation.jsonl", json.dumps(dataclasses.asdict(pair("v", "gone"))), "validation.jsonl:1: tile 'gone'"),
        ("pages.json", "{}", "pages.json: wanted"),
        ("pages.json", "[]", "pages.json: wanted"),
        ("pages.json", '{"train": [], "validation": []}', "validation.jsonl:1: page .* is no validation page"),
    ],
)
def test_unusable_inputs_are_named(name: str, text: str, message: str, folder: Path, reader_parts: Any) -> None:
    (folder / name).write_text(text)
    with pytest.raises(InputError, match=message):
        load(folder, reader_parts.tiles)


@pytest.mark.parametrize(
    ("negatives", "message"),
    [(("gone",), "negative_tile_ids: tile 'gone' is not in .*8 tiles"), (None, "is both positive and negative")],
)
def test_a_bad_negative_is_named_with_its_line(
    negatives: tuple[str, ...] | None, message: str, folder: Path, reader_parts: Any
) -> None:
    own = reader_parts.tile_ids[0]
    bad = TrainingExample("q10", "?", own, (own,) if negatives is None else negatives)
    with (folder / "examples.jsonl").open("a") as file:
        file.write(json.dumps(dataclasses.asdict(bad)) + "\n")
    with pytest.raises(InputError, match=f"examples.jsonl:11: .*{message}"):
        load(folder, reader_parts.tiles)
