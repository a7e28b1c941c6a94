"""What a step needs besides the model: tokenised queries, patchified tiles, labels."""

import threading
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate
from typing import Literal

import torch
from torch import Tensor
from torch.nn import functional as F

from tilewright.configs.errors import InputError
from tilewright.data_gen.tile_store import TileStore
from tilewright.train.batch import Batch, Batcher
from tilewright.train.batch_plan import encoded_once, labels, same_words, share_of
from tilewright.train.text_plan import Plan, PlannedTexts

_DIGESTS_KEPT = 65_536
_TILES_AT_ONCE = 4  # a piece of work: the first step's tiles are to be spread over all workers


@dataclass(frozen=True)
class StepInputs:
    """One rank's part of a step: its queries and tiles as model inputs (None for an empty share), global labels.

    ``positive`` [Q] and ``ignore`` [Q, P] speak of the global batch of ``examples`` = Q queries; ``query_counts`` and
    ``tile_counts`` say how many rows each rank has. In a text step ``tiles`` are passages; ``with_images`` is the same
    on every rank. ``visual_tokens`` are this rank's.
    """

    step: int
    examples: int
    queries: Batch | None
    tiles: Batch | None
    query_counts: list[int]
    tile_counts: list[int]
    positive: Tensor
    ignore: Tensor
    with_images: bool
    visual_tokens: int


@dataclass(frozen=True)
class Piece:
    """What is made at once: a batch of query texts, or of passages; or tiles by id, a batch each."""

    kind: Literal["queries", "documents", "tiles"]
    items: tuple[str, ...]


class TileInputs:
    """Tiles of a store and texts as model inputs; tiles made first are kept, up to ``cache_bytes`` of patches.

    It pickles, without what it keeps.
    """

    def __init__(self, batcher: Batcher, store: TileStore, cache_bytes: int = 0) -> None:
        self.batcher, self.store, self.cache_bytes = batcher, store, cache_bytes
        self._kept: dict[str, Batch] = {}
        self._kept_bytes = 0
        self._keeping = threading.Lock()
        self._digest = lru_cache(_DIGESTS_KEPT)(store.image_digest)

    def __reduce__(self) -> tuple[type["TileInputs"], tuple[Batcher, TileStore]]:
        return TileInputs, (self.batcher, self.store)

    def batch(self, tile_ids: Sequence[str]) -> Batch:
        """The tiles as one batch, in the order given. Raises InputError for an unknown id or a broken image."""
        return stack([self.one(tile_id) for tile_id in tile_ids])

    def digests(self, tile_ids: Sequence[str]) -> dict[str, str]:
        """{tile id: digest of its pixels}: equal pictures have equal digests."""
        return {tile_id: self._digest(tile_id) for tile_id in tile_ids}

    def one(self, tile_id: str) -> Batch:
        """One tile as a batch of its own; errors as ``batch``."""
        return self.kept(tile_id) or self.keep(tile_id, self.make(Piece("tiles", (tile_id,)))[0])

    def make(self, piece: Piece) -> list[Batch]:
        """The batches of a piece, made anew; errors as ``batch``, and InputError for an empty text."""
        if piece.kind == "queries":
            return [self.batcher.queries(piece.items)]
        if piece.kind == "documents":
            return [self.batcher.documents(piece.items)]
        return [self._tile(tile_id) for tile_id in piece.items]

    def _tile(self, tile_id: str) -> Batch:
        image = self.store.image(tile_id)
        try:
            return self.batcher.tiles([image])
        except InputError as error:  # of a picture that knows no name
            raise InputError(f"{self.store.folder}: tile {tile_id}: {error}") from error

    def kept(self, tile_id: str) -> Batch | None:
        """The tile's batch if it was kept."""
        return self._kept.get(tile_id)

    def keep(self, tile_id: str, batch: Batch) -> Batch:
        """``batch``, which is now kept if there's room."""
        size = batch.patches.nbytes if batch.patches is not None else 0
        with self._keeping:
            if tile_id not in self._kept and self._kept_bytes + size <= self.cache_bytes:
                self._kept[tile_id] = batch
                self._kept_bytes += size
        return batch


def stack(batches: Sequence[Batch], *, pin: bool = False) -> Batch:
    """Right-padded batches as one, rows in order; ``pin``: in page-locked memory, from where a GPU copies fast."""
    length = max(batch.input_ids.shape[-1] for batch in batches)

    def padded(tensor: Tensor) -> Tensor:
        return F.pad(tensor, (0, length - tensor.shape[-1]))

    def joined(tensors: Sequence[Tensor], dim: int = 0) -> Tensor:
        shape = list(tensors[0].shape)
        shape[dim] = sum(tensor.shape[dim] for tensor in tensors)
        out = torch.empty(shape, dtype=tensors[0].dtype, pin_memory=pin)
        return torch.cat(list(tensors), dim, out=out)

    starts = [0, *accumulate(map(len, batches))]
    patches = [batch.patches for batch in batches if batch.patches is not None]
    grids = [batch.grids for batch in batches if batch.grids is not None]
    return Batch(
        input_ids=joined([padded(batch.input_ids) for batch in batches]),
        attention_mask=joined([padded(batch.attention_mask) for batch in batches]),
        position_ids=joined([padded(batch.position_ids) for batch in batches], 1),
        pooled=joined([batch.pooled for batch in batches]),
        patches=joined(patches) if patches else None,
        grids=joined(grids) if grids else None,
        image_rows=tuple(
            start + row for start, batch in zip(starts, batches, strict=False) for row in batch.image_rows
        ),
        left_padded=False,
    )


