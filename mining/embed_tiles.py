"""Stage: a checkpoint and tiles to vectors, on one process, several ranks, or the machines of a Ray cluster.

    tilewright embed_tiles CONFIG.yaml
    torchrun --nproc_per_node=8 -m tilewright.mining.embed_tiles CONFIG.yaml    # or accelerate launch -m
    tilewright embed_tiles CONFIG.yaml shard=0/4 out=PART_0     # machines without a common folder; then merge_vectors
    RAY_ADDRESS=HOST:6379 tilewright embed_tiles CONFIG.yaml engine=ray ray.actors=16    # see embed_ray

All give the same bytes on machines of one kind (same torch, same number of threads): batches are decided for the whole
store. The output is a ``vector_store`` folder; beside it nothing is kept, no pixels either.
"""

import dataclasses
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from tilewright.configs.bounds import check_bounds
from tilewright.configs.errors import InputError
from tilewright.configs.items import JOURNAL
from tilewright.configs.journal import Journal
from tilewright.configs.progress import Progress
from tilewright.configs.stage import Counts, Inputs, Stage, execution, input_path, log_path, main, rank_and_world
from tilewright.data_gen.parts import part_of
from tilewright.data_gen.tile_store import TileStore
from tilewright.mining.embed_blocks import BlockFiles, embed_blocks
from tilewright.mining.embed_plan import Plan, make_plan, usable
from tilewright.mining.embed_ray import ActorTask, RaySettings, embed_on_ray
from tilewright.mining.index_arrays import Array
from tilewright.mining.vector_store import VectorShard, VectorStore
from tilewright.mining.vector_writer import SHARD_BYTES, VectorWriter
from tilewright.train.distributed import choose_device
from tilewright.train.encoder import Encoder, load_encoder
from tilewright.train.encoder_io import write_encoder_file

_ROWS_AT_ONCE = 1024


@dataclass(frozen=True)
class Config:
    """Vectors of all tiles. ``dtype`` is what they are stored as; ``model_dtype`` what the model computes in.

    ``reuse``: folders of earlier vectors. Of a picture that one of them knows, by the same encoder in the same
    ``model_dtype``, the vector is taken over (first folder first); so after tiles were added, only those are embedded.
    Pictures are embedded in batches of at most ``batch_tokens`` visual tokens, by size within windows of
    ``window_blocks`` blocks of ``block_tiles``; a kill costs the block at work. ``workers`` threads decode and resize
    ahead of the model. ``device``: auto takes the accelerator if there is one. ``shard``: "i/n" does one of n parts.
    ``shard_bytes`` bounds a file of vectors. ``engine``: ray spreads the blocks over ``ray.actors``.
    """

    out: Path
    checkpoint: Path = input_path()
    tiles: Path = input_path()
    reuse: tuple[Path, ...] = input_path(default=())
    dtype: Literal["float32", "float16"] = "float32"
    model_dtype: Literal["float32", "bfloat16", "float16"] = "float32"
    block_tiles: int = 64
    window_blocks: int = 16
    batch_tokens: int = 4096
    shard: str | None = None
    shard_bytes: int = SHARD_BYTES
    workers: int = execution(default=2)
    device: str = "auto"
    engine: Literal["local", "ray"] = execution(default="local")
    ray: RaySettings = execution(default=RaySettings())

    def __post_init__(self) -> None:
        check_bounds(self, 1, None, "block_tiles", "window_blocks", "batch_tokens", "shard_bytes", "workers")
        part_of(self.shard)


def embed_tiles(config: Config, inputs: Inputs, out: Path) -> Counts:
    """The stage, on every rank."""
    return write_vectors(config, inputs, out, *rank_and_world())


def write_vectors(config: Config, inputs: Inputs, out: Path, rank: int = 0, world: int = 1) -> Counts:
    """Write a store of vectors and ``encoder.json`` into ``out``, which all ranks see; return counts (of rank 0).

    Raises InputError for a store without tiles, a tile whose image is broken or left out, and vectors that aren't
    finite; the message names the tile.
    """
    if config.engine == "ray" and world > 1:
        raise InputError(f"engine ray: wanted one process (Ray starts its own), found {world} ranks")
    device = choose_device("cpu" if config.engine == "ray" else config.device)
    encoder = load_encoder(inputs["checkpoint"], device=device, dtype=getattr(torch, config.model_dtype))
    work = _Work(config, inputs, out, encoder, rank, world)
    if rank:
        work.embed(None)
        return {}
    with Journal(out / JOURNAL) as journal:
        work.embed(journal)
        work.assemble(journal)
    write_encoder_file(out, encoder.contract, encoder.weights_digest)
    return work.counts()


