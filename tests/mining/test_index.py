"""The index against brute force, the two backends against one another, and what can't be searched."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch.nn import functional as F

from tilewright.configs.errors import InputError, UserError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.tile_store import TileStore
from tilewright.mining import embed_tiles, index_search, index_topk
from tilewright.mining.build_index import STAGE, Config, build_index
from tilewright.mining.faiss_import import check_one_build, import_faiss, import_faiss_gpu
from tilewright.mining.index import Backend, TileIndex
from tilewright.train.encoder import load_encoder

BACKENDS: tuple[Backend, ...] = ("faiss", "torch")
HASH = "e" * 64


def _unit(count: int, dimension: int, seed: int) -> torch.Tensor:
    return F.normalize(torch.randn(count, dimension, generator=torch.Generator().manual_seed(seed)), dim=-1)


def _ids(count: int) -> list[str]:
    """Ids in another order than the vectors."""
    return [f"tile-{(i * 7919) % 10_007:05d}" for i in range(count)]


def _build(vectors: Any, backend: Backend) -> TileIndex:
    return TileIndex.build(vectors, _ids(len(vectors)), encoder_hash=HASH, backend=backend)


def test_faiss_is_here() -> None:
    assert import_faiss() is not None, "the tests below compare with FAISS: install the extra cpu"


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize(("tiles", "k"), [(1, 1), (5, 3), (300, 10), (300, 300), (40, 500)])
def test_equals_brute_force(backend: Backend, tiles: int, k: int) -> None:
    vectors, queries = _unit(tiles, 24, 1), _unit(9, 24, 2)
    scores = queries.double() @ vectors.double().T
    hits = _build(vectors, backend).search(queries, k)
    for row, found in zip(scores, hits, strict=True):
        wanted = sorted(zip(row.tolist(), _ids(tiles), strict=True), key=lambda hit: (-hit[0], hit[1]))[:k]
        assert [tile_id for tile_id, _ in found] == [tile_id for _, tile_id in wanted]
        assert [score for _, score in found] == pytest.approx([score for score, _ in wanted], abs=1e-6)


@settings(deadline=None, max_examples=60)
@given(st.lists(st.integers(0, 5), min_size=1, max_size=120), st.integers(1, 130), st.integers(0, 3))
def test_ties_go_to_the_smaller_id_in_both_backends(choice: list[int], k: int, seed: int) -> None:
    """Few different vectors, many copies: more ties at the k-th place than candidates fetched at first."""
    vectors, queries = _unit(6, 8, seed)[choice], _unit(3, 8, seed + 50)
    faiss_hits, torch_hits = (_build(vectors, backend).search(queries, k) for backend in BACKENDS)
    assert faiss_hits == torch_hits
    for found in faiss_hits:
        assert len(found) == min(k, len(choice))
        assert list(found) == sorted(found, key=lambda hit: (-hit[1], hit[0]))
    exact = (queries.double() @ vectors.double().T).float().tolist()
    for row, found in zip(exact, faiss_hits, strict=True):
        wanted = sorted(zip(_ids(len(choice)), row, strict=True), key=lambda hit: (-round(hit[1], 6), hit[0]))[:k]
        assert {tile_id for tile_id, _ in found} == {tile_id for tile_id, _ in wanted}


def test_the_order_of_the_vectors_does_not_matter() -> None:
    vectors, queries, ids = _unit(200, 16, 3), _unit(5, 16, 4), _ids(200)
    order = torch.randperm(200, generator=torch.Generator().manual_seed(0)).tolist()
    shuffled = TileIndex.build(vectors[order], [ids[i] for i in order], encoder_hash=HASH)
    assert shuffled.search(queries, 20) == _build(vectors, "auto").search(queries, 20)


def test_many_queries_in_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    vectors, queries = _unit(50, 8, 5), _unit(700, 8, 6)
    whole = _build(vectors, "torch").search(queries, 3)
    monkeypatch.setattr(index_search, "_QUERY_BLOCK", 7)
    monkeypatch.setattr(index_topk, "_SCORES_BLOCK", 100)
    for backend in BACKENDS:
        assert _build(vectors, backend).search(queries, 3) == whole


@pytest.mark.parametrize("built", BACKENDS)
@pytest.mark.parametrize("loaded", BACKENDS)
def test_saved_by_one_backend_loaded_by_the_other(built: Backend, loaded: Backend, tmp_path: Path) -> None:
    vectors, queries = _unit(60, 16, 7), _unit(4, 16, 8)
    index = _build(vectors, built)
    index.save(tmp_path)
    again = TileIndex.load(tmp_path, backend=loaded)
    assert again.backend == loaded
    assert (again.encoder_hash, again.tile_ids, len(again)) == (HASH, tuple(_ids(60)), 60)
    assert again.search(queries, 10) == index.search(queries, 10)


def test_half_precision_vectors_are_scored_at_unit_length() -> None:
    vectors = _unit(20, 16, 9)
    hits = _build(vectors.half(), "auto").search(vectors, 1)
    assert [found[0][0] for found in hits] == _ids(20)
    assert all(found[0][1] == pytest.approx(1, abs=1e-6) for found in hits)


def test_the_encoder_must_be_the_indexs() -> None:
    index = _build(_unit(3, 8, 0), "auto")
    index.check_encoder(HASH)
    with pytest.raises(InputError, match="Embed the tiles again"):
        index.check_encoder("f" * 64)


@pytest.mark.parametrize("backend", BACKENDS)
def test_bad_queries(backend: Backend) -> None:
    index = _build(_unit(3, 8, 0), backend)
    with pytest.raises(InputError, match="k: wanted at least 1"):
        index.search(_unit(1, 8, 1), 0)
    with pytest.raises(InputError, match=r"queries: wanted shape \[Q, 8\], found \[1, 9\]"):
        index.search(_unit(1, 9, 1), 1)
    with pytest.raises(InputError, match="NaN or infinity"):
        index.search(torch.full((1, 8), float("nan")), 1)
    assert index.search(torch.zeros(0, 8), 2) == []


def test_bad_vectors() -> None:
    vectors = _unit(3, 8, 0)
    for bad, message in (
        (torch.zeros(0, 8), "at least one tile"),
        (vectors[0], r"wanted shape \[P, D\]"),
        (vectors * 2, "3 vectors aren't of unit length"),
        (torch.full((3, 8), float("nan")), "unit length"),
    ):
        with pytest.raises(InputError, match=message):
            TileIndex.build(bad, ["a", "b", "c"], encoder_hash=HASH)
    with pytest.raises(InputError, match="2 tile ids for 3 vectors"):
        TileIndex.build(vectors, ["a", "b"], encoder_hash=HASH)
    with pytest.raises(InputError, match="stands twice"):
        TileIndex.build(vectors, ["a", "b", "a"], encoder_hash=HASH)


def test_without_faiss(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    vectors, queries = _unit(30, 8, 1), _unit(3, 8, 2)
    built = _build(vectors, "auto")
    built.save(tmp_path)
    monkeypatch.setattr(index_topk, "import_faiss", lambda: None)
    assert _build(vectors, "auto").backend == "torch"
    assert TileIndex.load(tmp_path).search(queries, 5) == built.search(queries, 5)
    with pytest.raises(InputError, match="FAISS can't be imported"):
        _build(vectors, "faiss")


@pytest.mark.parametrize(
    ("installed", "conflict"),
    [
        (["faiss-cpu", "torch"], False),
        (["faiss-gpu-cu12"], False),
        (["faiss_cpu", "faiss-cpu"], False),
        (["faiss-cpu", "faiss-gpu-cu12"], True),
        (["faiss-gpu", "faiss_gpu_cu12"], True),
    ],
)
def test_two_builds_of_faiss_are_a_start_up_error(installed: list[str], conflict: bool) -> None:
    if not conflict:
        check_one_build(installed)
        return
    with pytest.raises(UserError, match="are both installed and overwrite one another"):
        check_one_build(installed)


def test_the_stage_refuses_folders_without_vectors(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"not a folder of vectors \(vectors\.json"):
        build_index(Config(out=tmp_path / "out", vectors=(tmp_path,)), {}, tmp_path / "out")


def test_from_tiles_to_hits(corpus: Any, tmp_path: Path) -> None:
    """embed_tiles, then build_index: each picture finds its own tile first, a question what the vectors say."""
    places = {name: corpus.inputs[name] for name in ("checkpoint", "tiles")}
    run_stage(embed_tiles.STAGE, embed_tiles.Config(out=tmp_path / "vectors", device="cpu", **places))
    run_stage(STAGE, Config(out=tmp_path / "index", vectors=(tmp_path / "vectors",)))
    index, store = TileIndex.load(tmp_path / "index"), TileStore.open(places["tiles"])
    encoder = load_encoder(places["checkpoint"])
    index.check_encoder(encoder.hash)
    pictures = encoder.encode_tiles([store.image(tile_id) for tile_id in store.tile_ids])
    found = index.search(pictures, 1)
    assert [hits[0][0] for hits in found] == list(store.tile_ids) and index.first_beyond(store.tile_ids) is None
    assert [hits[0][1] for hits in found] == pytest.approx([1.0] * len(store), abs=1e-5)
    questions = encoder.encode_queries(["What is the capital of Aland?", "Which city lies on a river?"])
    best = (questions @ pictures.T).max(dim=1).values
    assert [hits[0][1] for hits in index.search(questions, 3)] == pytest.approx(best.tolist(), abs=1e-5)


def test_numpy_queries() -> None:
    vectors = _unit(10, 8, 1)
    index = _build(vectors.numpy(), "auto")
    assert index.search(np.asarray(vectors), 1) == index.search(vectors, 1)


def test_a_gpu_that_is_not_here() -> None:
    if torch.cuda.is_available():
        pytest.skip("benchmarks/gpu_index.py compares GPU and CPU")
    assert import_faiss_gpu() is None
    for backend in ("auto", *BACKENDS):
        with pytest.raises(InputError, match="found cuda: torch sees no GPU"):
            TileIndex.build(_unit(3, 8, 0), _ids(3), encoder_hash=HASH, backend=backend, device="cuda")
