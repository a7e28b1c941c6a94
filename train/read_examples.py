"""Files of training examples and text pairs as columns, each line checked: a million lines in a second or two."""

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import TextPair, TrainingExample
from tilewright.data_gen.store.ids import map_array
from tilewright.data_gen.store.rows import ID_WIDTH
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.example_table import ExampleTable, Ragged, SortedIds
from tilewright.train.read_columns import column_of, read_columns
from tilewright.train.stable_hash import Hashes, Rows, Spans, distinct_order, hashes_of

_ABSENT = -1


def read_examples(path: Path, store: TileStore) -> ExampleTable:
    """All training examples of a file; every tile they name but known positives must be in ``store``.

    Raises InputError, with file and line, for what is no example, an empty query or query id, a query id that stands
    twice, a tile that the store lacks, and a tile that is positive and negative of one query.
    """
    columns = read_columns(path, TrainingExample)
    if not len(columns):
        raise InputError(
            f"{path}: no training examples: wanted at least one; mine_negatives' manifest counts its drops"
        )
    query_ids, queries = column_of(columns, "query_id"), column_of(columns, "query")
    _check_filled(path, {"query_id": query_ids, "query": queries})
    tiles = _StoreIds(store)
    known = _ragged(columns, "known_positive_tile_ids", tiles)
    table = ExampleTable(
        query_ids=query_ids,
        queries=queries,
        positives=tiles.places(column_of(columns, "positive_tile_id")),
        negatives=_ragged(columns, "negative_tile_ids", tiles),
        known=known.where(known.values != _ABSENT),
        tile_ids=store.tile_ids,
        tile_hashes=tiles.hashes,
    )
    _check_ids(path, "query_id", query_ids, table.repeats)
    for line, fault in sorted(_tile_faults(table, columns, store)):
        raise InputError(f"{path}:{line}: {fault}")
    return table


def read_text_pairs(path: Path) -> pa.Table:
    """The text pairs of a file, a row each. Raises InputError, with file and line, for what is no pair, an empty query
    or passage, and an id that stands twice; and for an empty file."""
    columns = read_columns(path, TextPair)
    if not len(columns):
        raise InputError(f"{path}: no text pairs: wanted at least one, as the stage text_pairs writes them")
    _check_filled(path, {name: column_of(columns, name) for name in ("pair_id", "query", "passage")})
    pair_ids = column_of(columns, "pair_id")
    _check_ids(path, "pair_id", pair_ids, distinct_order(pair_ids, hashes_of(pair_ids))[1])
    return columns


def tiles_of(store: TileStore, splits: Mapping[str, Collection[str]]) -> dict[str, SortedIds]:
    """{split: ids of the tiles of its pages}; ``splits``: {split: page ids}."""
    own_pages = _ids_of(store).astype("|S16")  # a tile id begins with its page's
    starts = np.flatnonzero(np.concatenate([[True], own_pages[1:] != own_pages[:-1]])[: len(own_pages)])
    pages = [page.decode("ascii", "replace") for page in own_pages[starts].tolist()]
    lengths = np.diff(np.append(starts, len(own_pages)))
    wanted = {split: np.array([page in chosen for page in pages], np.bool_) for split, chosen in splits.items()}
    return {split: SortedIds(store.tile_ids, np.flatnonzero(np.repeat(of, lengths))) for split, of in wanted.items()}


def _ids_of(store: TileStore) -> npt.NDArray[Any]:
    return map_array(store.folder / store.state.ids, len(store), f"|S{ID_WIDTH}")


class _StoreIds:
    """The ids of a store, found by their hashes."""

    def __init__(self, store: TileStore) -> None:
        self._spans = Spans.of_fixed(_ids_of(store))
        self.hashes: Hashes = self._spans.hashes()
        self._ids = store.tile_ids

    def places(self, tile_ids: pa.Array) -> Rows:
        """[N] ids -> [N] places in the store, -1 where it has no such tile."""
        spans = Spans.of_texts(tile_ids)
        found = pc.index_in(pa.array(spans.hashes()), value_set=pa.array(self.hashes))
        places: Rows = pc.fill_null(found, _ABSENT).to_numpy(zero_copy_only=False).astype(np.int64)
        rows = np.flatnonzero(places != _ABSENT)
        for row in rows[~spans.equal(rows, self._spans, places[rows])].tolist():  # another id with the same hash
            place = self._ids.position(tile_ids[row].as_py())
            places[row] = _ABSENT if place is None else place
        return places


def _ragged(columns: pa.Table, name: str, tiles: _StoreIds) -> Ragged:
    column = column_of(columns, name)
    edges = column.offsets.to_numpy().astype(np.int64)
    return Ragged(edges - edges[0], tiles.places(column.flatten()))


def _check_filled(path: Path, columns: dict[str, pa.Array]) -> None:
    for name, texts in columns.items():
        empty = np.flatnonzero(pc.equal(pc.utf8_trim_whitespace(texts), "").to_numpy(zero_copy_only=False))
        if len(empty):
            raise InputError(f"{path}:{empty[0] + 1}: {name}: wanted some text, found {texts[int(empty[0])].as_py()!r}")


def _check_ids(path: Path, name: str, ids: pa.Array, repeats: list[tuple[int, int]]) -> None:
    for first, later in repeats:
        value = ids[later].as_py()
        raise InputError(f"{path}:{later + 1}: {name} {value!r} stands twice (first on line {first + 1})")


def _tile_faults(table: ExampleTable, columns: pa.Table, store: TileStore) -> Iterator[tuple[int, str]]:
    """(line, what is wrong there): the first of each kind."""
    negatives: Any = columns.column("negative_tile_ids")
    lacks = f"is not in {store.folder} ({len(store)} tiles): use the tiles that the examples were mined from"
    for row in np.flatnonzero(table.positives == _ABSENT)[:1].tolist():
        yield row + 1, f"positive_tile_id: tile {columns.column('positive_tile_id')[row].as_py()!r} {lacks}"
    for place in np.flatnonzero(table.negatives.values == _ABSENT)[:1].tolist():
        row = table.negatives.row_of(place)
        tile_id = negatives[row].as_py()[place - int(table.negatives.edges[row])]
        yield row + 1, f"negative_tile_ids: tile {tile_id!r} {lacks}"
    own = np.repeat(table.positives, table.negatives.lengths())
    for place in np.flatnonzero((table.negatives.values == own) & (own != _ABSENT))[:1].tolist():
        row = table.negatives.row_of(place)
        yield row + 1, f"tile {table.tile_ids[int(table.positives[row])]!r} is both positive and negative"
