"""Nearest tiles of many queries by one checkpoint's index, the same whether or not a run was interrupted.

Queries are encoded and searched in fixed blocks of the whole list: a resumed run repeats the block it was in and so
gets the same floats, whatever had been finished.
"""

import dataclasses
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError
from tilewright.data_gen.records import QAPair, Tile
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.mining.index import Hits, TileIndex
from tilewright.train.distributed import choose_device
from tilewright.train.encoder import Encoder, load_encoder

TILES_IN_MEMORY = 4096
DIGESTS_IN_MEMORY = 65_536
_MORE = 4  # times as many hits as wanted are fetched where only some pages count


@dataclass(frozen=True)
class Candidates:
    """The nearest allowed tiles of a query and their scores, best first, without its positive.

    ``positive_rank``: where the positive stood among the allowed tiles, 1 = best; None if not within the depth.
    ``positive_score``: its score in the index if it has a rank; else, if that was asked for, the product of the
    query's vector and its own by the checkpoint, exact whatever the index stores; else None.
    """

    tile_ids: tuple[str, ...]
    scores: tuple[float, ...]
    positive_rank: int | None
    positive_score: float | None


class Searcher:
    """A checkpoint's query encoder, its index and the tiles, checked to belong together."""

    def __init__(self, index: TileIndex, encoder: Encoder, store: TileStore) -> None:
        self.index, self.encoder, self.store = index, encoder, store
        self._light = lru_cache(maxsize=TILES_IN_MEMORY)(store.light)
        self.digest = lru_cache(maxsize=DIGESTS_IN_MEMORY)(store.image_digest)
        self._vector = lru_cache(maxsize=TILES_IN_MEMORY)(self._encoded)

    @classmethod
    def open(cls, index: Path, checkpoint: Path, tiles: Path, device: str = "auto") -> "Searcher":
        """Raises InputError if the index holds tiles that ``tiles`` lacks or was made by another encoder."""
        opened, store = TileIndex.load(index), TileStore.open(tiles)
        encoder = load_encoder(checkpoint, device=choose_device(device))
        opened.check_encoder(encoder.hash, str(index))
        missing = opened.first_beyond(store.tile_ids)
        if missing is not None:
            raise InputError(f"{index}: tile {missing} is not in {tiles}: index and tiles are of different corpora")
        return cls(opened, encoder, store)

    def check_positives(self, pairs: Sequence[QAPair], where: Path) -> None:
        """Raises InputError for a pair whose positive isn't in the index."""
        missing = self.index.missing([pair.tile_id for pair in pairs])
        if missing:
            first = next(pair for pair in pairs if pair.tile_id == missing[0])
            raise InputError(
                f"{where}: {first.query_id}: tile {first.tile_id} is not in the index of {len(self.index)} tiles"
                f" ({len(missing)} of {len(pairs)} pairs): pairs and index are of different corpora"
            )

    def tile(self, tile_id: str) -> Tile:
        """A tile without its image; recent ones are kept in memory (some are candidates of many queries)."""
        return self._light(tile_id)

    def pictured(self, tile_id: str) -> Tile:
        """A tile with its image."""
        return self.store.get(tile_id)

    def search(
        self, pairs: Sequence[QAPair], depth: int, pages: Collection[str] | None, *, score_positives: bool = False
    ) -> list[Candidates]:
        """The ``depth`` nearest tiles of each pair on ``pages`` (None: on all), fewer if the index has no more.

        ``score_positives``: also those that have no rank. Raises StageError if the search fails: no candidates is
        never silently "no negatives".
        """
        queries = self.encoder.encode_queries([pair.query for pair in pairs])
        found = [
            _without_positive(hits, pair.tile_id, depth)
            for pair, hits in zip(pairs, self._hits(queries, depth + 1, pages), strict=True)
        ]  # one place for the positive
        if not score_positives:
            return found
        return [
            candidates
            if candidates.positive_rank is not None
            else dataclasses.replace(candidates, positive_score=_product(query, self._vector(pair.tile_id)))
            for query, pair, candidates in zip(queries, pairs, found, strict=True)
        ]

    def _encoded(self, tile_id: str) -> Tensor:
        """A tile's vector [D]; alone in its batch, so that it doesn't depend on other tiles."""
        return self.encoder.encode_tiles([self.store.image(tile_id)])[0]

    def _hits(self, queries: Tensor, wanted: int, pages: Collection[str] | None) -> Hits:
        """The ``wanted`` best on ``pages``: those among somewhat more of all pages, which cost less to find than a
        search by pages; where they are too few, by pages.
        """
        if pages is None:
            return self._searched(queries, wanted, None)
        more = _MORE * wanted
        hits = [
            tuple(hit for hit in row if page_of(hit[0]) in pages)[:wanted]
            for row in self._searched(queries, more, None)
        ]
        short = [number for number, row in enumerate(hits) if len(row) < wanted and more < len(self.index)]
        for number, row in zip(short, self._searched(queries[short], wanted, pages) if short else (), strict=True):
            hits[number] = row
        return hits

    def _searched(self, queries: Tensor, wanted: int, pages: Collection[str] | None) -> Hits:
        try:
            hits = self.index.search(queries, wanted, pages=pages)
        except (RuntimeError, OSError) as error:
            raise StageError(f"the search failed: {error}") from error
        most = min(wanted, len(self.index))
        if len(hits) != len(queries) or any(
            not 1 <= len(row) <= most or (pages is None and len(row) < most) for row in hits
        ):
            raise StageError(f"the search gave {[len(row) for row in hits]} hits; wanted {most} for each query")
        return hits


def _without_positive(hits: Sequence[tuple[str, float]], positive: str, depth: int) -> Candidates:
    at = next((place for place, (tile_id, _) in enumerate(hits[:depth]) if tile_id == positive), None)
    rest = [hit for hit in hits if hit[0] != positive][:depth]
    tile_ids, scores = tuple(tile_id for tile_id, _ in rest), tuple(score for _, score in rest)
    return Candidates(tile_ids, scores, None if at is None else at + 1, None if at is None else hits[at][1])


def _product(query: Tensor, tile: Tensor) -> float:
    return float((query.double() * tile.double()).sum())


def blocks_of(
    pairs: Sequence[QAPair], size: int, todo: Collection[str], part: tuple[int, int] = (0, 1)
) -> Iterator[Sequence[QAPair]]:
    """Fixed blocks of ``size`` pairs, without those that hold none of the query_ids ``todo``.

    ``part`` (i, n): only every n-th block, from the i-th on.
    """
    for number, start in enumerate(range(0, len(pairs), size)):
        block = pairs[start : start + size]
        if number % part[1] == part[0] and any(pair.query_id in todo for pair in block):
            yield block
