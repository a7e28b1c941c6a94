"""Training examples as columns: a million of them take neither the time nor the memory of a million objects."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import TrainingExample
from tilewright.train.stable_hash import Hashes, Rows, distinct_order, hashes_of, keys_of


@dataclass(frozen=True, eq=False)
class Ragged:
    """N lists of integers: list i is ``values[edges[i]:edges[i + 1]]``."""

    edges: Rows
    values: Rows

    @classmethod
    def of(cls, lists: Sequence[Sequence[int]]) -> "Ragged":
        """The same lists as arrays."""
        edges = np.cumsum([0, *map(len, lists)], dtype=np.int64)
        return cls(edges, np.array([value for values in lists for value in values], np.int64))

    def __getitem__(self, row: int) -> list[int]:
        found: list[int] = self.values[self.edges[row] : self.edges[row + 1]].tolist()
        return found

    def lengths(self) -> Rows:
        """How long each list is."""
        return np.diff(self.edges)

    def row_of(self, place: int) -> int:
        """The list that holds ``values[place]``."""
        return int(np.searchsorted(self.edges, place, "right")) - 1

    def take(self, rows: Rows) -> "Ragged":
        """The lists ``rows``, in that order."""
        lengths = self.lengths()[rows]
        edges = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int64)
        shift = np.repeat(self.edges[:-1][rows] - edges[:-1], lengths)
        return Ragged(edges, self.values[np.arange(edges[-1]) + shift])

    def where(self, keep: npt.NDArray[np.bool_]) -> "Ragged":
        """The lists without the values that ``keep`` [values] doesn't mark."""
        kept = np.concatenate([[0], np.cumsum(keep)]).astype(np.int64)
        return Ragged(kept[self.edges], self.values[keep])


class SortedIds(Sequence[str]):
    """Some of the ids of a sorted sequence, ascending: a view that holds their places alone."""

    def __init__(self, ids: Sequence[str], places: Rows) -> None:
        self._ids, self.places = ids, places

    @classmethod
    def of(cls, ids: Iterable[str]) -> "SortedIds":
        """``ids`` (itself, if it is that) in ascending order, each once."""
        if isinstance(ids, cls):
            return ids
        listed = sorted(set(ids))
        return cls(listed, np.arange(len(listed)))

    def with_places(self, places: Rows) -> "SortedIds":
        """These ids and those at ``places`` of the sequence."""
        marked = np.zeros(len(self._ids), np.bool_)
        marked[self.places] = marked[places] = True
        return SortedIds(self._ids, np.flatnonzero(marked))

    def __len__(self) -> int:
        return len(self.places)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [self._ids[place] for place in self.places[index].tolist()]
        return self._ids[int(self.places[index])]


@dataclass(frozen=True, eq=False)
class ExampleTable(Sequence[TrainingExample]):
    """N training examples; ``table[row]`` is one as a record.

    ``query_ids`` and ``queries`` are Arrow large_string arrays. Tiles are places in ``tile_ids``, which ascends;
    ``tile_hashes`` are ``hashes_of`` these ids. Known positives that ``tile_ids`` lacks are left out.
    """

    query_ids: pa.Array
    queries: pa.Array
    positives: Rows
    negatives: Ragged
    known: Ragged
    tile_ids: Sequence[str]
    tile_hashes: Hashes

    @classmethod
    def of(cls, examples: Sequence[TrainingExample]) -> "ExampleTable":
        """``examples`` (themselves, if they are a table) as columns."""
        if isinstance(examples, cls):
            return examples
        lists: list[list[tuple[str, ...]]] = [
            [(example.positive_tile_id,) for example in examples],
            [example.negative_tile_ids for example in examples],
            [example.known_positive_tile_ids for example in examples],
        ]
        tile_ids = sorted({tile_id for column in lists for tiles in column for tile_id in tiles})
        place = {tile_id: number for number, tile_id in enumerate(tile_ids)}
        positives, negatives, known = (
            Ragged.of([[place[tile_id] for tile_id in tiles] for tiles in column]) for column in lists
        )
        return cls(
            query_ids=pa.array([example.query_id for example in examples], pa.large_string()),
            queries=pa.array([example.query for example in examples], pa.large_string()),
            positives=positives.values,
            negatives=negatives,
            known=known,
            tile_ids=tile_ids,
            tile_hashes=hashes_of(pa.array(tile_ids, pa.large_string())),
        )

    def __len__(self) -> int:
        return len(self.positives)

    @overload
    def __getitem__(self, index: int) -> TrainingExample: ...
    @overload
    def __getitem__(self, index: slice) -> "ExampleTable": ...
    def __getitem__(self, index: int | slice) -> "TrainingExample | ExampleTable":
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        row = range(len(self))[index]
        return TrainingExample(
            self.query_ids[row].as_py(),
            self.queries[row].as_py(),
            self.tile_ids[int(self.positives[row])],
            tuple(self.tile_ids[place] for place in self.negatives[row]),
            tuple(self.tile_ids[place] for place in self.known[row]),
        )

    def take(self, rows: Rows) -> "ExampleTable":
        """The examples ``rows``, in that order."""
        chosen = pa.array(rows)
        return ExampleTable(
            self.query_ids.take(chosen),
            self.queries.take(chosen),
            self.positives[rows],
            self.negatives.take(rows),
            self.known.take(rows),
            self.tile_ids,
            self.tile_hashes,
        )

    def choose(self, count: int, seed: int) -> "ExampleTable":
        """``count`` examples (all if there are fewer) by seed and query id, whatever the order of the table."""
        keys = keys_of(self.hashes[self.order], seed, "choose")
        first = np.argpartition(keys, count)[:count] if count < len(keys) else np.arange(len(keys))
        return self.take(self.order[first[np.argsort(keys[first], kind="stable")]])

    @cached_property
    def hashes(self) -> Hashes:
        """[N]: of the query ids."""
        return hashes_of(self.query_ids)

    @property
    def order(self) -> Rows:
        """[N]: the rows in an order that depends on the query ids alone."""
        return self._order_and_repeats[0]

    @cached_property
    def repeats(self) -> list[tuple[int, int]]:
        """Pairs of rows (first, later) with the same query id."""
        return sorted(self._order_and_repeats[1], key=lambda pair: pair[1])

    @cached_property
    def _order_and_repeats(self) -> tuple[Rows, list[tuple[int, int]]]:
        return distinct_order(self.query_ids, self.hashes)

    def check_distinct(self) -> None:
        """Raise InputError if a query id stands twice."""
        if self.repeats:
            raise InputError(f"training examples: {len(self.repeats)} query ids occur more than once")
