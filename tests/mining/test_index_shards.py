"""Shards with one trained quantiser: merged they are, byte for byte, the index of all vectors at once."""

import hashlib
from itertools import pairwise
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import pytest
from tests.mining.index_corpus import ANY, HASH, SETTINGS, build, ids_of, unit

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.mining import build_index, merge_index, train_index
from tilewright.mining.index import TileIndex
from tilewright.mining.index_settings import KINDS, IndexSettings, RecallSettings
from tilewright.mining.index_shards import merge_indexes
from tilewright.mining.index_shards import train_index as train
from tilewright.mining.index_source import InMemorySource, StoreSource, sample_of
from tilewright.mining.vector_store import VectorStore
from tilewright.mining.vector_writer import write_vector_store

COUNT, CUTS = 900, (0, 300, 301, 900)
VECTORS, IDS, QUERIES = unit(COUNT, 1), ids_of(COUNT), unit(12, 2)
PLACES = [slice(first, end) for first, end in pairwise(CUTS)]


def _store(folder: Path, part: slice = slice(None), encoder_hash: str = HASH, dtype: Any = "float32") -> Path:
    """A folder of vectors in shards of 100 or so."""
    hashes = [hashlib.sha256(tile_id.encode()).hexdigest() for tile_id in IDS[part]]
    shard_bytes = 100 * VECTORS.shape[1] * 4
    write_vector_store(
        folder, IDS[part], hashes, VECTORS[part], encoder_hash=encoder_hash, dtype=dtype, shard_bytes=shard_bytes
    )
    return folder


@pytest.mark.parametrize("kind", KINDS)
def test_merged_shards_are_the_index_of_the_union(kind: str, tmp_path: Path) -> None:
    like = None if kind == "flat" else build(kind, VECTORS, IDS)
    whole = build(kind, VECTORS, IDS, tmp_path / "whole", like)
    parts = [build(kind, VECTORS[part], IDS[part], tmp_path / f"part{part.start}", like) for part in PLACES]
    merged = merge_indexes(parts, tmp_path / "merged", source=InMemorySource(VECTORS, IDS), recall=ANY)
    assert output_digests(tmp_path / "merged") == output_digests(tmp_path / "whole")
    assert merged.search(QUERIES, 20) == whole.search(QUERIES, 20)
    assert merged.entry == whole.entry
    unmeasured = merge_indexes(parts, tmp_path / "unmeasured")
    assert unmeasured.entry.recall_at_10_vs_exact == (1 if kind == "flat" else None)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "flat"])
def test_every_list_is_the_one_of_faiss(kind: str, tmp_path: Path) -> None:
    """The merged lists against the lists that FAISS fills by itself with all vectors."""
    like = build(kind, VECTORS, IDS)
    parts = [build(kind, VECTORS[part], IDS[part], tmp_path / f"part{part.start}", like) for part in PLACES]
    stored = merge_indexes(parts, tmp_path / "merged").segments[0]
    assert like.quantiser is not None
    raw = faiss.deserialize_index(np.frombuffer(like.quantiser.to_bytes(), np.uint8))
    raw.add(VECTORS)
    layout, start = stored.stored.layout, 0  # type: ignore[union-attr]
    for number in range(8):
        size = raw.invlists.list_size(number)
        assert size == layout.sizes[number]
        rows = np.arange(start, start + size)
        labels = faiss.rev_swig_ptr(raw.invlists.get_ids(number), size)
        codes = faiss.rev_swig_ptr(raw.invlists.get_codes(number), size * raw.code_size).reshape(size, -1)
        assert [name.decode() for name in stored.ids[rows].tolist()] == [IDS[label] for label in labels]
        assert (stored.stored.codes(rows) == codes).all()  # type: ignore[union-attr]
        start += size


