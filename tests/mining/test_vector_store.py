"""Vectors on disk: what is written is read, in any order; what is damaged or foreign is refused."""

import hashlib
import json
import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.mining.vector_store import SCHEMA, VectorStore
from tilewright.mining.vector_writer import VectorWriter, write_vector_store

TILES, D = 11, 6
IDS = [f"{number // 3:016x}-{number % 3:04d}-00" for number in range(TILES)]
HASHES = [hashlib.sha256(bytes([number])).hexdigest() for number in range(TILES)]
SPACE = "ab" * 32


def _vectors(seed: int = 0, tiles: int = TILES) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal((tiles, D)).astype(np.float32)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three shards: 4, 4 and 3 tiles."""
    write_vector_store(tmp_path / "v", IDS, HASHES, _vectors(), encoder_hash=SPACE, shard_bytes=4 * D * 4)
    return tmp_path / "v"


def test_what_is_written_is_read(folder: Path) -> None:
    store = VectorStore.open(folder)
    assert (len(store), store.dimension, store.dtype, store.encoder_hash) == (TILES, D, "float32", SPACE)
    assert list(store.tile_ids) == IDS == store.tile_ids[:] == [store.tile_ids[row] for row in range(TILES)]
    assert (store.tile_ids[-1], store.tile_ids[3:9:2]) == (IDS[-1], IDS[3:9:2])
    assert list(store.image_hashes()) == HASHES
    assert store.image_hashes()[7] == HASHES[7]
    digests = np.concatenate(list(store.image_digests()))
    assert digests.tobytes() == bytes.fromhex("".join(HASHES))
    shards = list(store.shards())
    assert [len(vectors) for _, vectors in shards] == [4, 4, 3]
    assert [tile_id for ids, _ in shards for tile_id in ids] == IDS
    assert all(isinstance(vectors, np.memmap) for _, vectors in shards)
    assert np.array_equal(np.concatenate([vectors for _, vectors in shards]), _vectors())
    with pytest.raises(IndexError):
        store.tile_ids[TILES]
    store.verify()
    again = pickle.loads(pickle.dumps(store))
    assert np.array_equal(again.rows([5]), store.rows([5]))


@settings(max_examples=25, deadline=None)
@given(rows=st.lists(st.integers(0, TILES - 1), max_size=30))
def test_rows_in_any_order_and_number(tmp_path_factory: pytest.TempPathFactory, rows: list[int]) -> None:
    root = tmp_path_factory.getbasetemp() / "rows"
    if not root.exists():
        write_vector_store(root, IDS, HASHES, _vectors(), encoder_hash=SPACE, dtype="float16", shard_bytes=30)
    found = VectorStore.open(root).rows(rows)
    assert found.dtype == np.float32
    assert np.array_equal(found, _vectors().astype(np.float16).astype(np.float32)[rows])


def test_rows_beyond_the_store(folder: Path) -> None:
    for rows in ([TILES], [-1], [0, 99]):
        with pytest.raises(IndexError, match="wanted rows 0 to 10"):
            VectorStore.open(folder).rows(rows)


def test_the_bytes_depend_on_the_vectors_alone(folder: Path, tmp_path: Path) -> None:
    writer = VectorWriter(
        tmp_path / "w", tiles=TILES, dimension=D, dtype="float32", encoder_hash=SPACE, shard_bytes=4 * D * 4
    )
    (tmp_path / "w").mkdir()
    assert writer.ranges() == [range(4), range(4, 8), range(8, 11)]
    shards = {}
    for number in (2, 0, 1):
        rows = writer.ranges()[number]
        part = slice(rows.start, rows.stop)
        pieces = [_vectors()[row : row + 1] for row in rows]
        shards[number] = writer.write_shard(number, IDS[part], HASHES[part], pieces)
    writer.finish([shards[0], shards[1], shards[2]])
    assert output_digests(tmp_path / "w") == output_digests(folder)
    entry = json.loads((folder / "vectors.json").read_text())["shards"][2]
    for name, key in (("vectors-00002.npy", "vectors"), ("vectors-00002.arrow", "ids")):
        data = (folder / name).read_bytes()
        assert (entry[f"{key}_bytes"], entry[f"{key}_sha256"]) == (len(data), hashlib.sha256(data).hexdigest())
    assert np.array_equal(np.load(folder / "vectors-00001.npy"), _vectors()[4:8])


def test_a_store_without_tiles(tmp_path: Path) -> None:
    store = write_vector_store(tmp_path, [], [], _vectors()[:0], encoder_hash=SPACE)
    assert (len(store), list(store.tile_ids), list(store.shards()), store.rows([]).shape) == (0, [], [], (0, D))
    with pytest.raises(IndexError):
        store.rows([0])


def test_wrong_numbers_of_rows_and_foreign_hashes(tmp_path: Path) -> None:
    writer = VectorWriter(tmp_path, tiles=2, dimension=D, dtype="float32", encoder_hash=SPACE)
    with pytest.raises(ValueError, match="wanted 2 tiles, found 1"):
        writer.write_shard(0, IDS[:1], HASHES[:1], [_vectors()[:1]])
    with pytest.raises(ValueError, match="wanted 2 vectors, found 3"):
        writer.write_shard(0, IDS[:2], HASHES[:2], [_vectors()[:3]])
    with pytest.raises(ValueError, match=r"wanted pieces \[n, 6\], found \[2, 5\]"):
        writer.write_shard(0, IDS[:2], HASHES[:2], [_vectors()[:2, :5]])
    for text in ("", "zz" * 32, "ab" * 31):
        with pytest.raises(InputError, match=rf"tile {IDS[1]}: image_sha256: wanted 64 hex"):
            writer.write_shard(0, IDS[:2], [HASHES[0], text], [_vectors()[:2]])
    assert not list(tmp_path.glob("vectors*"))


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def _turned(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(bytes(data))


@pytest.mark.parametrize("name", ["vectors-00001.npy", "vectors-00002.arrow"])
def test_a_damaged_file_is_refused(folder: Path, name: str) -> None:
    whole = (folder / name).read_bytes()
    _cut(folder / name)
    with pytest.raises(InputError, match=rf"{name}: wanted {len(whole)} bytes, found {len(whole) - 1}"):
        VectorStore.open(folder)
    (folder / name).unlink()
    with pytest.raises(InputError, match=rf"{name}: wanted {len(whole)} bytes, found nothing"):
        VectorStore.open(folder)
    (folder / name).write_bytes(bytes(len(whole)))
    with pytest.raises(InputError, match=f"{name}: not a readable"):
        [*VectorStore.open(folder).shards()]
    (folder / name).write_bytes(whole)
    _turned(folder / name)
    with pytest.raises(InputError, match=f"{name}: changed since it was written"):
        VectorStore.open(folder).verify()


def test_a_pickle_is_never_loaded(folder: Path) -> None:
    path = folder / "vectors-00000.npy"
    size = path.stat().st_size
    np.save(path, np.array([object()] * 4, dtype=object), allow_pickle=True)
    path.write_bytes(path.read_bytes().ljust(size, b"\0")[:size])
    with pytest.raises(InputError, match=r"vectors-00000\.npy: not a readable array"):
        VectorStore.open(folder).rows([0])


@pytest.mark.parametrize(
    "change",
    [
        {"format": "other"},
        {"dtype": "float64"},
        {"dtype": "object"},
        {"dimension": 0},
        {"dimension": "6"},
        {"tiles": 12},
        {"shards": []},
        {"shards": [{"tiles": 11}]},
        {"more": 1},
    ],
)
def test_a_foreign_index_is_refused(folder: Path, change: dict[str, Any]) -> None:
    path = folder / "vectors.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | change))
    with pytest.raises(InputError, match=r"vectors\.json"):
        VectorStore.open(folder)


@pytest.mark.parametrize("text", [None, "", "[]", "{", "[" * 100_000])
def test_no_folder_of_vectors(folder: Path, text: str | None) -> None:
    path = folder / "vectors.json"
    path.unlink() if text is None else path.write_text(text)
    with pytest.raises(InputError, match=r"vectors\.json"):
        VectorStore.open(folder)


def test_another_shape_or_table_under_the_right_size(folder: Path) -> None:
    path = folder / "vectors-00000.npy"
    np.save(path, _vectors(1, 4).reshape(D, 4))
    with pytest.raises(InputError, match=r"wanted float32 \[4, 6\], found float32 \[6, 4\]"):
        VectorStore.open(folder).rows([0])
    entry = json.loads((folder / "vectors.json").read_text())
    table = folder / "vectors-00001.arrow"
    with pa.OSFile(str(table), "wb") as file, pa.ipc.new_file(file, SCHEMA) as out:
        out.write_batch(pa.record_batch([pa.array(["a"]), pa.array([bytes(32)], pa.binary(32))], schema=SCHEMA))
    entry["shards"][1]["ids_bytes"] = table.stat().st_size
    (folder / "vectors.json").write_text(json.dumps(entry))
    with pytest.raises(InputError, match=r"vectors-00001\.arrow: wanted 4 rows"):
        list(VectorStore.open(folder).tile_ids)
