"""Indexes that are damaged, cut short, foreign or old: an error that says which file, never other hits."""

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from tests.mining.index_corpus import HASH, IVF, build, ids_of, unit

from tilewright.configs.errors import InputError
from tilewright.mining import index_quantiser
from tilewright.mining.index import TileIndex

VECTORS, IDS, QUERIES = unit(640, 1), ids_of(640), unit(5, 2)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("indexes")
    for kind in ("flat", "ivf_pq"):
        build(kind, VECTORS, IDS, root / kind).remove(IDS[:4])
    return root


@pytest.fixture
def folder(folders: Path, tmp_path: Path) -> Callable[[str], Path]:
    def copied(kind: str) -> Path:
        return shutil.copytree(folders / kind, tmp_path / kind)

    return copied


def _change(path: Path, **changes: Any) -> None:
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def _segment(**changes: Any) -> dict[str, Any]:
    return {"name": "segment-000001", "tiles": 640, "removed": "", "removed_tiles": 4} | changes


FILES = {
    "flat": ("segment-000001/tile_ids.npy", "segment-000001/order.npy", "segment-000001/vectors.npy"),
    "ivf_pq": (
        "segment-000001/list_sizes.npy",
        "segment-000001/lists.npy",
        "trained.faiss",
        "removed-000002-000001.npy",
    ),
}


@pytest.mark.parametrize(("kind", "name"), [(kind, name) for kind, names in FILES.items() for name in names])
def test_files_gone_cut_short_or_of_another_shape(kind: str, name: str, folder: Callable[[str], Path]) -> None:
    root = folder(kind)
    path = root / name
    data = path.read_bytes()
    for damaged in (None, data[:-1], data[: len(data) // 2], b"", b"nonsense" * 30):
        path.unlink() if damaged is None else path.write_bytes(damaged)
        with pytest.raises(InputError, match=path.name):
            TileIndex.load(root)
    if path.suffix == ".npy":
        np.save(path, np.arange(7, dtype=np.float64))
        with pytest.raises(InputError, match=rf"{path.name}: wanted .*, found float64 \[7\]"):
            TileIndex.load(root)
    path.write_bytes(data)
    assert len(TileIndex.load(root)) == 636


def test_pickles_are_not_read(folder: Callable[[str], Path]) -> None:
    root = folder("flat")
    np.save(root / "segment-000001/tile_ids.npy", np.array([{}], dtype=object), allow_pickle=True)
    with pytest.raises(InputError, match="tile_ids"):
        TileIndex.load(root)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        (
            {"format": "tilewright index 1"},
            "wanted format 'tilewright index 2', found 'tilewright index 1'",
        ),
        ({"kind": "hnsw"}, "kind 'hnsw'"),
        ({"kind": "ivf"}, "kind 'ivf'"),
        ({"tiles": 7}, "7 tiles, 636 in its segments"),
        ({"dimension": 8}, "wanted .*8"),
        ({"extra": 1}, "unknown keys"),
        ({"encoder_hash": 5}, "encoder_hash: wanted"),
        ({"segments": [{"name": "../x", "tiles": 640, "removed": "", "removed_tiles": 4}]}, "not an index that we can"),
        (
            {"segments": [{"name": "segment-000001", "tiles": 640, "removed": "/etc/x", "removed_tiles": 4}]},
            "not an index",
        ),
        ({"segments": [{"name": "segment-000001", "tiles": 639, "removed": "", "removed_tiles": 3}]}, "wanted .*639"),
    ],
)
def test_an_index_json_that_does_not_fit(changes: dict[str, Any], message: str, folder: Callable[[str], Path]) -> None:
    for kind in FILES:
        root = folder(kind)
        _change(root / "index.json", **changes)
        with pytest.raises(InputError, match=message):
            TileIndex.load(root)


@pytest.mark.parametrize("text", ["", "[]", '{"kind": "flat", "tiles": 3}', "[" * 100_000, None])
def test_what_is_no_index(text: str | None, tmp_path: Path) -> None:
    """Also the format before this one."""
    if text is not None:
        (tmp_path / "index.json").write_text(text)
    with pytest.raises(InputError, match="not an index that we can read"):
        TileIndex.load(tmp_path)


def test_another_quantiser_is_refused(folder: Callable[[str], Path]) -> None:
    root = folder("ivf_pq")
    other = build("ivf_pq", -VECTORS, IDS)
    assert other.quantiser is not None
    (root / "trained.faiss").write_bytes(other.quantiser.to_bytes())
    with pytest.raises(InputError, match=r"trained\.faiss: not a readable index: wanted SHA-256 \w+, found"):
        TileIndex.load(root)
    for index in (faiss.IndexFlatL2(16), faiss.index_factory(16, "IVF8,PQ4x4np"), raw_with_tiles(other)):
        data = faiss.serialize_index(index).tobytes()
        (root / "trained.faiss").write_bytes(data)
        _change(root / "index.json", trained_sha256=hashlib.sha256(data).hexdigest())
        with pytest.raises(
            InputError, match=r"trained\.faiss: wanted a trained IndexIVFPQ of 8 lists, dimension 16; found"
        ):
            TileIndex.load(root)


