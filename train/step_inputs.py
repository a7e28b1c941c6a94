"""What a step needs besides the model: tokenised queries, patchified tiles, labels; made ahead in a thread."""

import time
from collections import deque
from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass

import torch
from torch import Tensor
from torch.nn import functional as F

from tilewright.data_gen.tile_store import TileStore
from tilewright.train.batch import Batch
from tilewright.train.batch_plan import BatchPlan, PlannedBatch, labels, share_of
from tilewright.train.encoder import Encoder


@dataclass(frozen=True)
class StepInputs:
    """One rank's part of a step: its queries and tiles as model inputs (None for an empty share), global labels.

    ``positive`` [Q] and ``ignore`` [Q, P] speak of the global batch; ``query_counts`` and ``tile_counts`` say how many
    rows each rank has.
    """

    planned: PlannedBatch
    queries: Batch | None
    tiles: Batch | None
    query_counts: list[int]
    tile_counts: list[int]
    positive: Tensor
    ignore: Tensor


class TileInputs:
    """Tiles of a store as model inputs; those read first are kept, up to ``cache_bytes`` of patches."""

    def __init__(self, encoder: Encoder, store: TileStore, cache_bytes: int = 0) -> None:
        self.encoder, self.store, self.cache_bytes = encoder, store, cache_bytes
        self._kept: dict[str, Batch] = {}
        self._kept_bytes = 0
        self._digests: dict[str, str] = {}

    def batch(self, tile_ids: Sequence[str]) -> Batch:
        """The tiles as one batch, in the order given. Raises InputError for an unknown id or a broken image."""
        return stack([self.one(tile_id) for tile_id in tile_ids])

    def digests(self, tile_ids: Sequence[str]) -> dict[str, str]:
        """{tile id: digest of its pixels}: equal pictures have equal digests."""
        for tile_id in tile_ids:
            if tile_id not in self._digests:
                self._digests[tile_id] = self.store.light(tile_id).image_sha256
        return {tile_id: self._digests[tile_id] for tile_id in tile_ids}

    def one(self, tile_id: str) -> Batch:
        """One tile as a batch of its own; errors as ``batch``."""
        kept = self._kept.get(tile_id)
        if kept is not None:
            return kept
        batch = self.encoder.tile_batch([self.store.image(tile_id)])
        size = batch.patches.nbytes if batch.patches is not None else 0
        if self._kept_bytes + size <= self.cache_bytes:
            self._kept[tile_id] = batch
            self._kept_bytes += size
        return batch


def stack(batches: Sequence[Batch]) -> Batch:
    """Right-padded batches as one, rows in order."""
    length = max(batch.input_ids.shape[-1] for batch in batches)

    def padded(tensor: Tensor) -> Tensor:
        return F.pad(tensor, (0, length - tensor.shape[-1]))

    starts = [sum(len(batch) for batch in batches[:index]) for index in range(len(batches))]
    patches = [batch.patches for batch in batches if batch.patches is not None]
    grids = [batch.grids for batch in batches if batch.grids is not None]
    return Batch(
        input_ids=torch.cat([padded(batch.input_ids) for batch in batches]),
        attention_mask=torch.cat([padded(batch.attention_mask) for batch in batches]),
        position_ids=torch.cat([padded(batch.position_ids) for batch in batches], dim=1),
        pooled=torch.cat([batch.pooled for batch in batches]),
        patches=torch.cat(patches) if patches else None,
        grids=torch.cat(grids) if grids else None,
        image_rows=tuple(start + row for start, batch in zip(starts, batches, strict=True) for row in batch.image_rows),
        left_padded=False,
    )


class StepInputMaker:
    """Step number -> StepInputs of this rank."""

    def __init__(self, plan: BatchPlan, tiles: TileInputs, rank: int, world: int) -> None:
        self.plan, self.tiles, self.rank, self.world = plan, tiles, rank, world

    def __call__(self, step: int) -> StepInputs:
        planned = self.plan.batch(step)
        examples = share_of(planned.examples, self.rank, self.world)
        tile_ids = share_of(planned.tile_ids, self.rank, self.world)
        positive, ignore = labels(planned, self.tiles.digests(planned.tile_ids))
        return StepInputs(
            planned,
            self.tiles.encoder.query_batch([example.query for example in examples]) if examples else None,
            self.tiles.batch(tile_ids) if tile_ids else None,
            [len(share_of(planned.examples, rank, self.world)) for rank in range(self.world)],
            [len(share_of(planned.tile_ids, rank, self.world)) for rank in range(self.world)],
            positive,
            ignore,
        )


class StepStream:
    """StepInputs of steps ``first`` to ``last`` (exclusive), made up to ``ahead`` steps early in a thread.

    ``wait_s`` is the time the consumer has waited for data so far.
    """

    def __init__(self, make: StepInputMaker, first: int, last: int, ahead: int = 2) -> None:
        self.make, self.first, self.last, self.ahead = make, first, last, ahead
        self.wait_s = 0.0

    def __iter__(self) -> Iterator[StepInputs]:
        pending: deque[Future[StepInputs]] = deque()
        upcoming = iter(range(self.first, self.last))
        with ThreadPoolExecutor(max_workers=1) as pool:
            try:
                while True:
                    for step in upcoming:
                        pending.append(pool.submit(self.make, step))
                        if len(pending) > self.ahead:
                            break
                    if not pending:
                        return
                    started = time.perf_counter()
                    inputs = pending.popleft().result()
                    self.wait_s += time.perf_counter() - started
                    yield inputs
            finally:
                for future in pending:
                    future.cancel()
