"""The in-loop search: order, ties, chance, and figures equal to the encoder's own vectors searched by hand."""

import random
from typing import Any

import pytest
import torch

from tilewright.configs.errors import UserError
from tilewright.data_gen.tile_store import TileStore
from tilewright.train import validation
from tilewright.train.encoder import load_encoder
from tilewright.train.retrieval_metrics import recall_at_k
from tilewright.train.step_inputs import TileInputs
from tilewright.train.validation import Pool, chance, rank_tiles, retrieval_figures

torch.set_num_threads(1)


def test_best_first_and_ties_by_id() -> None:
    tiles = torch.tensor([[0.0, 1.0], [1.0, 0.0], [0.0, 1.0], [0.6, 0.8]])
    ranked = rank_tiles(torch.tensor([[0.0, 1.0]]), ["q"], tiles, ["a", "b", "c", "d"], 3)
    assert ranked == {"q": ["a", "c", "d"]}


@pytest.mark.parametrize("chunk_tokens", [1, 200, 10_000])
def test_figures_do_not_depend_on_chunks(chunk_tokens: int, reader_parts: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(validation, "CHUNK_TOKENS", chunk_tokens)
    encoder, store = load_encoder(reader_parts.model.parent / "embedder"), TileStore.open(reader_parts.tiles)
    ids = list(reader_parts.tile_ids)
    queries = {f"q{number}": f"Question {number} of {word}" for number, word in enumerate(("Oslo", "Lima", "Ada"))}
    pool = Pool("test", queries, {query: [ids[number]] for number, query in enumerate(queries)}, ids[::-1])
    encoder.model.train()
    figures = retrieval_figures(encoder, TileInputs(encoder.batcher, store), pool, 0, 1)
    assert encoder.model.training
    vectors = encoder.encode_tiles([store.image(tile_id) for tile_id in ids])
    scores = encoder.encode_queries(list(queries.values())) @ vectors.T
    by_hand = {
        query: [ids[column] for column in sorted(range(len(ids)), key=lambda column: -row[column])]
        for query, row in zip(queries, scores.tolist(), strict=True)
    }
    assert figures["recall_at_3"] == pytest.approx(recall_at_k(by_hand, pool.relevant, 3))
    assert set(figures) == {"recall_at_1", "recall_at_3", "recall_at_10", "mrr"}


@pytest.mark.parametrize("part", ["visual", "language_model"])
def test_a_vector_that_is_not_finite_is_an_error(part: str, reader_parts: Any) -> None:
    """Broken weights of the vision tower leave queries whole: sorting would put such tiles first and say nothing."""
    encoder, store = load_encoder(reader_parts.model.parent / "embedder"), TileStore.open(reader_parts.tiles)
    with torch.no_grad():
        next(weight for name, weight in encoder.model.named_parameters() if part in name).fill_(torch.nan)
    pool = Pool("test", {"q": "Oslo?"}, {"q": [reader_parts.tile_ids[0]]}, reader_parts.tile_ids)
    with pytest.raises(UserError, match="NaN or infinity"):
        retrieval_figures(encoder, TileInputs(encoder.batcher, store), pool, 0, 1)


def test_a_pool_speaks_of_its_own_queries_only() -> None:
    with pytest.raises(ValueError, match="1 queries, relevant tiles of 2"):
        Pool("test", {"a": "A?"}, {"a": ["t"], "b": ["t"]}, ["t"])


def test_an_empty_pool_has_no_figures(reader_parts: Any) -> None:
    encoder, store = load_encoder(reader_parts.model.parent / "embedder"), TileStore.open(reader_parts.tiles)
    assert retrieval_figures(encoder, TileInputs(encoder.batcher, store), Pool("none", {}, {}, []), 0, 1) == {}
    assert chance(Pool("none", {}, {}, []), 1) == 0.0


@pytest.mark.parametrize("k", [1, 3])
def test_chance_is_what_shuffling_gives(k: int) -> None:
    tiles = [f"t{number}" for number in range(12)]
    pool = Pool("test", {"a": "", "b": ""}, {"a": ["t0"], "b": ["t4"]}, tiles)
    draw, hits = random.Random(0), 0.0
    for _ in range(4000):
        draw.shuffle(tiles)
        hits += recall_at_k({"a": tiles, "b": tiles}, pool.relevant, k)
    assert chance(pool, k) == pytest.approx(k / 12) == pytest.approx(hits / 4000, abs=0.02)
