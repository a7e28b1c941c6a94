"""Sentences or blocks of many pages, searched by a question: by words, or by any text encoder in the tiles' index."""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.eval.bm25 import Bm25
from tilewright.eval.evidence.spire.blocks import BLOCK_TOKENS, PageBlock, blocks_of
from tilewright.eval.evidence.spire.document import Document
from tilewright.eval.evidence.spire.text_encoders import TextEncoder, Vectors
from tilewright.eval.evidence.spire.views import CountTokens, seed_text
from tilewright.mining.index import TileIndex
from tilewright.mining.index_arrays import open_array

Hits = tuple[tuple[str, float], ...]
VECTORS = "vectors.npy"


class Engine(Protocol):
    """Finds texts."""

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """At most ``k`` hits of each query, best first."""
        ...


MakeEngine = Callable[[Mapping[str, str]], Engine]


class Bm25Engine:
    """By BM25 over the texts; ties by id."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._index = Bm25(texts)

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """Hits share a word with their query."""
        return [self._index.search(query, k) for query in queries]


class DenseEngine:
    """By inner product of unit vectors, in the index class that tiles are searched with.

    ``folder``: where vectors of the same texts by the same encoder are kept; None: nowhere. Raises InputError for kept
    vectors that can't be read.
    """

    def __init__(self, texts: Mapping[str, str], encoder: TextEncoder, folder: Path | None = None) -> None:
        ids = sorted(texts)
        self._encoder = encoder
        path = folder / VECTORS if folder else None
        if path is not None and path.is_file():
            vectors: Vectors = open_array(path, np.float32, (len(ids), None))
        else:
            vectors = encoder.documents([texts[name] for name in ids])
            if path is not None:
                _keep(path, vectors)
        self._index = TileIndex.build(vectors, ids, encoder_hash=encoder.identity) if ids else None

    def search(self, queries: Sequence[str], k: int) -> list[Hits]:
        """All texts are compared."""
        if self._index is None or not queries:
            return [() for _ in queries]
        return list(self._index.search(self._encoder.queries(queries), k))


def _keep(path: Path, vectors: Vectors) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        np.save(file, vectors, allow_pickle=False)
    temporary.replace(path)


def texts_digest(texts: Mapping[str, str]) -> str:
    """Of ids and texts, for the name of the folder that keeps their vectors."""
    return digest_text(canonical_json(dict(texts)))


class SeedIndex:
    """The seeds of ``documents`` {page_id: document}; what is searched is a seed's text with its context.

    ``bare``: without it. ``segmenter``: its short name, part of the ids.
    """

    def __init__(self, documents: Mapping[str, Document], segmenter: str, *, bare: bool) -> None:
        self.places: dict[str, tuple[str, int]] = {}
        self.texts: dict[str, str] = {}
        for page_id, document in documents.items():
            for seed in document.seeds:
                name = f"{page_id}-{segmenter}-{'bare' if bare else 'seed'}-{seed.number:05d}"
                self.places[name] = (page_id, seed.number)
                self.texts[name] = seed_text(document, seed.number, bare=bare)


class BlockIndex:
    """The blocks of ``documents``; what is searched is a block's own text."""

    def __init__(self, documents: Mapping[str, Document], count: CountTokens, tokens: int = BLOCK_TOKENS) -> None:
        self.places: dict[str, tuple[str, PageBlock]] = {}
        for page_id, document in documents.items():
            for number, block in enumerate(blocks_of(document, count, tokens)):
                self.places[f"{page_id}-block-{number:05d}"] = (page_id, block)
        self.texts = {name: block.text for name, (_, block) in self.places.items()}
