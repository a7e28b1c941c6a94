"""Where the arrays of an index live: in memory, or in mapped .npy files that are written once and then only read."""

import mmap
import os
from collections.abc import Sequence
from pathlib import Path
from tokenize import TokenError
from typing import Any, Protocol

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.configs.partial import reserve_space

Array = np.ndarray[Any, Any]
BLOCK_BYTES = 1 << 24  # what is read, converted and written at once


class Arrays(Protocol):
    """Makes named arrays, to be filled once."""

    def new(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array: ...
    def close(self, array: Array) -> None: ...


class InMemory:
    """Arrays that last as long as the process."""

    def new(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """An array of zeros."""
        return np.zeros(shape, dtype)

    def close(self, array: Array) -> None:
        """Nothing to do."""


class InFolder:
    """Mapped files ``{folder}/{name}.npy``."""

    def __init__(self, folder: Path) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder

    def new(self, name: str, shape: tuple[int, ...], dtype: Any) -> Array:
        """A mapped array of zeros. OSError if the disk has no room for it."""
        path = self.folder / f"{name}.npy"
        array: Array = np.lib.format.open_memmap(path, mode="w+", dtype=dtype, shape=shape)  # type: ignore[no-untyped-call]
        reserve_space(path)
        return array

    def close(self, array: Array) -> None:
        """Have the disk hold what was written."""
        if isinstance(array, np.memmap):
            array.flush()
            with Path(str(array.filename)).open("rb") as file:
                os.fsync(file.fileno())


def release(array: Array) -> None:
    """Give the pages of a mapped array back to the system: what was read or written stays on the disk alone."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    if isinstance(base, mmap.mmap):
        base.madvise(mmap.MADV_DONTNEED)


def open_array(path: Path, dtype: Any, shape: tuple[int | None, ...]) -> Array:
    """Map a file of ``shape`` (None: any) read-only. Raises InputError if it isn't one."""
    try:
        array: Array = np.load(path, mmap_mode="r", allow_pickle=False)
    except (OSError, ValueError, EOFError, TokenError) as error:  # numpy parses the header
        raise InputError(f"{path}: not a readable array: {error}") from error
    fits = len(array.shape) == len(shape) and all(
        wanted in (None, found) for wanted, found in zip(shape, array.shape, strict=True)
    )
    kind_fits = array.dtype.kind == "S" if dtype == "S" else array.dtype == dtype
    if not fits or not kind_fits:
        raise InputError(f"{path}: wanted {dtype} {list(shape)}, found {array.dtype} {list(array.shape)}")
    return array


def encode_ids(tile_ids: Sequence[str]) -> Array:
    """Tile ids as numpy bytes, in the order of code points. Raises InputError for one that is empty or holds NUL."""
    bad = next((tile_id for tile_id in tile_ids if not tile_id or "\0" in tile_id), None)
    if bad is not None:
        raise InputError(f"tile id {bad!r}: wanted at least one character, and no NUL")
    return np.array([tile_id.encode() for tile_id in tile_ids], dtype=bytes)


def decode_ids(ids: Array) -> list[str]:
    """Tile ids as text. Raises InputError if they are damaged."""
    width, data = ids.dtype.itemsize, ids.tobytes()
    if not data.isascii():
        try:
            return [tile_id.decode() for tile_id in ids.tolist()]
        except UnicodeDecodeError as error:
            raise InputError(f"the index's tile ids are damaged ({error}): build the index again") from error
    text = data.decode()  # at once: a search's hits are mostly ids of one length
    return [text[start : start + width].rstrip("\0") for start in range(0, len(text), width)]