def test_codes_do_not_depend_on_the_block_they_are_made_in() -> None:
    """Parts of 16 numbers and more are encoded by FAISS through BLAS, whose last bits depend on the block."""
    vectors = unit(700, 5, 64)
    settings = IndexSettings("ivf_pq", nlist=4, nprobe=2, m=2, nbits=4)
    index = TileIndex.build(vectors, IDS[:700], encoder_hash=HASH, settings=settings, recall=ANY)
    assert index.quantiser is not None
    lists = index.quantiser.nearest_lists(vectors, 1)[0][:, 0]
    before = faiss.cvar.product_quantizer_compute_codes_bs
    whole = index.quantiser.encode(vectors, lists)
    assert faiss.cvar.product_quantizer_compute_codes_bs == before
    alone = [index.quantiser.encode(vectors[row : row + 1], lists[row : row + 1])[0] for row in range(700)]
    assert (whole == np.stack(alone)).all()


def test_parts_that_do_not_fit(tmp_path: Path) -> None:
    like = build("ivf", VECTORS, IDS)
    first = build("ivf", VECTORS[:300], IDS[:300], like=like)
    again = build("ivf", VECTORS[:500] * -1, IDS[:500])
    empty = train(InMemorySource(VECTORS, IDS), tmp_path / "t", encoder_hash=HASH, settings=SETTINGS["ivf"])
    for parts, message in (
        ([], "wanted at least one index"),
        ([first, build("flat", VECTORS[300:], IDS[300:])], 'kind: wanted "ivf" .* found "flat"'),
        ([first, again], "trained_sha256: wanted"),
        ([first, build("ivf", VECTORS[299:], IDS[299:], like=like)], f"stands twice in the index: {IDS[299]}"),
        ([empty], "at least one tile"),
    ):
        with pytest.raises(InputError, match=message):
            merge_indexes(parts, tmp_path / "out")
        assert not (tmp_path / "out" / "index.json").exists()
    with pytest.raises(InputError, match=r"wanted at least 1 \(recall\.floor\)"):
        source = InMemorySource(VECTORS[:300], IDS[:300])
        merge_indexes([build("ivf_pq", VECTORS, IDS)], tmp_path / "low", source=source, recall=RecallSettings(floor=1))
    with pytest.raises(InputError, match="kind flat has nothing to train"):
        train(InMemorySource(VECTORS, IDS), tmp_path / "f", encoder_hash=HASH, settings=IndexSettings())
    with pytest.raises(InputError, match="wanted vectors of encoder eeee"):
        TileIndex.build_from(InMemorySource(VECTORS, IDS), encoder_hash="f" * 64, like=like)


def test_the_stages_from_folders_of_vectors(tmp_path: Path) -> None:
    """train_index once, build_index per shard, merge_index = build_index of all folders."""
    stores = [_store(tmp_path / f"vectors{part.start}", part, dtype="float16") for part in PLACES]
    settings = SETTINGS["ivf_sq8"]
    run_stage(train_index.STAGE, train_index.Config(tmp_path / "trained", tuple(stores), settings))
    outs = []
    for store in stores:
        outs.append(tmp_path / f"index-{store.name}")
        run_stage(build_index.STAGE, build_index.Config(outs[-1], (store,), tmp_path / "trained", recall=ANY))
    merged = merge_index.Config(tmp_path / "merged", tuple(outs), tuple(stores), ANY)
    counts = run_stage(merge_index.STAGE, merged)["counts"]
    whole = build_index.Config(tmp_path / "whole", tuple(stores), index=settings, recall=ANY)
    assert run_stage(build_index.STAGE, whole)["counts"] == counts
    assert output_digests(tmp_path / "whole") == output_digests(tmp_path / "merged")
    assert counts | {"recall_at_10_vs_exact": 0} == {
        "tiles": COUNT, "dimension": 16, "kind": "ivf_sq8", "backend": "faiss", "encoder": HASH, "recall_queries": 32,
        "recall_at_10_vs_exact": 0, "parameters": {"nlist": 8, "nprobe": 2, "training_sample": 320},
    }  # fmt: skip
    assert 0.5 < counts["recall_at_10_vs_exact"] <= 1
    halves = VECTORS.astype(np.float16).astype(np.float32)
    halves /= np.linalg.norm(halves, axis=1, keepdims=True)
    exact = build("flat", halves, IDS)
    everywhere = TileIndex.load(tmp_path / "merged").search(QUERIES, 10, nprobe=8)
    pairs = zip(everywhere, exact.search(QUERIES, 10), strict=True)
    assert np.mean([len({a for a, _ in ours} & {b for b, _ in best}) / 10 for ours, best in pairs]) > 0.8


