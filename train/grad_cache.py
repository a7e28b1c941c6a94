"""GradCache: a large contrastive batch on little memory, with the gradients of the plain one.

A rank's rows are embedded chunk by chunk without gradient, the loss is taken on all vectors, and each chunk is embedded
again, with the same random numbers, to carry its vectors' gradients on. Graphs that fit a memory budget are kept from
the first pass instead. All state belongs to one step. Source: Gao et al. 2021 (arXiv 2101.06983).
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import torch
from torch import Tensor

from tilewright.train.batch import Batch
from tilewright.train.graph_memory import GraphMemory

Embed = Callable[[Batch], Tensor]
"""Model inputs of B rows -> [B, D], with gradient where it is enabled."""
Backward = Callable[[Tensor, bool], None]
"""Called with a scalar and whether it is the step's last: adds its gradients to the parameters."""


@dataclass(frozen=True)
class Chunking:
    """How many rows are embedded at once: at most ``rows`` rows and ``tokens`` padded tokens (None: no bound).

    A row longer than ``tokens`` is a chunk of its own. ``keep_mib``: memory for graphs that are kept from the first
    pass; a chunk whose graph doesn't fit is embedded again. None: everything is kept, so nothing is embedded twice.
    """

    rows: int | None = None
    tokens: int | None = None
    keep_mib: int | None = 0

    def __post_init__(self) -> None:
        for name in ("rows", "tokens"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}: wanted at least 1, or null, found {value}")
        if self.keep_mib is not None and self.keep_mib < 0:
            raise ValueError(f"keep_mib: wanted at least 0, or null, found {self.keep_mib}")

    def cut(self, batch: Batch | None) -> list[Batch]:
        """``batch`` as chunks, rows in order."""
        if batch is None:
            return []
        lengths = batch.attention_mask.sum(1).tolist()
        chunks, start, longest = [], 0, 0
        for row, length in enumerate(lengths):
            longest = max(longest, length)
            full = self.rows is not None and row - start >= self.rows
            if row > start and (full or (self.tokens is not None and longest * (row + 1 - start) > self.tokens)):
                chunks.append(batch.rows(start, row))
                start, longest = row, length
        return [*chunks, batch.rows(start, len(lengths))]


class CachedVectors:
    """Vectors of chunks, as a leaf that collects their gradient; ``losses`` carry it on to the parameters.

    ``memory`` may be None where everything is kept: nothing is measured then. ``passes``: forward passes to be made, at
    least one a chunk (0: as many as chunks); those beyond repeat the first chunk and count for nothing.
    """

    def __init__(
        self, chunks: Sequence[Batch], embed: Embed, chunking: Chunking, memory: GraphMemory | None, passes: int = 0
    ) -> None:
        if passes and not chunks:
            raise ValueError(f"no rows on this rank, {passes} passes on others: wanted at least one row a rank")
        self._chunks, self._embed = chunks, embed
        self._repeats = max(0, passes - len(chunks))
        self._random: list[_RandomState | None] = []
        self._kept: list[Tensor | None] = []
        vectors = []
        for chunk in chunks:
            keeping = chunking.keep_mib is None or (
                memory is not None and memory.has_room(chunk, chunking.keep_mib << 20)
            )
            self._random.append(None if keeping else _RandomState.now())
            measuring = nullcontext() if memory is None else memory.measured(chunk)
            with measuring if keeping else torch.no_grad():
                embedded = embed(chunk)
            vectors.append(embedded.detach())
            self._kept.append(embedded if keeping else None)
        for _ in range(self._repeats):
            with torch.no_grad():
                embed(chunks[0])
        self.vectors = torch.cat(vectors).requires_grad_() if vectors else None

    def __len__(self) -> int:
        """How many ``losses`` there are."""
        return len(self._chunks) + self._repeats

    def losses(self) -> Iterator[Tensor]:
        """For each chunk a scalar whose gradient is the chunk's part of that of the loss; those kept come first.

        The graph of one is made when it is asked for: take its gradient before asking for the next.
        """
        if self.vectors is None:
            return
        gradient = torch.zeros_like(self.vectors) if self.vectors.grad is None else self.vectors.grad
        parts = torch.split(gradient.float(), [len(chunk) for chunk in self._chunks])
        for index in sorted(range(len(parts)), key=lambda index: self._kept[index] is None):
            embedded, state = self._kept[index], self._random[index]
            self._kept[index] = None
            with nullcontext() if state is None else state.replayed():
                embedded = self._embed(self._chunks[index]) if embedded is None else embedded
            yield (embedded.float() * parts[index]).sum()
        for _ in range(self._repeats):
            yield self._embed(self._chunks[0]).float().sum() * 0


@dataclass(frozen=True)
class _RandomState:
    """The state of torch's generators, on the CPU and on the GPU at hand."""

    cpu: Tensor
    gpu: Tensor | None

    @classmethod
    def now(cls) -> "_RandomState":
        return cls(torch.get_rng_state(), torch.cuda.get_rng_state() if torch.cuda.is_initialized() else None)  # type: ignore[no-untyped-call]

    @contextmanager
    def replayed(self) -> Iterator[None]:
        """Draw the same numbers again within; afterwards go on as before."""
        with torch.random.fork_rng(devices=[] if self.gpu is None else [torch.cuda.current_device()]):
            torch.set_rng_state(self.cpu)
            if self.gpu is not None:
                torch.cuda.set_rng_state(self.gpu)
            yield
