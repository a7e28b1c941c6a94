"""The questions of an evaluation, what counts as right for each, and the pool of tiles that is searched."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of


@dataclass(frozen=True)
class Pool:
    """The P tiles that every row searches: ``page_of`` {tile_id: page_id}, ``tiles_of`` {page_id: its tile_ids}."""

    page_of: dict[str, str]
    tiles_of: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, store: TileStore) -> "Pool":
        """The tiles of ``store``. Raises InputError if it is empty."""
        pages = {tile_id: page_of(tile_id) for tile_id in store.tile_ids}
        if not pages:
            raise InputError(f"{store.folder}: holds no tiles: there is nothing to search")
        tiles_of: dict[str, list[str]] = {}
        for tile_id, page_id in pages.items():
            tiles_of.setdefault(page_id, []).append(tile_id)
        return cls(pages, {page_id: tuple(tiles) for page_id, tiles in tiles_of.items()})

    def __len__(self) -> int:
        return len(self.page_of)


def relevant_pages(pairs: Sequence[QAPair]) -> dict[str, frozenset[str]]:
    """{query_id: its gold page}; an empty set where a question names none (left out of recall by page)."""
    return {pair.query_id: frozenset({pair.page_id} - {""}) for pair in pairs}


def relevant_tiles(pairs: Sequence[QAPair]) -> dict[str, frozenset[str]]:
    """{query_id: its gold tile}; an empty set where a question names none (left out of recall by tile)."""
    return {pair.query_id: frozenset({pair.tile_id} - {""}) for pair in pairs}


def clusters(pairs: Sequence[QAPair]) -> list[str]:
    """What the bootstrap resamples: each question's gold page, or the question itself where it names none."""
    return [pair.page_id or f"question {pair.query_id}" for pair in pairs]


def gold_outside(pairs: Sequence[QAPair], pool: Pool) -> list[str]:
    """query_ids whose gold tile or page isn't in the pool: they can only be missed. InputError if that is all."""
    outside = [
        pair.query_id
        for pair in pairs
        if (pair.tile_id and pair.tile_id not in pool.page_of) or (pair.page_id and pair.page_id not in pool.tiles_of)
    ]
    if len(outside) == len(pairs):
        raise InputError(
            f"none of the {len(pairs)} questions has its gold tile among the {len(pool)} tiles (first:"
            f" {pairs[0].query_id!r} wants {pairs[0].tile_id!r}): do `pairs` and `tiles` come from the same run?"
        )
    return outside


def subset(pairs: Sequence[QAPair], count: int, seed: int, purpose: str) -> list[QAPair]:
    """``count`` of the questions (all if there are fewer), chosen by digest of their ids, in their own order."""

    def digest(pair: QAPair) -> bytes:
        return hashlib.sha256(f"{purpose}/{seed}/{pair.query_id}".encode("utf-8", "surrogatepass")).digest()

    chosen = {pair.query_id for pair in sorted(pairs, key=digest)[:count]}
    return [pair for pair in pairs if pair.query_id in chosen]
