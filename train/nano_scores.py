"""How well nano reads the tiles of a store, at any compression."""

import dataclasses
from collections.abc import Sequence

import torch
import torch.distributed as dist

from tilewright.data_gen.characters import CharacterTable
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.nano import NanoModel
from tilewright.train.nano_data import seen_at
from tilewright.train.nano_reading import ReadingScore, read_page, score_page


@dataclasses.dataclass(frozen=True)
class StoreScore(ReadingScore):
    """A ReadingScore that ranks can add up."""

    def summed_over_ranks(self) -> ReadingScore:
        """The sum of all ranks' scores, on each."""
        values = torch.tensor(dataclasses.astuple(self))
        if dist.is_initialized():
            dist.all_reduce(values)
        return ReadingScore(*values.tolist())


def score_store(
    model: NanoModel,
    store: TileStore,
    table: CharacterTable,
    positions: Sequence[int],
    compression: float = 1.0,
    *,
    bfloat16: bool = False,
) -> StoreScore:
    """The sum over the tiles at ``positions``, each compressed by ``compression`` and enlarged back."""
    total = ReadingScore()
    for position in positions:
        pixels, characters = seen_at(store.image(store.tile_ids[position]), table.at(position), compression)
        total += score_page(read_page(model, pixels, bfloat16=bfloat16), characters)
    return StoreScore(*dataclasses.astuple(total))
