"""Blocks of tiles to vectors: decoding overlaps the model, and what is finished survives a kill.

A finished block is a file of its own with its digest in its name, renamed when it is whole: ranks and machines that
share a folder need no common journal, and no file has two writers.
"""

import dataclasses
import hashlib
import os
import re
import time
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.configs.stage import StageError
from tilewright.data_gen.tile_store import TileStore
from tilewright.mining.embed_plan import Block
from tilewright.mining.index_arrays import Array
from tilewright.train.encoder import Batch, Encoder, evaluating, token_batches

T = TypeVar("T")
R = TypeVar("R")
BLOCKS, EMBEDDED = ".blocks", ".embedded"
_NAME = re.compile(r"([0-9]{8,})-([0-9a-f]{64})\.npy")
_POLL_S = 0.1


def embed_blocks(
    encoder: Encoder, store: TileStore, blocks: Iterable[Block], *, batch_tokens: int, workers: int
) -> Iterator[tuple[Block, Array]]:
    """(block, its vectors [n, D] float32) in order, in batches of at most ``batch_tokens`` visual tokens.

    ``workers`` threads decode, resize and cut into patches what comes next, at most ``workers`` + 1 batches ahead.
    Raises InputError for a broken image and for a vector that isn't finite; the message names the tile.
    """
    on_gpu = encoder.device.type == "cuda"

    def prepare(piece: tuple[Block, list[int], bool]) -> Batch:
        block, rows, _ = piece
        batch = encoder.tile_batch([store.image(block.tile_ids[row]) for row in rows])
        return _pinned(batch) if on_gpu else batch

    parts: list[Tensor] = []
    order: list[int] = []
    for (block, rows, is_last), batch in prefetch(_pieces(blocks, batch_tokens), prepare, workers):
        with evaluating(encoder.model):  # not around a yield: the caller would run without gradients too
            parts.append(encoder.forward(batch))
        order += rows
        if is_last:
            vectors = torch.empty(len(order), encoder.dimension)
            vectors[order] = torch.cat(parts).cpu()  # once a block: an accelerator isn't waited for in between
            parts, order = [], []
            yield block, _finite(vectors, block).numpy()


def _pieces(blocks: Iterable[Block], batch_tokens: int) -> Iterator[tuple[Block, list[int], bool]]:
    """(block, rows of it that make a batch, whether they are its last)."""
    for block in blocks:
        batches = token_batches(block.tokens, batch_tokens)
        for number, rows in enumerate(batches, start=1):
            yield block, rows, number == len(batches)


def _pinned(batch: Batch) -> Batch:
    """The batch in pinned memory, from where a copy to a GPU runs beside its work."""
    values = {entry.name: getattr(batch, entry.name) for entry in dataclasses.fields(batch)}
    pinned: dict[str, Any] = {name: value.pin_memory() for name, value in values.items() if torch.is_tensor(value)}
    return dataclasses.replace(batch, **pinned)


def _finite(vectors: Tensor, block: Block) -> Tensor:
    bad = (~torch.isfinite(vectors).all(1)).nonzero().flatten().tolist()
    if bad:
        raise InputError(
            f"{len(bad)} tiles have vectors with NaN or infinity (first: {block.tile_ids[bad[0]]}): the checkpoint's"
            " weights are broken, or model_dtype is too narrow for them"
        )
    return vectors


def prefetch(items: Iterable[T], work: Callable[[T], R], workers: int) -> Iterator[tuple[T, R]]:
    """(item, work(item)) in order; ``workers`` threads run at most ``workers`` + 1 items ahead."""
    with ThreadPoolExecutor(max_workers=workers, thread_name_prefix="prefetch") as pool:
        waiting: deque[tuple[T, Future[R]]] = deque()
        try:
            for item in items:
                waiting.append((item, pool.submit(work, item)))
                if len(waiting) > workers:
                    first, future = waiting.popleft()
                    yield first, future.result()
            while waiting:
                first, future = waiting.popleft()
                yield first, future.result()
        finally:
            for _, future in waiting:
                future.cancel()


class BlockFiles:
    """Vectors of finished blocks in the working folder of a stage; ranks other than 0 wait for rank 0 to make it."""

    def __init__(self, out: Path, rank: int = 0) -> None:
        self._folder, self._marker = out / BLOCKS, out / EMBEDDED
        if rank == 0:
            self._folder.mkdir(exist_ok=True)
        while rank and out.is_dir() and not self._folder.is_dir():
            time.sleep(_POLL_S)
        self._names: dict[int, str] = {}

    def missing(self, numbers: Iterable[int]) -> list[int]:
        """Those of ``numbers`` that aren't finished; none of them if the stage has all it needs, or has ended."""
        found = self._list()
        return [] if found is None or self._marker.exists() else [number for number in numbers if number not in found]

    def wait_for(self, numbers: Iterable[int]) -> None:
        """Wait until all of ``numbers`` are finished, by other ranks; then ``missing`` is empty for good."""
        while self.missing(numbers):
            time.sleep(_POLL_S)
        self._marker.touch()

    def write(self, number: int, vectors: Array) -> None:
        """Keep the vectors of a block."""
        temporary = self._folder / f".{number:08d}.tmp"
        with temporary.open("wb") as file:
            np.save(file, vectors)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(self._folder / f"{number:08d}-{_digest(temporary)}.npy")

    def read(self, number: int) -> Array:
        """The vectors of a block. Raises StageError if they are gone or damaged."""
        if number not in self._names:
            self._names = self._list() or {}
        path = self._folder / self._names.get(number, f"{number:08d}-.npy")
        match = _NAME.fullmatch(path.name)
        if match is None or not path.is_file() or _digest(path) != match[2]:
            raise StageError(f"{path}: a finished block is gone or damaged: delete {self._folder.parent} and run again")
        array: Array = np.load(path, allow_pickle=False)
        return array

    def delete(self, numbers: Iterable[int]) -> None:
        """Give up blocks that aren't needed any more."""
        for number in numbers:
            (self._folder / self._names.pop(number)).unlink(missing_ok=True)

    def _list(self) -> dict[int, str] | None:
        """{number: file name} of the finished blocks; None if there's no folder any more: the stage has ended."""
        try:
            matches = [match for path in self._folder.iterdir() if (match := _NAME.fullmatch(path.name))]
        except FileNotFoundError:
            return None
        return {int(match[1]): match[0] for match in matches}


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