def raw_with_tiles(index: TileIndex) -> Any:
    """The same quantiser with something in its lists."""
    assert index.quantiser is not None
    raw = faiss.deserialize_index(np.frombuffer(index.quantiser.to_bytes(), np.uint8))
    raw.add(VECTORS[:3])
    return raw


def test_removed_rows_and_list_sizes_that_cannot_be(folder: Callable[[str], Path]) -> None:
    root = folder("ivf_pq")
    for rows in ([5, 4, 8, 9], [0, 1, 2, 640], [-1, 0, 1, 2], [1, 1, 2, 3]):
        np.save(root / "removed-000002-000001.npy", np.array(rows))
        with pytest.raises(InputError, match="wanted ascending rows of 640 tiles"):
            TileIndex.load(root)
    sizes = np.load(root / "segment-000001/list_sizes.npy")
    np.save(root / "removed-000002-000001.npy", np.arange(4))
    for changed in (sizes * 2, sizes * -1):
        np.save(root / "segment-000001/list_sizes.npy", changed)
        with pytest.raises(InputError, match="wanted the sizes of lists of 640 tiles"):
            TileIndex.load(root)


def test_lists_that_name_other_rows(folder: Callable[[str], Path]) -> None:
    root = folder("ivf_pq")
    raw = np.load(root / "segment-000001/lists.npy")
    raw[:] = 255
    np.save(root / "segment-000001/lists.npy", raw)
    with pytest.raises(InputError, match="damaged"):
        TileIndex.load(root).search(QUERIES, 600)


@pytest.mark.parametrize("kind", FILES)
def test_ids_and_their_order_that_cannot_be(kind: str, folder: Callable[[str], Path]) -> None:
    root = folder(kind)
    order, ids = (root / f"segment-000001/{name}.npy" for name in ("order", "tile_ids"))
    data, rows = order.read_bytes(), np.load(order)
    for value in (10**12, -(10**12)):
        np.save(order, np.full_like(rows, value))
        index = TileIndex.load(root)
        with pytest.raises(InputError, match="order of tile ids is damaged"):
            index.missing(IDS)
        with pytest.raises(InputError, match="order of tile ids is damaged"):
            index.search(QUERIES, 3, pages=[IDS[9].partition("-")[0]])
    order.write_bytes(data)
    ids.write_bytes(ids.read_bytes().replace(b"-0001-00", b"-0001-\xff\xff"))
    with pytest.raises(InputError, match="tile ids are damaged"):
        TileIndex.load(root).search(QUERIES, 30)


@pytest.mark.parametrize("header", [b"{'descr': '<i8', ", b"(" * 110, b"{'shape': (" + b"9" * 90])
def test_a_header_that_does_not_parse(header: bytes, folder: Callable[[str], Path]) -> None:
    root = folder("flat")
    order = root / "segment-000001/order.npy"
    data = order.read_bytes()
    order.write_bytes(data[:10] + header.ljust(117) + b"\n" + data[128:])
    with pytest.raises(InputError, match=r"order\.npy: not a readable array"):
        TileIndex.load(root)


def test_a_folder_that_holds_an_index(folder: Callable[[str], Path]) -> None:
    root = folder("flat")
    with pytest.raises(InputError, match="holds an index already"):
        build("flat", VECTORS, IDS).save(root)
    with pytest.raises(InputError, match="holds an index already"):
        build("flat", VECTORS, IDS, root)


@pytest.mark.parametrize("kind", IVF)
def test_lists_need_faiss(kind: str, folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch) -> None:
    from tilewright.mining import index_topk

    root, flat = folder("ivf_pq"), folder("flat")
    wanted = TileIndex.load(flat).search(QUERIES, 5)
    for module in (index_quantiser, index_topk):
        monkeypatch.setattr(module, "import_faiss", lambda: None)
    with pytest.raises(InputError, match="FAISS can't be imported: install"):
        TileIndex.load(root)
    with pytest.raises(InputError, match=rf"kind {kind}: FAISS can't be imported"):
        build(kind, VECTORS, IDS)
    assert TileIndex.load(flat).search(QUERIES, 5) == wanted


def test_the_same_after_saving(tmp_path: Path) -> None:
    for kind in ("flat", *IVF):
        index = build(kind, VECTORS, IDS)
        index.remove(IDS[5:9])
        index.add(VECTORS[5:7], IDS[5:7])
        index.save(tmp_path / kind)
        again = TileIndex.load(tmp_path / kind)
        assert again.search(QUERIES, 50) == index.search(QUERIES, 50)
        assert (again.tile_ids, again.encoder_hash, again.entry.parameters) == (
            index.tile_ids,
            HASH,
            index.entry.parameters,
        )
        assert again.entry.faiss == faiss.__version__
