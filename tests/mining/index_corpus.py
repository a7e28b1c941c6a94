"""Clustered unit vectors and settings of small indexes of every kind, for the tests of the index."""

from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch

from tilewright.mining.index import TileIndex
from tilewright.mining.index_settings import KINDS, IndexSettings, RecallSettings
from tilewright.mining.index_source import InMemorySource

torch.set_num_threads(1)
faiss.omp_set_num_threads(1)
HASH = "e" * 64
DIMENSION = 16
ANY = RecallSettings(queries=32, floor=0.0)
SETTINGS = {
    "flat": IndexSettings("flat"),
    "ivf": IndexSettings("ivf", nlist=8, nprobe=2),
    "ivf_sq8": IndexSettings("ivf_sq8", nlist=8, nprobe=2),
    "ivf_pq": IndexSettings("ivf_pq", nlist=8, nprobe=2, m=4, nbits=4),
}
IVF = [kind for kind in KINDS if kind != "flat"]
Array = np.ndarray[Any, Any]


def unit(count: int, seed: int, dimension: int = DIMENSION) -> Array:
    """Vectors around 20 centres that are the same for every seed."""
    centres = np.random.default_rng(99).normal(size=(20, dimension))
    draw = np.random.default_rng(seed)
    vectors = centres[draw.integers(0, 20, count)] + 0.5 * draw.normal(size=(count, dimension))
    return (vectors / np.linalg.norm(vectors, axis=1, keepdims=True)).astype(np.float32)


def ids_of(count: int, first: int = 0) -> list[str]:
    """Tile ids, three a page, in another order than that of their names."""
    numbers = [(i * 7919) % 100_003 for i in range(first, first + count)]
    return [f"{number // 3:016x}-{number % 3:04d}-00" for number in numbers]


def build(
    kind: str, vectors: Array, ids: list[str], folder: Path | None = None, like: TileIndex | None = None
) -> TileIndex:
    """An index of that kind, in memory or in ``folder``."""
    return TileIndex.build_from(
        InMemorySource(vectors, ids),
        encoder_hash=HASH,
        settings=SETTINGS[kind],
        recall=ANY,
        folder=folder,
        like=like,
    )
