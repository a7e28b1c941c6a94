"""Stage: a checkpoint and tiles to vectors, in blocks that survive a kill; decoding overlaps the model."""

import hashlib
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeVar

import numpy as np
import torch
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.configs.items import process_items
from tilewright.configs.stage import Counts, Inputs, Stage, StageError, execution, input_path, main
from tilewright.data_gen.tile_store import TileStore
from tilewright.mining.vector_writer import write_vector_store
from tilewright.train.distributed import choose_device
from tilewright.train.encoder import Batch, Encoder, evaluating, load_encoder, token_batches
from tilewright.train.encoder_io import write_encoder_file

BLOCKS = ".blocks"
T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Config:
    """Vectors of all tiles. ``dtype`` is what they are stored as; ``model_dtype`` what the model computes in.

    ``block_tiles`` are embedded between two journal entries, in batches of at most ``batch_tokens`` visual tokens;
    ``workers`` threads decode and resize ahead of the model. ``device``: auto takes the accelerator if there is one.
    """

    out: Path
    checkpoint: Path = input_path()
    tiles: Path = input_path()
    dtype: Literal["float32", "float16"] = "float32"
    model_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    block_tiles: int = 64
    batch_tokens: int = 4096
    workers: int = execution(default=2)
    device: str = "auto"

    def __post_init__(self) -> None:
        for name in ("block_tiles", "batch_tokens", "workers"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}: wanted at least 1, found {getattr(self, name)}")


@dataclass(frozen=True)
class Block:
    """Consecutive tiles of the store with their sizes in visual tokens; the same for every run on the same store."""

    key: str
    tile_ids: tuple[str, ...]
    tokens: tuple[int, ...]


def write_vectors(config: Config, inputs: Inputs, out: Path) -> Counts:
    """Write a store of vectors and ``encoder.json``; return counts of tiles and tokens."""
    device, dtype = choose_device(config.device), getattr(torch, config.model_dtype)
    encoder = load_encoder(inputs["checkpoint"], device=device, dtype=dtype)
    store = TileStore.open(inputs["tiles"])
    blocks = _blocks(encoder, store, store.tile_ids, config.block_tiles)
    folder = out / BLOCKS
    folder.mkdir(exist_ok=True)

    def work(todo: Sequence[Block]) -> Iterator[tuple[Block, str]]:
        for block, vectors in _embedded(encoder, store, todo, config.batch_tokens, config.workers):
            yield block, _write_block(folder / f"{block.key}.npy", vectors.numpy().astype(config.dtype))

    digests = process_items("embed_tiles", blocks, lambda block: block.key, work, out)
    vectors = np.concatenate([_read_block(folder / f"{block.key}.npy", digests[block.key]) for block in blocks])
    hashes = [store.image_digest(tile_id) for tile_id in store.tile_ids]
    write_vector_store(out, list(store.tile_ids), hashes, vectors, encoder_hash=encoder.hash, dtype=config.dtype)
    write_encoder_file(out, encoder.contract, encoder.weights_digest)
    return {
        "tiles": len(store),
        "dimension": encoder.dimension,
        "visual_tokens": sum(sum(block.tokens) for block in blocks),
        "encoder": encoder.hash,
        "model": encoder.contract.base_model,
        "max_pixels": encoder.contract.pixels.max_pixels,
    }


def embed_tiles(
    encoder: Encoder,
    store: TileStore,
    tile_ids: Sequence[str] | None = None,
    *,
    batch_tokens: int = 4096,
    block_tiles: int = 64,
    workers: int = 2,
) -> Tensor:
    """Vectors [P, D] float32 of ``tile_ids`` (all of the store's without), in their order; same numbers as the stage.

    Raises InputError for an empty choice, an unknown tile, a broken image or a vector that isn't finite.
    """
    wanted = store.tile_ids if tile_ids is None else tile_ids
    blocks = _blocks(encoder, store, wanted, block_tiles)
    return torch.cat([vectors for _, vectors in _embedded(encoder, store, blocks, batch_tokens, workers)])


def _blocks(encoder: Encoder, store: TileStore, tile_ids: Sequence[str], block_tiles: int) -> list[Block]:
    if not len(tile_ids):
        raise InputError(f"{store.folder}: no tiles to embed: render pages first")
    blocks = []
    for start in range(0, len(tile_ids), block_tiles):
        chosen = tuple(tile_ids[start : start + block_tiles])
        tokens = tuple(encoder.tokens(*store.size_px(tile_id)) for tile_id in chosen)
        blocks.append(Block(f"{start // block_tiles:08d}", chosen, tokens))
    return blocks


def _embedded(
    encoder: Encoder, store: TileStore, blocks: Sequence[Block], batch_tokens: int, workers: int
) -> Iterator[tuple[Block, Tensor]]:
    """(block, its vectors [tiles, D]) in order, while ``workers`` threads prepare the batches that come next."""

    def prepare(piece: tuple[Block, list[int]]) -> Batch:
        block, rows = piece
        return encoder.tile_batch([store.image(block.tile_ids[row]) for row in rows])

    pieces = [(block, rows) for block in blocks for rows in token_batches(block.tokens, batch_tokens)]
    vectors: dict[str, Tensor] = {}
    missing = {block.key: len(block.tile_ids) for block in blocks}
    for (block, rows), batch in prefetch(pieces, prepare, workers):
        target = vectors.setdefault(block.key, torch.zeros(len(block.tile_ids), encoder.dimension))
        with evaluating(encoder.model):  # not around a yield: the caller would run without gradients too
            target[rows] = encoder.forward(batch).cpu()
        missing[block.key] -= len(rows)
        if not missing[block.key]:
            yield block, _finite(vectors.pop(block.key), block)


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


def _write_block(path: Path, vectors: Any) -> str:
    """Write atomically, before the journal says so; return the file's SHA-256."""
    temporary = path.with_suffix(".tmp")
    with temporary.open("wb") as file:
        np.save(file, vectors)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _read_block(path: Path, digest: str) -> Any:
    if not path.is_file() or hashlib.sha256(path.read_bytes()).hexdigest() != digest:
        raise StageError(f"{path}: a finished block is gone or damaged: delete {path.parent.parent} and run again")
    return np.load(path, allow_pickle=False)


STAGE = Stage("embed_tiles", Config, write_vectors, schema=2)

if __name__ == "__main__":
    main(STAGE)
