"""One step's loss and gradients: embed this rank's share, gather all vectors, one loss over the global batch."""

import dataclasses
from collections.abc import Callable

from torch import Tensor, nn, zeros

from tilewright.train.batch import Batch
from tilewright.train.distributed import gather, highest
from tilewright.train.grad_cache import Backward, CachedVectors, Chunking, Embed
from tilewright.train.graph_memory import GraphMemory
from tilewright.train.losses import Stats
from tilewright.train.step_inputs import StepInputs

WHOLE = Chunking(keep_mib=None)
Objective = Callable[[Tensor, Tensor, Tensor, Tensor], tuple[Tensor, Stats]]


def plain_backward(loss: Tensor, _last: bool) -> None:
    """Add the gradients of ``loss`` to the parameters, none if no weight reaches it."""
    if loss.requires_grad:
        loss.backward()  # type: ignore[no-untyped-call]


class ContrastiveStep:
    """Losses and gradients of ``embed``'s model under ``objective``, chunk by chunk as ``chunking`` says.

    ``dimension``: D of the vectors. ``equal_passes``: every rank makes the same number of forward and backward passes,
    as sharded parameters demand; a rank with fewer chunks repeats one with a gradient of zero. Then no graph is kept.
    """

    def __init__(
        self,
        model: nn.Module,
        embed: Embed,
        objective: Objective,
        dimension: int,
        *,
        chunking: Chunking = WHOLE,
        backward: Backward = plain_backward,
        equal_passes: bool = False,
    ) -> None:
        self._embed, self._objective, self._dimension = embed, objective, dimension
        self._device = next(model.parameters()).device
        self._chunking, self._backward, self._equal_passes = chunking, backward, equal_passes
        self._memory = GraphMemory(model)

    def __call__(self, inputs: StepInputs) -> tuple[Tensor, Stats]:
        """Add this rank's part of the loss's gradients to the parameters; return (loss, stats) of the global batch.

        The loss is that of the global batch on every rank; averaged over ranks, the gradients are those that one rank
        would have computed alone.
        """
        self._memory.start_step()
        cached = self._embedded([self._chunking.cut(batch) for batch in (inputs.queries, inputs.tiles)])
        queries, tiles = (
            zeros(0, self._dimension, device=self._device, requires_grad=True) if side.vectors is None else side.vectors
            for side in cached
        )  # an empty share takes part in the gather's backward pass too
        loss, stats = self._objective(
            gather(queries, inputs.query_counts),
            gather(tiles, inputs.tile_counts),
            inputs.positive.to(self._device),
            inputs.ignore.to(self._device),
        )
        remaining = sum(map(len, cached))
        self._backward(loss, remaining == 0)
        for side in cached:
            for surrogate in side.losses():
                remaining -= 1
                self._backward(surrogate, remaining == 0)
        return loss.detach(), stats

    def _embedded(self, sides: list[list[Batch]]) -> list[CachedVectors]:
        """Vectors of this rank's chunks of queries, and of tiles."""
        chunking, passes = self._chunking, [0, 0]
        if self._equal_passes:
            chunking = dataclasses.replace(chunking, keep_mib=0)
            passes = [highest(len(chunks), self._device) for chunks in sides]
        elif max(map(len, sides)) <= 1:  # nothing would be won by embedding it twice
            chunking = WHOLE
        return [
            CachedVectors(chunks, self._embed, chunking, None if chunking.keep_mib is None else self._memory, count)
            for chunks, count in zip(sides, passes, strict=True)
        ]
