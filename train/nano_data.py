"""Windows of rendered pages with what stands in each of their cells, to teach nano reading.

A group of tiles is decoded at once, each gives windows at random pixel offsets, these are shuffled into batches. Which
windows a step sees is a function of seed and step alone, so a resumed run needs no memory of the past.
"""

import dataclasses
import math
import random
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.data_gen.characters import Characters, CharacterTable
from tilewright.data_gen.images import to_rgb
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.compress import compress
from tilewright.train.nano import CELLS, MEAN, PATCH_PX, STD
from tilewright.train.nano_characters import BLANK, class_of

CELL_PX = PATCH_PX // CELLS
IGNORED = -100
TILES_AT_ONCE = 32
WINDOWS_PER_TILE = 8
_TRIES = 4
_FEW = 20  # characters: a window with fewer is drawn again


@dataclass(frozen=True)
class Labels:
    """What stands in each cell, int64 [..., rows, columns, CELLS]: its character's class (BLANK for none), those of
    the characters before and after in its word (BLANK at its ends, IGNORED in blank cells), whether it's the first."""

    characters: np.ndarray
    before: np.ndarray
    after: np.ndarray
    starts: np.ndarray


@dataclass(frozen=True)
class WindowBatch:
    """uint8 ``pixels`` [W, height, width, 3] and labels [W, rows, columns, CELLS] as tensors."""

    pixels: Tensor
    characters: Tensor
    before: Tensor
    after: Tensor
    starts: Tensor


def label_cells(characters: Characters, left_px: float, top_px: float, rows: int, columns: int) -> Labels:
    """Labels of ``rows`` x ``columns`` patches whose corner lies at (left, top) of the tile.

    A character belongs to the cell that its centre lies in; of several in one cell the first is kept.
    """
    classes, before, after = _named(characters)
    x = np.floor((characters.centres_px[:, 0] - left_px) / CELL_PX).astype(np.int64)
    y = np.floor((characters.centres_px[:, 1] - top_px) / PATCH_PX).astype(np.int64)
    inside = (x >= 0) & (x < columns * CELLS) & (y >= 0) & (y < rows) & (classes != BLANK)
    kept = np.flatnonzero(inside)[::-1]  # of two in a cell the first is written last
    shape = (rows, columns * CELLS)
    labels = [np.full(shape, fill, dtype=np.int64) for fill in (BLANK, IGNORED, IGNORED, IGNORED)]
    for label, values in zip(labels, (classes, before, after, characters.starts.astype(np.int64)), strict=True):
        label[y[kept], x[kept]] = values[kept]
    return Labels(*(label.reshape(rows, columns, CELLS) for label in labels))


@lru_cache(maxsize=2)
def _named(characters: Characters) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """int64 [N] each: the class of each character, those before and after it; kept for a tile's other windows."""
    classes = np.array([class_of(int(code)) for code in characters.codes], dtype=np.int64)
    first = characters.firsts
    last = np.append(first[1:], True) if len(first) else first
    return classes, np.where(first, BLANK, np.roll(classes, 1)), np.where(last, BLANK, np.roll(classes, -1))


def shown_at(image: Image.Image, compression: float) -> np.ndarray:
    """uint8 [height, width, 3]: the picture after compression by ``compression`` and enlargement back, as nano sees it.

    Its size may differ from the original's by the rounding of the compressed sides.
    """
    rgb = to_rgb(image)
    small = compress(rgb, compression)
    if small.size != rgb.size:
        small = enlarged(small, math.sqrt(compression))
    return np.asarray(small)


def seen_at(image: Image.Image, characters: Characters, compression: float) -> tuple[np.ndarray, Characters]:
    """``shown_at`` of a tile's picture, and its characters where they stand there."""
    pixels = shown_at(image, compression)
    scale = np.array([pixels.shape[1] / image.width, pixels.shape[0] / image.height], dtype=np.float32)
    return pixels, dataclasses.replace(characters, centres_px=characters.centres_px * scale)


def enlarged(image: Image.Image, factor: float) -> Image.Image:
    """``image`` with both sides times ``factor`` (bicubic), rounded."""
    size = (max(1, round(image.width * factor)), max(1, round(image.height * factor)))
    return image if size == image.size else image.resize(size, Image.Resampling.BICUBIC)


def padded(pixels: np.ndarray, height: int, width: int) -> np.ndarray:
    """``pixels`` [h, w, 3] as at least ``height`` x ``width``, the last row and column repeated."""
    missing = (max(0, height - pixels.shape[0]), max(0, width - pixels.shape[1]))
    return np.pad(pixels, ((0, missing[0]), (0, missing[1]), (0, 0)), mode="edge") if any(missing) else pixels


@dataclass(frozen=True)
class WindowSettings:
    """Batches of ``batch_windows`` windows, at most ``rows`` x ``columns`` patches; ``compressions``: drawn evenly."""

    batch_windows: int
    rows: int
    columns: int
    compressions: tuple[float, ...]
    seed: int


