"""Every kind of index against raw FAISS and brute force: what it finds, in which plan, with which recall."""

import dataclasses
from typing import Any

import faiss
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.mining.index_corpus import ANY, DIMENSION, HASH, IVF, SETTINGS, build, ids_of, unit

from tilewright.configs.errors import InputError
from tilewright.mining import index_search
from tilewright.mining.index import TileIndex
from tilewright.mining.index_settings import KINDS, IndexSettings, Plan, RecallSettings, make_plan

COUNT = 1500
VECTORS, IDS, QUERIES = unit(COUNT, 1), ids_of(COUNT), unit(40, 2)


@pytest.fixture(scope="module", params=KINDS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def index(kind: str) -> TileIndex:
    return build(kind, VECTORS, IDS)


def _raw(index: TileIndex) -> Any:
    """FAISS's own index with the same quantiser, filled by FAISS; labels are places in VECTORS."""
    assert index.quantiser is not None
    raw = faiss.deserialize_index(np.frombuffer(index.quantiser.to_bytes(), np.uint8))
    raw.add(VECTORS)
    return raw


def _names(hits: Any) -> list[list[str]]:
    return [[tile_id for tile_id, _ in row] for row in hits]


def test_finds_what_faiss_finds(kind: str, index: TileIndex) -> None:
    """Up to candidates whose scores are equal but for float32 noise."""
    if kind == "flat":
        raw = faiss.IndexFlatIP(DIMENSION)
        raw.add(VECTORS)
        scores, labels = raw.search(QUERIES, 10)
    else:
        raw = _raw(index)
        scores, labels = raw.search(QUERIES, 10, params=faiss.SearchParametersIVF(nprobe=2))
    hits = index.search(QUERIES, 10)
    assert [score for row in hits for _, score in row] == pytest.approx(scores.ravel().tolist(), abs=1e-5)
    same = np.mean([set(row) == {IDS[i] for i in of} for row, of in zip(_names(hits), labels, strict=True)])
    assert same > 0.95 if kind != "ivf_pq" else same > 0.5  # codes tie


def test_all_lists_searched_is_exact_search(kind: str, index: TileIndex) -> None:
    hits = index.search(QUERIES, 10, nprobe=8)
    if kind in ("flat", "ivf"):
        assert hits == build("flat", VECTORS, IDS).search(QUERIES, 10)
        assert index.search(QUERIES, 10, nprobe=999) == hits
    assert all(len(row) == 10 for row in hits)


def test_scores_are_those_of_what_the_codes_stand_for(kind: str, index: TileIndex) -> None:
    for query, row in zip(QUERIES, index.search(QUERIES, 5), strict=True):
        for tile_id, score in row:
            segment = index.segments[0]
            vector = segment.vectors(segment.find(np.array([tile_id.encode()])))[0]
            assert score == pytest.approx(float(vector.astype(np.float64) @ query), abs=1e-7)
            loss = {"flat": 0, "ivf": 0, "ivf_sq8": 0.3, "ivf_pq": 0.9}[kind]
            assert np.linalg.norm(vector - VECTORS[IDS.index(tile_id)]) <= loss


def test_k_hits_or_all_that_there_are(index: TileIndex) -> None:
    """Two of eight lists hold fewer tiles than asked for: more lists are searched."""
    for k in (1, 700, COUNT, COUNT + 5):
        for row in index.search(QUERIES[:3], k):
            assert len({tile_id for tile_id, _ in row}) == len(row) == min(k, COUNT)
            assert list(row) == sorted(row, key=lambda hit: (-hit[1], hit[0]))


def test_blocks_and_threads_change_nothing(index: TileIndex, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = index.search(QUERIES, 15)
    assert [index.search(query[None], 15)[0] for query in QUERIES] == whole
    monkeypatch.setattr(index_search, "_QUERY_BLOCK", 7)
    monkeypatch.setattr(index_search, "_MARGIN", 1)
    monkeypatch.setattr(index_search, "_CANDIDATES", 50)
    monkeypatch.setattr(index_search, "_PRODUCTS", 100)
    faiss.omp_set_num_threads(3)
    try:
        assert index.search(QUERIES, 15) == whole
    finally:
        faiss.omp_set_num_threads(1)


def test_long_queries_have_the_ranking_of_short_ones(index: TileIndex) -> None:
    """A query's length scales all its scores, and float32's noise with them."""
    wanted = index.search(QUERIES, 10)
    for alone, row in zip((index.search(1024 * query[None], 10)[0] for query in QUERIES), wanted, strict=True):
        assert alone == tuple((tile_id, 1024 * score) for tile_id, score in row)


def test_queries_between_lists_are_decided_by_the_query_alone() -> None:
    """Vectors as far from one centroid as from another: the last bits of a block would choose."""
    index = build("ivf", VECTORS, IDS)
    assert index.quantiser is not None
    centroids = index.quantiser.centroids
    middles = centroids[:, None] + centroids[None]
    middles = (middles / np.linalg.norm(middles, axis=-1, keepdims=True)).reshape(-1, DIMENSION)
    lists, _ = index.quantiser.nearest_lists(middles, 1)
    alone = [index.quantiser.nearest_lists(middle[None], 1)[0][0] for middle in middles]
    assert lists.tolist() == [found.tolist() for found in alone]
    exact = middles.astype(np.float64) @ centroids.T.astype(np.float64)
    assert (np.take_along_axis(exact, lists, 1)[:, 0] == exact.max(axis=1)).mean() > 0.99
    for nprobe in (3, 7, 8):
        lists, scores = index.quantiser.nearest_lists(middles, nprobe)
        assert [set(row) for row in lists.tolist()] == [
            set(index.quantiser.nearest_lists(middle[None], nprobe)[0][0].tolist()) for middle in middles
        ]
        assert np.abs(scores - np.take_along_axis(exact, lists, 1)).max() < 1e-5


@settings(deadline=None, max_examples=30)
@given(st.sets(st.sampled_from([tile_id.partition("-")[0] for tile_id in IDS]), max_size=30), st.integers(1, 60))
def test_search_in_pages(pages: set[str], k: int) -> None:
    """As filtering the whole ranking; unknown and impossible pages hold nothing."""
    for kind in ("flat", "ivf"):
        index = _cached(kind)
        inside = [tile_id for tile_id in IDS if tile_id.partition("-")[0] in pages]
        assert sorted(index.tiles_of(pages)) == sorted(inside)
        found = index.search(QUERIES[:4], k, pages=pages | {"none", "", "0000000000000001-0001"})
        ranking = _cached("flat").search(QUERIES[:4], COUNT)
        wanted = [tuple(hit for hit in row if hit[0].partition("-")[0] in pages)[:k] for row in ranking]
        assert found == wanted


@pytest.mark.parametrize("kind", IVF)
def test_a_filter_of_many_tiles_goes_list_by_list(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    index, pages = _cached(kind), {tile_id.partition("-")[0] for tile_id in IDS[:900]}
    one_by_one = index.search(QUERIES, 400, pages=pages)
    monkeypatch.setattr(index_search, "_FEW", 10)
    assert index.search(QUERIES, 400, pages=pages, nprobe=8) == one_by_one
    few = index.search(QUERIES, 400, pages=pages, nprobe=1)  # one list holds fewer than 400 of them
    assert all(len(row) == 400 and {name.partition("-")[0] for name, _ in row} <= pages for row in few)


_CACHE: dict[str, TileIndex] = {}


def _cached(kind: str) -> TileIndex:
    if kind not in _CACHE:
        _CACHE[kind] = build(kind, VECTORS, IDS)
    return _CACHE[kind]


@pytest.mark.parametrize("kind", IVF)
def test_recall_is_that_of_brute_force(kind: str) -> None:
    index = _cached(kind)
    drawn = np.sort(np.random.default_rng(ANY.seed).choice(COUNT, ANY.queries, replace=False, shuffle=False))
    shares = []
    for row in drawn:
        scores = VECTORS.astype(np.float64) @ VECTORS[row].astype(np.float64)
        exact = [i for i in np.argsort(-scores) if i != row][:10]
        found = [name for name, _ in index.search(VECTORS[row][None], 11)[0] if name != IDS[row]][:10]
        shares.append(len({IDS[i] for i in exact} & set(found)) / 10)
    assert index.entry.recall_at_10_vs_exact == pytest.approx(np.mean(shares))
    assert index.entry.recall_queries == 32
    assert 0.2 < np.mean(shares) < (1 if kind == "ivf_pq" else 1.01)


def test_recall_counts_ties_and_knows_single_tiles() -> None:
    """400 copies of each of four vectors: any ten of the others are the nearest."""
    vectors = np.repeat(unit(4, 3), 100, axis=0)
    assert build("ivf", vectors, ids_of(400)).entry.recall_at_10_vs_exact == 1
    assert build("flat", vectors[:1], ids_of(1)).entry.recall_at_10_vs_exact == 1


def test_recall_below_the_floor_is_refused() -> None:
    with pytest.raises(
        InputError, match=r"wanted at least 0\.99 \(recall\.floor\), found 0\.\d+ with Plan\(kind='ivf_pq'"
    ):
        TileIndex.build(
            VECTORS, IDS, encoder_hash=HASH, settings=SETTINGS["ivf_pq"], recall=RecallSettings(queries=32, floor=0.99)
        )


def test_the_same_seed_gives_the_same_index() -> None:
    again, other = build("ivf_pq", VECTORS, IDS), dataclasses.replace(SETTINGS["ivf_pq"], seed=5)
    assert again.search(QUERIES, 10) == _cached("ivf_pq").search(QUERIES, 10)
    changed = TileIndex.build(VECTORS, IDS, encoder_hash=HASH, settings=other, recall=ANY)
    assert changed.entry.trained_sha256 != again.entry.trained_sha256


@pytest.mark.parametrize(
    ("count", "dimension", "budget_gb", "wanted"),
    [
        (1, 8, 8, "flat"),
        (99_999, 256, 8, "flat"),
        (99_999, 256, 0.05, "ivf_sq8"),
        (100_000, 256, 8, "ivf"),
        (30_000_000, 2048, 8, "ivf_pq"),
        (30_000_000, 2048, 100, "ivf_sq8"),
        (30_000_000, 2048, 300, "ivf"),
        (300, 2048, 8, "flat"),
    ],
)
def test_auto_takes_the_most_exact_kind_that_fits(count: int, dimension: int, budget_gb: float, wanted: str) -> None:
    plan = make_plan(IndexSettings(memory_budget_gb=budget_gb), count, dimension)
    assert plan.kind == wanted
    assert plan.index_bytes(count, dimension) <= budget_gb * 2**30
    assert plan.training_need <= plan.training_sample <= count or wanted == "flat"


def test_plans_of_sizes_that_design_names() -> None:
    """30 M tiles of 2,048 dimensions: SQ8 61 GB, PQ64 about 2 GB, ids beside it."""
    sizes = {kind: make_plan(IndexSettings(kind), 30_000_000, 2048).index_bytes(30_000_000, 2048) for kind in KINDS}
    assert sizes["ivf_sq8"] == pytest.approx(61.8e9, rel=0.01)
    assert sizes["ivf_pq"] == pytest.approx(2.3e9, rel=0.02)
    assert make_plan(IndexSettings("ivf"), 1_000_000, 256) == Plan("ivf", 2048, 64, 0, 0, 81920, 0)


@pytest.mark.parametrize(
    ("changes", "count", "message"),
    [
        ({"kind": "ivf", "nlist": 8}, 311, "needs at least 312 vectors, found 311: use kind flat, or a smaller nlist"),
        ({"kind": "ivf_pq"}, 9983, "needs at least 9984 vectors, found 9983"),
        ({"kind": "ivf_pq", "m": 5}, 20_000, "m: wanted a divisor of the dimension 16, found 5"),
        (
            {"kind": "ivf", "nlist": 8, "training_sample": 100},
            400,
            "training_sample: kind ivf needs at least 312, found",
        ),
        ({"memory_budget_gb": 1e-4}, 200_000, "200000 vectors of 16 dimensions need ivf .*; found 0.0001: raise it"),
    ],
)
def test_plans_that_cannot_be(changes: dict[str, Any], count: int, message: str) -> None:
    with pytest.raises(InputError, match=message):
        make_plan(IndexSettings(**changes), count, 16)
    if "kind" in changes and changes.get("m") is None:
        make_plan(IndexSettings(**changes | {"training_sample": None}), 20_000, 16)


@pytest.mark.parametrize(("name", "value"), [("nlist", 0), ("nbits", 9), ("memory_budget_gb", 0.0), ("seed", -1)])
def test_settings_out_of_bounds(name: str, value: float) -> None:
    with pytest.raises(ValueError, match=f"{name}: wanted"):
        IndexSettings(**{name: value})


def test_torch_has_no_lists() -> None:
    with pytest.raises(InputError, match="backend torch: searches kind flat only"):
        TileIndex.build(VECTORS, IDS, encoder_hash=HASH, settings=SETTINGS["ivf"], backend="torch")
    with pytest.raises(InputError, match="nprobe: wanted at least 1, found 0"):
        _cached("ivf").search(QUERIES, 1, nprobe=0)