@dataclass(frozen=True)
class StepTask:
    """A step before anything is made of it: texts and tile ids of the global batch, and its labels."""

    step: int
    queries: tuple[str, ...]
    candidates: tuple[str, ...]
    with_images: bool
    positive: Tensor
    ignore: Tensor


class StepInputMaker:
    """Step number -> StepInputs of this rank; in three parts, so that the middle one can be done elsewhere.

    ``task`` looks up what the step is made of, ``pieces`` are to be made by ``tiles.make`` in any order and place,
    ``inputs`` puts them together. Tiles with the same picture are encoded once.
    """

    def __init__(self, plan: Plan, tiles: TileInputs, rank: int, world: int) -> None:
        self.plan, self.tiles, self.rank, self.world = plan, tiles, rank, world

    def __call__(self, step: int) -> StepInputs:
        task = self.task(step)
        pieces = self.pieces(task)
        return self.inputs(task, pieces, [self.tiles.make(piece) for piece in pieces])

    def task(self, step: int) -> StepTask:
        """What the step is made of. Raises InputError for a tile that the store lacks."""
        planned = self.plan.batch(step)
        if isinstance(planned, PlannedTexts):
            queries = tuple(pair.query for pair in planned.pairs)
            passages = tuple(pair.passage for pair in planned.pairs)
            return StepTask(step, queries, passages, False, torch.arange(len(queries)), same_words(queries))
        known = {tile_id for example in planned.examples for tile_id in example.known_positive_tile_ids}
        present = [tile_id for tile_id in sorted(known.difference(planned.tile_ids)) if tile_id in self.tiles.store]
        planned = encoded_once(planned, self.tiles.digests([*planned.tile_ids, *present]))
        queries = tuple(example.query for example in planned.examples)
        return StepTask(step, queries, planned.tile_ids, True, *labels(planned))

    def pieces(self, task: StepTask) -> list[Piece]:
        """What is to be made for this rank, a few tiles at once; tiles that are kept aren't among it."""
        pieces = []
        queries, candidates = self._own(task.queries), self._own(task.candidates)
        if queries:
            pieces.append(Piece("queries", tuple(queries)))
        if candidates and not task.with_images:
            return [*pieces, Piece("documents", tuple(candidates))]
        new = [tile_id for tile_id in candidates if self.tiles.kept(tile_id) is None]
        starts = range(0, len(new), _TILES_AT_ONCE)
        return pieces + [Piece("tiles", tuple(new[start : start + _TILES_AT_ONCE])) for start in starts]

    def inputs(
        self, task: StepTask, pieces: Sequence[Piece], made: Sequence[list[Batch]], *, pin: bool = False
    ) -> StepInputs:
        """The step's inputs from its pieces and what was made of each; ``pin`` as ``stack``."""
        sides: dict[str, Batch] = {}
        tiles: dict[str, Batch] = {}
        for piece, batches in zip(pieces, made, strict=True):
            if piece.kind == "tiles":
                tiles |= {name: self.tiles.keep(name, one) for name, one in zip(piece.items, batches, strict=True)}
            else:
                sides[piece.kind] = stack(batches, pin=pin)
        if task.with_images and (own := self._own(task.candidates)):
            sides["tiles"] = stack([tiles.get(name) or self.tiles.one(name) for name in own], pin=pin)
        candidates = sides.get("tiles" if task.with_images else "documents")
        return StepInputs(
            step=task.step,
            examples=len(task.queries),
            queries=sides.get("queries"),
            tiles=candidates,
            query_counts=self._counts(task.queries),
            tile_counts=self._counts(task.candidates),
            positive=task.positive,
            ignore=task.ignore,
            with_images=task.with_images,
            visual_tokens=self._visual_tokens(candidates),
        )

    def _own(self, items: Sequence[str]) -> Sequence[str]:
        return share_of(items, self.rank, self.world)

    def _counts(self, items: Sequence[str]) -> list[int]:
        return [len(share_of(items, rank, self.world)) for rank in range(self.world)]

    def _visual_tokens(self, batch: Batch | None) -> int:
        if batch is None or batch.grids is None:
            return 0
        return int(batch.grids.prod(1).sum()) // self.tiles.batcher.contract.pixels.merge_size**2
