"""A page as overlapping windows: cut into equal parts, each seen alone, put together again without a lost edge."""

from dataclasses import dataclass
from functools import lru_cache

import torch
from torch import Tensor


@dataclass(frozen=True)
class Axis:
    """One axis of a grid of patches: windows of ``size`` patches at ``starts``.

    ``owner`` [length] and ``inside`` [length]: which window speaks for each patch, and at which place in it.
    """

    size: int
    starts: tuple[int, ...]
    owner: Tensor
    inside: Tensor


@lru_cache(maxsize=4096)
def axis(length: int, largest: int, overlap: int) -> Axis:
    """Cut ``length`` patches into the fewest windows of at most ``largest`` that overlap by ``overlap`` or more.

    They are spread evenly and as small as they can be; the middle of an overlap is where one window's say ends.
    """
    if length <= largest:
        return Axis(length, (0,), torch.zeros(length, dtype=torch.long), torch.arange(length))
    count = -(-(length - overlap) // (largest - overlap))
    size = -(-(length + (count - 1) * overlap) // count)
    starts = tuple(round(number * (length - size) / (count - 1)) for number in range(count))
    places = torch.arange(length)
    owner = torch.zeros(length, dtype=torch.long)
    for number in range(1, count):
        middle = (starts[number] + starts[number - 1] + size) // 2
        owner[places >= middle] = number
    return Axis(size, starts, owner, places - torch.tensor(starts)[owner])


@dataclass(frozen=True)
class Windows:
    """How a grid of ``rows`` x ``columns`` patches is cut: all windows have one size."""

    rows: int
    columns: int
    down: Axis
    across: Axis

    @property
    def count(self) -> int:
        return len(self.down.starts) * len(self.across.starts)

    def cut(self, grid: Tensor) -> Tensor:
        """[rows, columns, ...] -> [windows, window rows, window columns, ...]."""
        (height, tops), (width, lefts) = (self.down.size, self.down.starts), (self.across.size, self.across.starts)
        return torch.stack([grid[top : top + height, left : left + width] for top in tops for left in lefts])

    def join(self, windows: Tensor) -> Tensor:
        """[windows, window rows, window columns, ...] -> [rows, columns, ...]: each patch by its window's word."""
        number = self.down.owner[:, None] * len(self.across.starts) + self.across.owner[None]
        return windows[number, self.down.inside[:, None], self.across.inside[None]]


def cut_windows(rows: int, columns: int, *, largest: tuple[int, int], overlap: int) -> Windows:
    """Windows of at most ``largest`` (rows, columns) patches over a grid."""
    return Windows(rows, columns, axis(rows, largest[0], overlap), axis(columns, largest[1], overlap))
