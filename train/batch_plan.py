"""Which examples and tiles make up a step: a pure function of (examples, seed, step).

No two queries of a batch share a positive tile: the examples of one tile are dealt to different steps (``Dealing``).
Nothing depends on the order of the input.
"""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair, TrainingExample
from tilewright.train.dealing import Dealing, Members
from tilewright.train.example_table import ExampleTable, SortedIds
from tilewright.train.stable_hash import digest_of as digest_of

T = TypeVar("T")
Q = TypeVar("Q", TrainingExample, QAPair)


@dataclass(frozen=True)
class PlannedBatch:
    """One step's global batch: examples [Q], and the tiles [P] that are encoded for it, each once.

    ``tile_ids`` holds the positives in the order of the examples, then known positives that count as positives, the
    first ``extra_positives`` of each example, then the negatives, then random tiles.
    """

    step: int
    epoch: int
    examples: tuple[TrainingExample, ...]
    tile_ids: tuple[str, ...]
    extra_positives: int = 0


class BatchPlan:
    """The batches of a run.

    ``hard_negatives``: how many of each example's negatives join, hardest first (None: all). ``random_tiles`` more
    candidates a batch are drawn from ``pool`` (training tiles). ``extra_positives``: how many of each example's known
    positives join and count as positives. Raises InputError without examples or for a query id
    that occurs twice.
    """

    def __init__(
        self,
        examples: Sequence[TrainingExample],
        *,
        batch_size: int,
        seed: int,
        hard_negatives: int | None = None,
        random_tiles: int = 0,
        pool: Sequence[str] = (),
        extra_positives: int = 0,
    ) -> None:
        if not examples:
            raise InputError("no training examples: wanted at least one")
        if batch_size < 1 or random_tiles < 0:
            raise ValueError(f"wanted batch_size >= 1 and random_tiles >= 0, found {batch_size} and {random_tiles}")
        self.batch_size, self.seed = batch_size, seed
        self.hard_negatives, self.random_tiles = hard_negatives, random_tiles
        self.extra_positives = extra_positives
        self.examples, self.pool = ExampleTable.of(examples), SortedIds.of(pool)
        self.examples.check_distinct()
        self._dealing = Dealing(_by_positive(self.examples), batch_size=batch_size, seed=seed)

    @property
    def steps_per_epoch(self) -> int:
        """How many steps an epoch has."""
        return self._dealing.steps_per_epoch

    @property
    def waiting_per_epoch(self) -> int:
        """Examples that an epoch leaves to later ones, since their tile has more queries than an epoch has steps."""
        return self._dealing.waiting_per_epoch

    def batch(self, step: int) -> PlannedBatch:
        """The global batch of a step (counted from 0 over the whole run)."""
        epoch, rows = self._dealing.rows(step)
        examples = tuple(self.examples[row] for row in rows)
        positives = [example.positive_tile_id for example in examples]
        extra = [tile for example in examples for tile in example.known_positive_tile_ids[: self.extra_positives]]
        negatives = [tile_id for example in examples for tile_id in example.negative_tile_ids[: self.hard_negatives]]
        tile_ids = list(dict.fromkeys(positives + extra + negatives))
        tile_ids += self._random_tiles(step, set(tile_ids))
        return PlannedBatch(step, epoch, examples, tuple(tile_ids), self.extra_positives)

    def _random_tiles(self, step: int, present: set[str]) -> list[str]:
        if not self.random_tiles:
            return []
        places = _drawn(len(self.pool), self.random_tiles + len(present), digest_of(self.seed, step, "random tiles"))
        return [tile_id for tile_id in (self.pool[place] for place in places) if tile_id not in present][
            : self.random_tiles
        ]


def _by_positive(examples: ExampleTable) -> Members:
    """The examples in groups of one positive tile."""
    used = np.bincount(examples.positives, minlength=len(examples.tile_ids)) > 0
    numbers = np.cumsum(used) - 1
    return Members(examples.hashes, examples.order, numbers[examples.positives], examples.tile_hashes[used])


