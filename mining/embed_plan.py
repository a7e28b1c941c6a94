"""What embed_tiles has to do: which pictures are embedded and in which order, and where every tile's vector comes from.

A picture is embedded once, however many tiles show it, and not at all if its vector is at hand. Which pictures stand in
a block is decided for the whole store, so ranks, machines and parts that share the blocks out write the same vectors.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.data_gen.store.rows import IMAGE
from tilewright.data_gen.tile_store import TileStore
from tilewright.mining.index_arrays import Array
from tilewright.mining.vector_store import VectorStore


@dataclass(frozen=True)
class Block:
    """Tiles that are embedded between two points to resume from, by size, with their sizes in visual tokens."""

    number: int
    tile_ids: tuple[str, ...]
    tokens: tuple[int, ...]


@dataclass(frozen=True)
class Plan:
    """Tiles are named by their row in the store, pictures by the row of the first tile that shows them.

    ``tokens`` [P] visual tokens; ``picture`` [P] the picture of each tile. ``source`` [P], of a picture: its place in
    ``queue`` if it is to be embedded, else -1 - (its row in the vectors at hand). ``queue`` [N]: the pictures to embed,
    by size within each window of ``window_blocks`` blocks of ``block_tiles``. It takes 32 bytes a tile (90 while it is
    made); no picture is read for it.
    """

    tokens: Array
    picture: Array
    source: Array
    queue: Array
    block_tiles: int
    window_blocks: int

    def blocks(self, part: tuple[int, int], rank: int = 0, world: int = 1) -> list[int]:
        """Numbers of the blocks that a rank embeds of part i of n; within a window every one gets small and large."""
        numbers = range(-(-len(self.queue) // self.block_tiles))
        of_part = _dealt(numbers, self.window_blocks, *part)
        return _dealt(of_part, self.window_blocks, rank, world)

    def block(self, store: TileStore, number: int) -> Block:
        """The block of that number."""
        rows = self.queue[number * self.block_tiles : (number + 1) * self.block_tiles].tolist()
        ids = tuple(store.tile_ids[row] for row in rows)
        return Block(number, ids, tuple(self.tokens[rows].tolist()))

    def rows(self, part: tuple[int, int]) -> Array:
        """Rows of the tiles in part i of n, ascending: a picture at hand goes by its row, another with its block."""
        place = self.source[self.picture]
        block = place // self.block_tiles
        owner = np.where(place < 0, self.picture, block + block // self.window_blocks) % part[1]
        return np.flatnonzero(owner == part[0])

    def counts(self, rows: Array) -> dict[str, int]:
        """Counts of the tiles at ``rows``, a whole part or all of them."""
        first = self.picture[rows] == rows
        at_hand = first & (self.source[rows] < 0)
        return {
            "tiles": len(rows),
            "visual_tokens": int(self.tokens[rows].sum()),
            "embedded": int((first & ~at_hand).sum()),
            "reused": int(at_hand.sum()),
            "same_image": int((~first).sum()),
        }


def _dealt(numbers: Sequence[int], window: int, share: int, shares: int) -> list[int]:
    """Every ``shares``-th number, one further on in each window: within a window blocks grow."""
    return [number for place, number in enumerate(numbers) if (place + place // window) % shares == share]


def make_plan(
    store: TileStore,
    tokens: Callable[[int, int], int],
    reuse: Sequence[VectorStore],
    *,
    block_tiles: int,
    window_blocks: int,
) -> Plan:
    """Plan the tiles of ``store``; ``tokens(width_px, height_px)`` are a picture's; ``reuse`` are vectors at hand.

    Raises InputError for an empty store, an image hash that isn't 64 hex, and a picture that is to be embedded but was
    left out of the store.
    """
    if not len(store):
        raise InputError(f"{store.folder}: no tiles to embed: render pages first")
    digests, sizes, stored = _columns(store, tokens)
    order = np.argsort(digests, kind="stable")
    digests = digests[order]
    starts = np.flatnonzero(np.concatenate([[True], digests[1:] != digests[:-1]]))
    pictures = order[starts]
    picture = np.empty(len(order), np.int64)
    picture[order] = np.repeat(pictures, np.diff(starts, append=len(order)))
    source = np.zeros(len(order), np.int64)
    if reuse:
        source[pictures] = _at_hand(digests[starts], reuse)
    del digests, order, starts
    queue = np.sort(pictures[source[pictures] == 0])
    _check_stored(store, stored, queue)
    window = np.arange(len(queue)) // (block_tiles * window_blocks)
    queue = queue[np.lexsort((sizes[queue], window))]  # equal sizes stay in their order
    source[queue] = np.arange(len(queue))
    return Plan(sizes, picture, source, queue, block_tiles, window_blocks)


def usable(
    folders: Sequence[Path], encoder_hash: str, dimension: int, dtype: str, model_dtype: str
) -> list[VectorStore]:
    """The vectors in ``folders`` that may be taken over: of this encoder, computed alike, stored no coarser.

    Raises InputError for a folder without vectors, and for vectors of this encoder with another dimension.
    """
    stores = [VectorStore.open(folder) for folder in folders]
    fine = ("float32",) if dtype == "float32" else ("float32", "float16")
    same = [store for store in stores if store.encoder_hash == encoder_hash and store.model_dtype == model_dtype]
    for store in same:
        if store.dimension != dimension:
            raise InputError(f"{store.folder}: wanted vectors of {dimension} dimensions, found {store.dimension}")
    return [store for store in same if store.dtype in fine]


def _columns(store: TileStore, tokens: Callable[[int, int], int]) -> tuple[Array, Array, Array]:
    """(image hashes [P] as S32, visual tokens [P], whether the picture is there [P]); no picture is read."""
    digests, sizes = np.empty(len(store), "S32"), np.empty(len(store), np.int64)
    stored, row = np.empty(len(store), np.bool_), 0
    count = cache(tokens)
    for batch in store.slices():
        hashes = batch.column("image_sha256").to_pylist()
        part = slice(row, row + len(batch))
        digests[part] = np.frombuffer(b"".join(_digests(store, row, hashes)), "S32")
        widths, heights = (batch.column(name).to_pylist() for name in ("width_px", "height_px"))
        sizes[part] = [count(*size) for size in zip(widths, heights, strict=True)]
        stored[part] = batch.column(IMAGE).is_valid().to_numpy(zero_copy_only=False)
        row += len(batch)
    return digests, sizes, stored


def _digests(store: TileStore, row: int, hashes: Sequence[str]) -> Iterator[bytes]:
    for number, text in enumerate(hashes):
        try:
            digest = bytes.fromhex(text)
        except ValueError:
            digest = b""
        if len(digest) != 32:
            found = f"{store.folder}: tile {store.tile_ids[row + number]}: image_sha256"
            raise InputError(f"{found}: wanted 64 hex characters, found {text!r}")
        yield digest


def _at_hand(wanted: Array, reuse: Sequence[VectorStore]) -> Array:
    """For ``wanted`` digests, sorted: -1 - (row in all of ``reuse``, one after the other), 0 if it is in none."""
    found, start = np.zeros(len(wanted), np.int64), 0
    for store in reuse:
        for digests in store.image_digests():
            place = np.minimum(np.searchsorted(wanted, digests), len(wanted) - 1)
            rows = np.flatnonzero((wanted[place] == digests) & (found[place] == 0))
            found[place[rows]] = -1 - (start + rows)
            start += len(digests)
    return found


def _check_stored(store: TileStore, stored: Array, queue: Array) -> None:
    missing = queue[~stored[queue]]
    if len(missing):
        raise InputError(
            f"{store.folder}: {len(missing)} tiles that are to be embedded were stored without their image (first:"
            f" {store.tile_ids[int(missing[0])]}): render them with keep_images=true, or name vectors that were made"
            " while the images were there in `reuse`"
        )
