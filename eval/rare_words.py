"""Queries of rare words: a few words that stand on one tile of a corpus only. They measure reading, not meaning."""

import random
from collections import Counter
from collections.abc import Iterable

from tilewright.data_gen.records import QAPair, Tile
from tilewright.eval.bm25 import tokens

ANNOTATOR = "rare_words/1"


def rare_word_queries(
    tiles: Iterable[Tile], *, words: int = 3, shortest: int = 4, seed: int = 0, depth: int = 1
) -> list[QAPair]:
    """``depth`` queries of ``words`` words for each tile that has enough rare ones, in the order of ``tiles``.

    A rare word stands on exactly one tile of ``tiles`` (as often as it likes), has ``shortest`` letters or more and
    nothing but letters, and isn't in the title. No two queries of a tile share one. Words are told apart as BM25 does:
    without regard to case. Which ones are drawn, and in what order, is a function of the seed, the tile's id and its
    rare words.
    """
    found: list[tuple[Tile, set[str]]] = []
    for tile in tiles:
        wanted = {word for word in tokens(tile.text) if len(word) >= shortest and word.isalpha()}
        found.append((tile, wanted - set(tokens(tile.title))))
    counts = Counter(word for tile, _ in found for word in set(tokens(tile.text)))
    queries = []
    for tile, candidates in found:
        rare = sorted(word for word in candidates if counts[word] == 1)
        random.Random(f"{seed}/{tile.tile_id}").shuffle(rare)
        for number in range(min(depth, len(rare) // words)):
            queries.append(_query(tile, " ".join(rare[number * words : (number + 1) * words]), number))
    return queries


def _query(tile: Tile, text: str, number: int) -> QAPair:
    return QAPair(
        query_id=f"{tile.tile_id}-rare-{number}",
        query=text,
        answer="",
        aliases=(),
        tile_id=tile.tile_id,
        page_id=tile.page_id,
        source_span=text,
        source_type="rare_words",
        subject="",
        annotator=ANNOTATOR,
    )
