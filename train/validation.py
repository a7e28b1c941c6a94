"""Retrieval inside the training loop: queries searched among a pool of tiles, in memory, with the encoder itself."""

import math
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from tilewright.train.batch import Batch
from tilewright.train.batch_plan import share_of
from tilewright.train.chance import expected_success
from tilewright.train.distributed import gather
from tilewright.train.encoder import BrokenVectorsError, Encoder, check_finite, evaluating
from tilewright.train.retrieval_metrics import mean_reciprocal_rank, recall_at_k
from tilewright.train.step_inputs import TileInputs, stack

DEPTH = 100  # ranks beyond count as not found
CUTS = (1, 3, 10)
CHUNK_TOKENS = 4096  # input tokens embedded at once


@dataclass(frozen=True)
class Pool:
    """``queries`` ({query id: text}) to be searched among ``tile_ids``; ``relevant`` names each query's right tiles.

    Raises ValueError unless both speak of the same queries: one without a ranking would count as a miss.
    """

    name: str
    queries: Mapping[str, str]
    relevant: Mapping[str, Collection[str]]
    tile_ids: Sequence[str]

    def __post_init__(self) -> None:
        if self.queries.keys() != self.relevant.keys():
            raise ValueError(f"{self.name}: {len(self.queries)} queries, relevant tiles of {len(self.relevant)}")


def retrieval_figures(encoder: Encoder, tiles: TileInputs, pool: Pool, rank: int, world: int) -> dict[str, float]:
    """recall_at_1, 3, 10 and mrr of ``pool``.

    The ranks share the embedding; every rank returns the same figures. {} for a pool without queries or tiles. Raises
    BrokenVectorsError, on every rank, if a vector isn't finite: it would have any place in a ranking.
    """
    if not pool.queries or not pool.tile_ids:
        return {}
    with evaluating(encoder.model):
        tile_ids = sorted(pool.tile_ids)
        query_vectors = _embed_queries(encoder, list(pool.queries.values()), rank, world)
        tile_vectors = _embed_tiles(encoder, tiles, tile_ids, rank, world)
    check_finite(query_vectors)
    check_finite(tile_vectors)
    rankings = rank_tiles(query_vectors, list(pool.queries), tile_vectors, tile_ids, DEPTH)
    figures = {f"recall_at_{k}": recall_at_k(rankings, pool.relevant, k) for k in CUTS}
    return figures | {"mrr": mean_reciprocal_rank(rankings, pool.relevant)}


def rank_tiles(
    queries: Tensor, query_ids: Sequence[str], tiles: Tensor, tile_ids: Sequence[str], k: int
) -> dict[str, list[str]]:
    """{query id: the ``k`` best tile ids} by inner product; equal scores in the order of ``tile_ids``.

    queries [Q, D], tiles [P, D].
    """
    best = torch.argsort(queries @ tiles.T, dim=1, descending=True, stable=True)[:, :k]
    return {query: [tile_ids[column] for column in row] for query, row in zip(query_ids, best.tolist(), strict=True)}


def _embed_queries(encoder: Encoder, texts: list[str], rank: int, world: int) -> Tensor:
    own = share_of(texts, rank, world)
    try:
        vectors = encoder.encode_queries(own) if own else torch.zeros(0, encoder.dimension)
    except BrokenVectorsError:  # the other ranks wait for this one's: all of them shall find it
        vectors = torch.full((len(own), encoder.dimension), math.nan)
    return gather(vectors.to(encoder.device), [len(share_of(texts, r, world)) for r in range(world)]).cpu()


def _embed_tiles(encoder: Encoder, tiles: TileInputs, tile_ids: list[str], rank: int, world: int) -> Tensor:
    own = share_of(tile_ids, rank, world)
    vectors = [torch.zeros(0, encoder.dimension)]
    vectors += [encoder.forward(stack(chunk)).cpu() for chunk in _chunks(tiles.one(tile_id) for tile_id in own)]
    counts = [len(share_of(tile_ids, r, world)) for r in range(world)]
    return gather(torch.cat(vectors).to(encoder.device), counts).cpu()


def _chunks(batches: Iterable[Batch]) -> Iterator[list[Batch]]:
    """Runs of batches of at most CHUNK_TOKENS tokens together, or of one batch."""
    chunk: list[Batch] = []
    for batch in batches:
        if chunk and sum(other.input_ids.numel() for other in [*chunk, batch]) > CHUNK_TOKENS:
            yield chunk
            chunk = []
        chunk.append(batch)
    if chunk:
        yield chunk


def chance(pool: Pool, k: int) -> float:
    """Recall at ``k`` of a random order of the pool's tiles, averaged over the queries; 0 for an empty pool."""
    tiles = set(pool.tile_ids)
    if not pool.queries or not tiles:
        return 0.0
    found = [len(tiles.intersection(pool.relevant[query])) for query in pool.queries]
    return math.fsum(expected_success(len(tiles), right, k) for right in found) / len(found)
