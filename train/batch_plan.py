"""Which examples and tiles make up a step: a pure function of (examples, seed, epoch, step).

An epoch has exactly ``ceil(examples / batch_size)`` steps of (nearly) equal size. No two queries of a batch share a
positive tile: the examples of one tile are dealt to different steps. A tile with more queries than an epoch has steps
gives each epoch as many as there are steps, its others come next. Nothing depends on the order of the input.
"""

import hashlib
import random
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

import torch
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair, TrainingExample

T = TypeVar("T")
Q = TypeVar("Q", TrainingExample, QAPair)


@dataclass(frozen=True)
class PlannedBatch:
    """One step's global batch: examples [Q], and the tiles [P] that are encoded for it, each once.

    ``tile_ids`` holds the positives in the order of the examples, then their negatives, then random tiles.
    """

    step: int
    epoch: int
    examples: tuple[TrainingExample, ...]
    tile_ids: tuple[str, ...]


class BatchPlan:
    """The batches of a run.

    ``hard_negatives``: how many of each example's negatives join, hardest first (None: all). ``random_tiles`` more
    candidates a batch are drawn from ``pool`` (training tiles). Raises InputError without examples or for a query id
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
    ) -> None:
        if not examples:
            raise InputError("no training examples: wanted at least one")
        if batch_size < 1 or random_tiles < 0:
            raise ValueError(f"wanted batch_size >= 1 and random_tiles >= 0, found {batch_size} and {random_tiles}")
        self.batch_size, self.seed = batch_size, seed
        self.hard_negatives, self.random_tiles = hard_negatives, random_tiles
        self.pool = sorted(set(pool))
        self.steps_per_epoch = -(-len(examples) // batch_size)
        self._groups: dict[str, list[TrainingExample]] = defaultdict(list)
        for example in sorted(examples, key=lambda example: digest_of(seed, "member", example.query_id)):
            self._groups[example.positive_tile_id].append(example)
        ids = {example.query_id for example in examples}
        if len(ids) != len(examples):
            raise InputError(f"training examples: {len(examples) - len(ids)} query ids occur more than once")
        self._dealt: tuple[int, list[list[TrainingExample]]] = (-1, [])

    @property
    def waiting_per_epoch(self) -> int:
        """Examples that an epoch leaves to later ones, since their tile has more queries than an epoch has steps."""
        return sum(max(0, len(group) - self.steps_per_epoch) for group in self._groups.values())

    def batch(self, step: int) -> PlannedBatch:
        """The global batch of a step (counted from 0 over the whole run)."""
        epoch, index = divmod(step, self.steps_per_epoch)
        dealt = self._dealt
        if dealt[0] != epoch:
            dealt = self._dealt = (epoch, self._deal(epoch))
        examples = tuple(dealt[1][index])
        positives = [example.positive_tile_id for example in examples]
        negatives = [tile_id for example in examples for tile_id in example.negative_tile_ids[: self.hard_negatives]]
        tile_ids = list(dict.fromkeys(positives + negatives))
        return PlannedBatch(step, epoch, examples, tuple(tile_ids + self._random_tiles(step, set(tile_ids))))

    def _deal(self, epoch: int) -> list[list[TrainingExample]]:
        """Deal one epoch's examples, tile by tile, round the steps: members of one tile never meet."""
        steps = self.steps_per_epoch
        order = sorted(self._groups, key=lambda tile_id: digest_of(self.seed, epoch, "tile", tile_id))
        sequence = [example for tile_id in order for example in self._turn(self._groups[tile_id], epoch)]
        return [self._shuffled(sequence[step::steps], epoch) for step in range(steps)]

    def _shuffled(self, examples: list[TrainingExample], epoch: int) -> list[TrainingExample]:
        return sorted(examples, key=lambda example: digest_of(self.seed, epoch, example.query_id))

    def _turn(self, group: list[TrainingExample], epoch: int) -> list[TrainingExample]:
        """The examples of one tile whose turn it is: all, or the next ``steps_per_epoch`` of a longer ring."""
        if len(group) <= self.steps_per_epoch:
            return self._shuffled(group, epoch)
        start = epoch * self.steps_per_epoch
        return [group[(start + offset) % len(group)] for offset in range(self.steps_per_epoch)]

    def _random_tiles(self, step: int, present: set[str]) -> list[str]:
        if not self.random_tiles:
            return []
        draw = random.Random(digest_of(self.seed, step, "random tiles"))
        drawn = draw.sample(self.pool, min(len(self.pool), self.random_tiles + len(present)))
        return [tile_id for tile_id in drawn if tile_id not in present][: self.random_tiles]


def labels(batch: PlannedBatch, images: Mapping[str, str] | None = None) -> tuple[Tensor, Tensor]:
    """``positive`` [Q] (int64) and ``ignore`` [Q, P] (bool) of a batch, from ids alone.

    Ignored for a query: its known positives, and tiles with the same picture as its positive (``images``: tile id to
    image digest), except the positive itself.
    """
    column = {tile_id: index for index, tile_id in enumerate(batch.tile_ids)}
    copies: dict[str, list[str]] = defaultdict(list)
    for tile_id in batch.tile_ids:
        if images is not None:
            copies[images[tile_id]].append(tile_id)
    positive = torch.tensor([column[example.positive_tile_id] for example in batch.examples], dtype=torch.int64)
    ignore = torch.zeros(len(batch.examples), len(batch.tile_ids), dtype=torch.bool)
    for row, example in enumerate(batch.examples):
        same = copies[images[example.positive_tile_id]] if images is not None else []
        for tile_id in (*example.known_positive_tile_ids, *same):
            if tile_id in column:
                ignore[row, column[tile_id]] = True
        ignore[row, positive[row]] = False
    return positive, ignore


def share_of(items: Sequence[T], rank: int, world: int) -> Sequence[T]:
    """A rank's contiguous share; the shares of all ranks, in order, are ``items``; sizes differ by at most one."""
    return items[len(items) * rank // world : len(items) * (rank + 1) // world]


def choose(items: Sequence[Q], count: int, seed: int) -> list[Q]:
    """``count`` examples or pairs (all if there are fewer) by digest of their query ids."""
    return sorted(items, key=lambda item: digest_of(seed, "choose", item.query_id))[:count]


def digest_of(*parts: int | str) -> int:
    """A number from 0 to 2^128 that depends on ``parts`` alone."""
    text = "\x1f".join(str(part) for part in parts)
    return int.from_bytes(hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest()[:16], "big")