class WindowStream:
    """Step -> batch, for one of ``world`` ranks; groups are made ahead in a thread.

    ``wait_s``: seconds waited for them so far.
    """

    def __init__(
        self, store: TileStore, table: CharacterTable, settings: WindowSettings, rank: int, world: int
    ) -> None:
        self._store, self._table, self._settings = store, table, settings
        self._rank, self._world = rank, world
        self._tiles_at_once = min(TILES_AT_ONCE, len(store) // world)
        self.steps_per_group = self._tiles_at_once * WINDOWS_PER_TILE * world // settings.batch_windows
        if not self.steps_per_group:
            wanted = -(-settings.batch_windows // WINDOWS_PER_TILE)
            raise InputError(f"{store.folder}: wanted at least {max(world, wanted)} tiles, found {len(store)}")
        self._pool = ThreadPoolExecutor(1)
        self.wait_s = 0.0

    def batches(self, start: int, stop: int) -> Iterator[WindowBatch]:
        """Those of steps ``start`` to ``stop`` (exclusive)."""
        groups = range(start // self.steps_per_group, -(-stop // self.steps_per_group))
        waiting: Future[list[WindowBatch]] | None = None
        for group in groups:
            made = self._pool.submit(self.group, group) if waiting is None else waiting
            started = time.perf_counter()
            current = made.result()
            self.wait_s += time.perf_counter() - started
            waiting = self._pool.submit(self.group, group + 1) if group + 1 < groups.stop else None
            first = group * self.steps_per_group
            yield from current[max(0, start - first) : stop - first]

    def close(self) -> None:
        """End the thread."""
        self._pool.shutdown(wait=True, cancel_futures=True)

    def group(self, number: int) -> list[WindowBatch]:
        """The batches of a group, this rank's part of each."""
        state = random.Random(f"{self._settings.seed}/{self._rank}/{number}")
        tiles = self._tiles(number)
        windows = [window for position in tiles for window in self._windows(position, state)]
        state.shuffle(windows)
        share = self._settings.batch_windows // self._world
        return [
            self._batch(windows[start : start + share], state) for start in range(0, len(windows) - share + 1, share)
        ]

    def _tiles(self, number: int) -> list[int]:
        """Positions of this rank's tiles: every epoch has an order of its own, all ranks share it."""
        count, each = len(self._store), self._tiles_at_once * self._world
        per_epoch = count // each
        epoch, place = divmod(number, per_epoch)
        order = list(range(count))
        random.Random(f"{self._settings.seed}/epoch/{epoch}").shuffle(order)
        return order[place * each : (place + 1) * each][self._rank :: self._world]

    def _windows(self, position: int, state: random.Random) -> list[tuple[np.ndarray, Labels]]:
        settings = self._settings
        tile_id = self._store.tile_ids[position]
        compression = state.choice(settings.compressions)
        pixels, characters = seen_at(self._store.image(tile_id), self._table.at(position), compression)
        height, width = settings.rows * PATCH_PX, settings.columns * PATCH_PX
        pixels = padded(pixels, height, width)
        found = []
        for _ in range(WINDOWS_PER_TILE):
            for _ in range(_TRIES):
                top = state.randint(0, pixels.shape[0] - height)
                left = state.randint(0, pixels.shape[1] - width)
                labels = label_cells(characters, left, top, settings.rows, settings.columns)
                if (labels.characters != BLANK).sum() >= _FEW:
                    break
            found.append((pixels[top : top + height, left : left + width].copy(), labels))
        return found

    def _batch(self, windows: list[tuple[np.ndarray, Labels]], state: random.Random) -> WindowBatch:
        """The windows as tensors, three batches in ten cut down to a random size, as a page's last window may be."""
        rows, columns = self._settings.rows, self._settings.columns
        if state.random() < 0.3:
            rows, columns = state.randint(2, rows), state.randint(min(10, columns), columns)
        pixels = np.stack([window for window, _ in windows])[:, : rows * PATCH_PX, : columns * PATCH_PX]
        labels = (
            np.stack([getattr(label, name) for _, label in windows])[:, :rows, :columns]
            for name in ("characters", "before", "after", "starts")
        )
        return WindowBatch(torch.from_numpy(pixels.copy()), *(torch.from_numpy(label.copy()) for label in labels))


def patches_of(pixels: Tensor) -> Tensor:
    """uint8 [W, height, width, 3] -> float [W, rows, columns, 3, 2, p, p], normalised; both frames are one view."""
    count, height, width, _ = pixels.shape
    blocks = pixels.view(count, height // PATCH_PX, PATCH_PX, width // PATCH_PX, PATCH_PX, 3).permute(0, 1, 3, 5, 2, 4)
    values = blocks.contiguous().float().mul_(1 / (255 * STD)).sub_(MEAN / STD)
    return values.unsqueeze(4).expand(-1, -1, -1, -1, 2, -1, -1)
