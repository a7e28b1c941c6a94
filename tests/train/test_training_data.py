"""The inputs of embedder training: pools by split, choices by digest, and each unusable file named with its line."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair, TextPair, TrainingExample, write_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.train import kept_examples
from tilewright.train.batch_plan import BatchPlan
from tilewright.train.read_examples import read_examples
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
    assert list(data.training_tiles) == sorted(reader_parts.tile_ids[:5]) == list(data.training.tile_ids)
    assert sorted(data.validation.tile_ids) == sorted(reader_parts.tile_ids[5:7])
    assert pool_counts(data.validation) == {"queries": 4, "tiles": 2, "pages": 2}
    assert pool_counts(data.training) == {"queries": 8, "tiles": 5, "pages": 5}
    for pool in (data.training, data.validation):
        assert pool.relevant.keys() == pool.queries.keys()
        assert all(set(tiles) < set(pool.tile_ids) and len(tiles) == 1 for tiles in pool.relevant.values())


def test_limits_choose_by_digest(folder: Path, reader_parts: Any) -> None:
    limited, whole = (list(load(folder, reader_parts.tiles, limit).examples) for limit in (3, None))
    assert len(limited) == 3 and len(whole) == 10 and {*limited} < {*whole}
    assert {*limited} < {*load(folder, reader_parts.tiles, 5).examples}
    data = load(folder, reader_parts.tiles, 3)
    assert set(data.training.queries) == {example.query_id for example in limited}
    lines = (folder / "examples.jsonl").read_text().splitlines()
    (folder / "examples.jsonl").write_text("\n".join(lines[::-1]) + "\n")
    assert list(load(folder, reader_parts.tiles, 3).examples) == limited


def test_text_pairs_are_read_if_given(folder: Path, reader_parts: Any) -> None:
    assert load(folder, reader_parts.tiles).text_pairs is None
    write_jsonl(folder / "text_pairs.jsonl", [TextPair("p", "Who?", "Ada.", "page", "heading")])
    inputs = {name: folder / f"{name}.jsonl" for name in ("examples", "validation", "text_pairs")}
    inputs |= {"splits": folder, "tiles": reader_parts.tiles}
    options: dict[str, Any] = {"limit_examples": None, "validation_queries": 4, "train_recall_queries": 8}
    pairs = load_training_data(inputs, seed=1, **options).text_pairs
    assert pairs is not None and pairs.column("passage").to_pylist() == ["Ada."]


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


def test_examples_are_kept_for_the_next_start(folder: Path, reader_parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The second start maps what the first one read; another file, or another store, is read anew."""
    path, kept, store = folder / "examples.jsonl", folder / "runs" / ".examples", reader_parts.store()
    wanted = list(read_examples(path, store))
    assert list(kept_examples.kept_examples(path, store, kept, write=False)) == wanted and not kept.exists()
    assert list(kept_examples.kept_examples(path, store, kept)) == wanted
    reads = []
    monkeypatch.setattr(kept_examples, "read_examples", lambda *found: reads.append(found) or read_examples(*found))
    again = kept_examples.kept_examples(path, store, kept)
    assert list(again) == wanted and not reads
    plans = [BatchPlan(examples, batch_size=4, seed=0) for examples in (wanted, again)]
    assert plans[0].batch(5) == plans[1].batch(5)
    write_jsonl(path, wanted[:4])
    assert list(kept_examples.kept_examples(path, store, kept)) == wanted[:4] and len(reads) == 1
    write_store(folder / "fewer", [store.get(tile_id) for tile_id in reader_parts.tile_ids])
    other = TileStore.open(folder / "fewer")
    assert list(kept_examples.kept_examples(path, other, kept)) == wanted[:4] and len(reads) == 2
    for header in (b"{'descr': '<i8', ", b"nonsense"):  # damaged: numpy parses it as Python
        array = kept / "positives.npy"
        data = array.read_bytes()
        array.write_bytes(data[:10] + header.ljust(117) + b"\n" + data[128:])
        assert list(kept_examples.kept_examples(path, other, kept)) == wanted[:4]
    assert len(reads) == 4 and [entry.name for entry in kept.parent.iterdir()] == [".examples"]


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