def _drawn(count: int, size: int, key: int) -> Iterator[int]:
    """``size`` different numbers below ``count`` (all if there are fewer), at random by ``key``: Fisher and Yates."""
    moved: dict[int, int] = {}
    for place in range(min(count, size)):
        other = place + digest_of(key, place) % (count - place)
        yield moved.get(other, other)
        moved[other] = moved.get(place, place)


def encoded_once(batch: PlannedBatch, images: Mapping[str, str]) -> PlannedBatch:
    """``batch`` with one tile for all that show the same picture, the first of them; ``images``: tile id to digest.

    Examples name it too, so ``labels`` count a copy of a positive as that positive. Ids that ``images`` lacks stay.
    """
    first: dict[str, str] = {}
    for tile_id in batch.tile_ids:
        first.setdefault(images[tile_id], tile_id)

    def shown(tile_ids: Sequence[str]) -> tuple[str, ...]:
        return tuple(first.get(images.get(tile_id, ""), tile_id) for tile_id in tile_ids)

    examples = tuple(
        dataclasses.replace(
            example,
            positive_tile_id=shown([example.positive_tile_id])[0],
            negative_tile_ids=shown(example.negative_tile_ids),
            known_positive_tile_ids=shown(example.known_positive_tile_ids),
        )
        for example in batch.examples
    )
    return dataclasses.replace(batch, examples=examples, tile_ids=tuple(dict.fromkeys(shown(batch.tile_ids))))


def labels(batch: PlannedBatch) -> tuple[Tensor, Tensor]:
    """``positive`` [Q] (int64) and ``ignore`` [Q, P] (bool) of a batch, from ids alone.

    Ignored for a query: its known positives, and the positives of examples with the same words, except its own
    positive. With ``extra_positives`` E, ``positive`` is [Q, 1 + E]: the positive, then the known positives that count
    as positives, then -1 where there are fewer.
    """
    column = {tile_id: index for index, tile_id in enumerate(batch.tile_ids)}
    right: dict[str, set[str]] = {}  # of each query's words
    for example in batch.examples:
        known = right.setdefault(example.query, set())
        known.update((example.positive_tile_id, *example.known_positive_tile_ids))
    width = 1 + batch.extra_positives
    positive = torch.full((len(batch.examples), width), -1, dtype=torch.int64)
    ignore = torch.zeros(len(batch.examples), len(batch.tile_ids), dtype=torch.bool)
    for row, example in enumerate(batch.examples):
        own = column[example.positive_tile_id]
        for tile_id in right[example.query] & column.keys():
            ignore[row, column[tile_id]] = True
        ignore[row, own] = False
        extra = [column[tile_id] for tile_id in example.known_positive_tile_ids[: width - 1]]
        counted = list(dict.fromkeys([own, *extra]))  # of the same picture as the positive is no other positive
        positive[row, : len(counted)] = torch.tensor(counted)
    return positive if batch.extra_positives else positive[:, 0], ignore


def same_words(queries: Sequence[str]) -> Tensor:
    """[Q, Q] (bool), true where two different queries have the same words: the right text of one is right for both."""
    _, words = np.unique(np.array(queries, dtype=object), return_inverse=True)
    numbers = torch.from_numpy(words)
    return (numbers[:, None] == numbers[None, :]) & ~torch.eye(len(numbers), dtype=torch.bool)


def share_of(items: Sequence[T], rank: int, world: int) -> Sequence[T]:
    """A rank's contiguous share; the shares of all ranks, in order, are ``items``; sizes differ by at most one."""
    return items[len(items) * rank // world : len(items) * (rank + 1) // world]


def choose(items: Sequence[Q], count: int, seed: int) -> list[Q]:
    """``count`` examples or pairs (all if there are fewer) by digest of their query ids."""
    return sorted(items, key=lambda item: digest_of(seed, "choose", item.query_id))[:count]