def test_what_the_stages_refuse(tmp_path: Path) -> None:
    first, other = _store(tmp_path / "first", slice(0, 400)), _store(tmp_path / "other", slice(400, 900), "f" * 64)
    with pytest.raises(InputError, match=r"wanted vectors of encoder eeee.*, as in .*first; found encoder ffff"):
        build_index.open_source([first, other])
    with pytest.raises(InputError, match="wanted at least one folder of vectors"):
        build_index.open_source([])
    with pytest.raises(ValueError, match="index: wanted nothing beside `trained`"):
        build_index.Config(tmp_path / "out", (first,), tmp_path / "trained", SETTINGS["ivf"])
    build("flat", VECTORS, IDS, tmp_path / "flat")
    with pytest.raises(InputError, match="wanted the folder of train_index, found an index of kind flat"):
        run_stage(build_index.STAGE, build_index.Config(tmp_path / "out", (first,), tmp_path / "flat"))
    empty = _store(tmp_path / "empty", slice(0, 0))
    for stage, wrong in (
        (build_index.STAGE, build_index.Config(tmp_path / "none", (empty,))),
        (train_index.STAGE, train_index.Config(tmp_path / "none", (empty,))),
    ):
        with pytest.raises(InputError, match="vectors: wanted at least one tile, found none"):
            run_stage(stage, wrong)
    assert len(StoreSource([VectorStore.open(folder) for folder in (empty, first)])) > 0
    twice = StoreSource([VectorStore.open(first), VectorStore.open(first)])
    with pytest.raises(InputError, match="stands twice"):
        TileIndex.build_from(twice, encoder_hash=HASH, folder=tmp_path / "twice")


def test_a_stage_goes_on_where_a_kill_left_an_index(tmp_path: Path) -> None:
    store = _store(tmp_path / "vectors")
    build("flat", VECTORS, IDS, tmp_path / "out")
    build_index.build_index(build_index.Config(tmp_path / "out", (store,)), {}, tmp_path / "out")
    assert len(TileIndex.load(tmp_path / "out")) == COUNT


def test_keys_on_the_command_line(tmp_path: Path) -> None:
    config = load(
        "configs/mining/build_index/smoke.yaml",
        build_index.Config,
        ["index.kind=ivf_pq", "index.m=32", "index.memory_budget_gb=2", "recall.floor=0.7", f"vectors=[{tmp_path}, b]"],
    )
    assert config.index == IndexSettings("ivf_pq", memory_budget_gb=2.0, m=32)
    assert (config.recall.floor, config.vectors) == (0.7, (tmp_path, Path.cwd() / "b"))


def test_a_sample_of_several_folders(tmp_path: Path) -> None:
    """The rows drawn, at unit length, whatever the parts and blocks; others for another seed."""
    stores = [VectorStore.open(_store(tmp_path / f"v{part.start}", part, dtype="float16")) for part in PLACES]
    source = StoreSource(stores)
    assert (len(source), source.encoder_hash) == (COUNT, HASH)
    ids, vectors = sample_of(source, 100, 7)
    rows = [IDS.index(tile_id) for tile_id in ids]
    assert rows == sorted(set(rows)) and len(rows) == 100
    assert np.abs(vectors - VECTORS[rows]).max() < 1e-3
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1, abs=1e-6)
    assert sample_of(InMemorySource(VECTORS, IDS), 100, 7)[0] == ids
    assert sample_of(source, 100, 8)[0] != ids
    assert sample_of(source, 5000, 8)[0] == IDS
