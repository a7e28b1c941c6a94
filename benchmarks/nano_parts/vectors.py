"""What nano reads on each tile, how much of it is right, and the vectors that it makes of it.

A tile's vector is that of ``encode_tiles``. Besides, every window that the model cuts a page into has a vector of its
own, of the cells that the window speaks for.
"""

import dataclasses
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tilewright.data_gen.characters import CharacterTable
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.perfect_reading import true_trigrams
from tilewright.train.nano import CELLS, PATCH_PX, NanoModel, Reading
from tilewright.train.nano_binding import Binding
from tilewright.train.nano_characters import trigrams_of
from tilewright.train.nano_data import CELL_PX, padded, patches_of, seen_at
from tilewright.train.nano_decoding import decode
from tilewright.train.nano_neighbours import page_places
from tilewright.train.nano_reading import ReadingScore, score_page
from tilewright.train.pixels import FACTOR_PX

EVERY = 100  # tiles between two lines of progress
TEXTS_AT_ONCE = 128  # a trigram of a text takes D floats until it's added up


@dataclass
class Vectors:
    """Unit vectors of P tiles by name: ``tile/D`` [P, D], ``crops/D`` [C, D]; ``owners`` [C]: the tile of each crop."""

    found: dict[str, list[Tensor]] = field(default_factory=dict)
    owners: list[Tensor] = field(default_factory=list)

    def add(self, name: str, sums: Tensor) -> None:
        """Sums [n, D] of one tile."""
        self.found.setdefault(name, []).append(F.normalize(sums, dim=-1))

    def of(self, name: str) -> Tensor:
        """All of that name."""
        return torch.cat(self.found[name])


def bindings_of(model: NanoModel, dimensions: Sequence[int]) -> dict[int, Binding]:
    """A binding for each dimension: the model's own, or one with its weights and other signs."""
    found = {}
    for dimension in dimensions:
        binding = model.binding
        if dimension != model.config.dimension:
            binding = Binding(dimension)
            binding.weights.copy_(model.binding.weights)
        found[dimension] = binding
    return found


def crop_of_cells(model: NanoModel, rows: int, columns: int) -> tuple[Tensor, int]:
    """([rows, columns * CELLS] the window that speaks for each cell, how many windows there are)."""
    plan = model.windows(rows, columns)
    windows = plan.down.owner[:, None] * len(plan.across.starts) + plan.across.owner[None]
    return windows.repeat_interleave(CELLS, dim=1), plan.count


def in_whole_tokens(pixels: np.ndarray) -> np.ndarray:
    """uint8 [height, width, 3] in whole visual tokens, as ``encode_tiles`` pads it."""
    height, width = (FACTOR_PX * math.ceil(side / FACTOR_PX) for side in pixels.shape[:2])
    return padded(pixels, height, width)


@torch.no_grad()
def read_tiles(
    model: NanoModel, bindings: dict[int, Binding], store: TileStore, table: CharacterTable, compression: float
) -> tuple[ReadingScore, Vectors]:
    """Read all tiles, compressed by ``compression`` and enlarged back."""
    score, vectors = ReadingScore(), Vectors()
    for position, tile_id in enumerate(store.tile_ids):
        pixels, characters = seen_at(store.image(tile_id), table.at(position), compression)
        page = patches_of(torch.from_numpy(in_whole_tokens(pixels).copy())[None])[0]
        reading = model.read(model.page_states([page])[0])
        score += score_page(decode(reading), characters)
        owners, crops = crop_of_cells(model, *page.shape[:2])
        _add_tile(vectors, bindings, partial(_of_reading, reading), owners.flatten(), crops, position)
        if position % EVERY == EVERY - 1:
            print(f"compression {compression:g}: {position + 1} of {len(store)} tiles read", file=sys.stderr)
    return score, vectors


@torch.no_grad()
def perfect_vectors(model: NanoModel, bindings: dict[int, Binding], store: TileStore, table: CharacterTable) -> Vectors:
    """The same vectors of what stands on the tiles: the ceiling. Also ``text/D``, of the tiles' DOM text as a whole."""
    vectors = Vectors()
    for position, tile_id in enumerate(store.tile_ids):
        characters = table.at(position)
        trigrams, places = (torch.from_numpy(part.astype(np.int64)) for part in true_trigrams(characters))
        width, height = store.size_px(tile_id)
        rows, columns = (FACTOR_PX * math.ceil(side / FACTOR_PX) // PATCH_PX for side in (height, width))
        cells, crops = crop_of_cells(model, rows, columns)
        x, y = torch.from_numpy(characters.centres_px[places.numpy()].copy()).T.long()
        owners = cells[(y // PATCH_PX).clamp(0, rows - 1), (x // CELL_PX).clamp(0, columns * CELLS - 1)]
        _add_tile(vectors, bindings, partial(_of_trigrams, trigrams), owners, crops, position)
        text = torch.from_numpy(trigrams_of(store.light(tile_id).text))
        for dimension, binding in bindings.items():
            vectors.add(f"text/{dimension}", _of_trigrams(text, binding, torch.zeros_like(text), 1))
    return vectors


def _of_reading(reading: Reading, binding: Binding, owners: Tensor, count: int) -> Tensor:
    """[count, D] of what the cells of a page are read as."""
    characters, before, after = (part.flatten(0, 2) for part in (reading.characters, reading.before, reading.after))
    height, width = reading.starts.shape[:2]
    return binding.of_cells(characters, before, after, owners, count, places=page_places([(height, width * CELLS)]))


def _of_trigrams(trigrams: Tensor, binding: Binding, owners: Tensor, count: int) -> Tensor:
    """[count, D] of what stands on a page."""
    return binding.of_texts(trigrams, owners, count)


def _add_tile(
    vectors: Vectors,
    bindings: dict[int, Binding],
    bind: Callable[[Binding, Tensor, int], Tensor],
    owners: Tensor,
    crops: int,
    position: int,
) -> None:
    for dimension, binding in bindings.items():
        vectors.add(f"tile/{dimension}", bind(binding, torch.zeros_like(owners), 1))
        vectors.add(f"crops/{dimension}", bind(binding, owners, crops))
    vectors.owners.append(torch.full((crops,), position))


@torch.no_grad()
def query_vectors(binding: Binding, texts: Sequence[str]) -> Tensor:
    """[Q, D] of unit length, as ``encode_queries`` makes them."""
    parts = []
    for start in range(0, len(texts), TEXTS_AT_ONCE):
        trigrams = [torch.from_numpy(trigrams_of(text)) for text in texts[start : start + TEXTS_AT_ONCE]]
        owners = torch.repeat_interleave(torch.tensor([len(part) for part in trigrams]))
        parts.append(binding.of_queries(torch.cat(trigrams), owners, len(trigrams)))
    return F.normalize(torch.cat(parts), dim=-1)


def save_reading(path: Path, score: ReadingScore, vectors: Vectors) -> None:
    """Keep what reading took minutes for; ``path`` is there when it is whole."""
    arrays = {name: vectors.of(name).numpy() for name in vectors.found}
    arrays["owners"] = torch.cat(vectors.owners).numpy()
    arrays["score"] = np.array(dataclasses.astuple(score))
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
    temporary.replace(path)


def load_reading(path: Path) -> tuple[ReadingScore, Vectors]:
    """What ``save_reading`` kept."""
    with np.load(path) as arrays:
        parts = {name: torch.from_numpy(arrays[name]) for name in arrays.files}
    score, owners = parts.pop("score"), parts.pop("owners")
    return ReadingScore(*score.tolist()), Vectors({name: [part] for name, part in parts.items()}, [owners])