class _Work:
    """One run of the stage on one rank."""

    def __init__(self, config: Config, inputs: Inputs, out: Path, encoder: Encoder, rank: int, world: int) -> None:
        self.config, self.inputs, self.out, self.encoder, self.rank = config, inputs, out, encoder, rank
        self.store, self.part = TileStore.open(inputs["tiles"]), part_of(config.shard)
        self.reuse = usable(config.reuse, encoder.hash, encoder.dimension, config.dtype, config.model_dtype)
        self.plan: Plan = make_plan(
            self.store,
            encoder.tokens,
            self.reuse,
            block_tiles=config.block_tiles,
            window_blocks=config.window_blocks,
        )
        self.rows = self.plan.rows(self.part)
        self.own = self.plan.blocks(self.part, rank, world)
        self.files = BlockFiles(out, rank)

    def embed(self, journal: Journal | None) -> None:
        """Embed this rank's blocks that aren't finished; rank 0 then waits for the others.

        A block's own file says that it is finished; rank 0 notes its own in ``journal`` too, for `tilewright status`.
        """
        todo = self.files.missing(self.own)
        embedded = self._on_ray(todo) if self.config.engine == "ray" else self._here(todo)
        with Progress("embed_tiles", len(self.own), log_path(self.out), quiet=self.rank != 0) as progress:
            progress.advance(len(self.own) - len(todo))
            for number, vectors in embedded if todo else ():
                self.files.write(number, vectors.astype(self.config.dtype))
                progress.advance(1)
                if journal is not None and f"block {number}" not in journal:
                    journal.append(f"block {number}", None)
        if self.rank == 0:
            self.files.wait_for(self.plan.blocks(self.part))

    def _here(self, todo: list[int]) -> Iterator[tuple[int, Array]]:
        blocks = (self.plan.block(self.store, number) for number in todo)
        options = {"batch_tokens": self.config.batch_tokens, "workers": self.config.workers}
        for block, vectors in embed_blocks(self.encoder, self.store, blocks, **options):
            yield block.number, vectors

    def _on_ray(self, todo: list[int]) -> Iterator[tuple[int, Array]]:
        config = self.config
        task = ActorTask(
            self.inputs["checkpoint"].resolve(),
            self.inputs["tiles"].resolve(),
            config.device,
            config.model_dtype,
            config.batch_tokens,
            config.workers,
        )
        blocks = (self.plan.block(self.store, number) for number in todo)
        yield from embed_on_ray(blocks, task, config.ray, self.encoder.dimension)

    def assemble(self, journal: Journal) -> None:
        """Put the vectors into the order of tiles, file by file; blocks that nothing needs any more are deleted."""
        config = self.config
        writer = VectorWriter(
            self.out,
            tiles=len(self.rows),
            dimension=self.encoder.dimension,
            dtype=config.dtype,
            encoder_hash=self.encoder.hash,
            model_dtype=config.model_dtype,
            shard_bytes=config.shard_bytes,
        )
        last_use = self._last_use()
        shards = []
        for number, span in enumerate(writer.ranges()):
            key = f"vectors {number}"
            if key not in journal:
                rows = self.rows[span.start : span.stop]
                ids = [self.store.tile_ids[row] for row in rows.tolist()]
                hashes = [self.store.image_digest(tile_id) for tile_id in ids]
                shard = writer.write_shard(number, ids, hashes, self._vectors(rows))
                journal.append(key, dataclasses.asdict(shard))
                self.files.delete(np.flatnonzero((last_use >= span.start) & (last_use < span.stop)).tolist())
            shards.append(VectorShard(**journal[key]))
        writer.finish(shards)

    def _last_use(self) -> Array:
        """For every block the last place in ``rows`` that needs it, -1 if none does."""
        place = self.plan.source[self.plan.picture[self.rows]]
        needed = np.flatnonzero(place >= 0)
        last = np.full(-(-len(self.plan.queue) // self.config.block_tiles), -1)
        np.maximum.at(last, place[needed] // self.config.block_tiles, needed)
        return last

    def _vectors(self, rows: Array) -> Iterator[Array]:
        """Vectors of the tiles at ``rows``, in pieces."""
        for start in range(0, len(rows), _ROWS_AT_ONCE):
            source = self.plan.source[self.plan.picture[rows[start : start + _ROWS_AT_ONCE]]]
            found = np.empty((len(source), self.encoder.dimension), np.float32)
            at_hand = source < 0
            found[at_hand] = _rows_of(self.reuse, -1 - source[at_hand], self.encoder.dimension)
            blocks = np.where(at_hand, -1, source // self.config.block_tiles)
            for number in np.unique(blocks[~at_hand]).tolist():
                of_block = blocks == number
                found[of_block] = self.files.read(number)[source[of_block] % self.config.block_tiles]
            if not np.isfinite(found).all():  # embedded ones were looked at: one that was taken over
                bad = int(rows[start + np.flatnonzero(~np.isfinite(found).all(1))[0]])
                raise InputError(f"reuse: the vector of tile {self.store.tile_ids[bad]} has NaN or infinity")
            yield found

    def counts(self) -> Counts:
        """Counts of this part; ``encoder`` and its model."""
        contract = self.encoder.contract
        return self.plan.counts(self.rows) | {
            "dimension": self.encoder.dimension,
            "encoder": self.encoder.hash,
            "model": contract.base_model,
            "max_pixels": contract.pixels.max_pixels,
        }


def _rows_of(stores: Sequence[VectorStore], numbers: Array, dimension: int) -> Array:
    """Vectors [n, D] float32 of rows that are numbered through all of ``stores``."""
    found, low = np.empty((len(numbers), dimension), np.float32), 0
    for store in stores:
        own = (numbers >= low) & (numbers < low + len(store))
        found[own] = store.rows(numbers[own] - low)
        low += len(store)
    return found


STAGE = Stage("embed_tiles", Config, embed_tiles, schema=2, distributed=True)

if __name__ == "__main__":
    main(STAGE)
