"""BM25 over texts (Lucene's variant, by the library bm25s)."""

import re
import unicodedata
from collections.abc import Mapping

import bm25s
import numpy as np

K1, B = 1.2, 0.75
_UNSPACED = "\u2e80-\u9fff\uac00-\ud7af\uf900-\ufaff"  # Chinese, Japanese, Korean: no spaces, so a token a character
_TOKEN = re.compile(rf"[{_UNSPACED}]|[^\W_{_UNSPACED}]+")


def tokens(text: str) -> list[str]:
    """Words and numbers of ``text``, NFKC and case-folded; one-letter tokens stay, no stop words, no stemming."""
    return _TOKEN.findall(unicodedata.normalize("NFKC", text).casefold())


class Bm25:
    """Items by BM25 score of their texts: ``texts`` is {item id: text}."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        self._ids = sorted(texts)
        corpus = [tokens(texts[item]) for item in self._ids]
        self._index = None
        if any(corpus):
            self._index = bm25s.BM25(k1=K1, b=B, method="lucene")
            self._index.index(corpus, show_progress=False)

    def search(self, query: str, k: int) -> tuple[tuple[str, float], ...]:
        """At most ``k`` hits that share a token with ``query``, best first; ties by item id."""
        words = tokens(query)
        if self._index is None or not words:
            return ()
        scores = self._index.get_scores(words)  # [P]
        order = _best_first(scores, k)
        return tuple((self._ids[index], float(scores[index])) for index in order)


def _best_first(scores: np.ndarray, k: int) -> np.ndarray:
    """Positions of the ``k`` highest scores above 0; equal scores by position (items are sorted by id)."""
    above = np.flatnonzero(scores > 0)
    if len(above) > k:
        floor = np.partition(scores[above], len(above) - k)[len(above) - k]
        above = above[scores[above] >= floor]
    return above[np.argsort(-scores[above], kind="stable")][:k]
