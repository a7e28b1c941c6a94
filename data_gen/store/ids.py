"""The sorted ids of a tile store, memory-mapped."""

from collections.abc import Iterator, Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any, overload

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.data_gen.store.rows import ID_WIDTH

_AT_ONCE = 65_536


class TileIds(Sequence[str]):
    """The sorted ids of a store, memory-mapped; ``position`` finds one in O(log P)."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    @overload
    def __getitem__(self, index: int) -> str: ...
    @overload
    def __getitem__(self, index: slice) -> list[str]: ...
    def __getitem__(self, index: int | slice) -> str | list[str]:
        if isinstance(index, slice):
            return [item.decode("ascii", "replace") for item in self._array[index].tolist()]
        return bytes(self._array[index]).decode("ascii", "replace")

    def __iter__(self) -> Iterator[str]:
        for start in range(0, len(self), _AT_ONCE):
            yield from self[start : start + _AT_ONCE]

    def __contains__(self, tile_id: object) -> bool:
        return isinstance(tile_id, str) and self.position(tile_id) is not None

    def position(self, tile_id: str) -> int | None:
        """The place of ``tile_id`` in the order of ids, None if there's no such tile."""
        wanted = tile_id.encode("utf-8", "replace")
        if len(wanted) > ID_WIDTH:  # numpy would copy the array to compare it with a longer id
            return None
        place = int(np.searchsorted(self._array, np.bytes_(wanted)))
        return place if place < len(self._array) and bytes(self._array[place]) == wanted else None

    def of_page(self, page_id: str) -> range:
        """The places of a page's tiles; empty if it has none."""
        start, stop = np.searchsorted(self._array, [f"{page_id}{end}".encode() for end in "-."])  # "." follows "-"
        return range(int(start), int(stop))


def map_array(path: Path, count: int, dtype: str) -> np.ndarray[Any, Any]:
    """A mapped .npy file of ``count`` values."""
    try:
        array: np.ndarray[Any, Any] = np.load(path, mmap_mode="r" if count else None)
    except (OSError, ValueError, TokenError) as error:  # numpy parses the header
        raise InputError(f"{path}: not a readable array ({error}); run render_tiles again") from error
    if array.shape != (count,) or array.dtype.str != dtype:
        found = f"{array.size} ids for {count} tiles"
        raise InputError(f"{path}: {found}, wanted {count} values of type {dtype}; run render_tiles again")
    return np.asarray(array)
