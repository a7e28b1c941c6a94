"""Where each character of a tile's words stands: labels for a model that learns to read pixels.

A character is what is drawn for a code point of a visible word: ``text-transform`` is applied, a letter and its
combining mark are one where Unicode has a code point for both (NFC), half of a surrogate pair is U+FFFD, each letter of
a ligature has its share of the width, as Chromium's caret goes. Code points without a box of their own (joiners, other
marks, direction marks) are left out, and so is what an ancestor's overflow cuts off. A character belongs to the tile
that its own centre lies in, so of a word that a tile's edge cuts each tile has the part that it shows, although the
word as a whole stands in one tile's ``words`` only.

What ``render_tiles`` writes as ``characters/``: ``offsets.npy`` int64 [tiles + 1] into the other arrays, in the order
of the store's ids; ``codes.npy`` uint32, ``centres.npy`` float32 [N, 2], ``heights.npy`` float32, ``flags.npy`` uint8
(bit 0: starts, bit 1: firsts); ``about.json``, whose digest of the ids ties it to its store. ``tilewright tiles``
(merge, add, replace, remove, export) doesn't carry it along; a store whose ids an edit has changed refuses it.
"""

import hashlib
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise
from pathlib import Path
from tokenize import TokenError
from typing import Any, Self
from zipfile import BadZipFile

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.data_gen.store.ids import map_array
from tilewright.data_gen.store.rows import ID_WIDTH
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of, working_file

CHARACTERS = "characters"
Array = np.ndarray[Any, Any]
_ABOUT, _OFFSETS, _FORMAT = "about.json", "offsets.npy", 1
_START, _FIRST = 1, 2  # bits of a flag
_COLUMNS: dict[str, tuple[str, tuple[int, ...]]] = {  # files: type, shape of a character's value
    "codes": ("<u4", ()),
    "centres": ("<f4", (2,)),
    "heights": ("<f4", ()),
    "flags": ("|u1", ()),
}


@dataclass(frozen=True, eq=False)
class Characters:
    """The characters of one tile, in reading order, in tile pixels.

    ``codes`` [N] uint32: code points; ``centres_px`` [N, 2] float32: x, y of the box's centre; ``heights_px`` [N]
    float32: of the box, which is as high as the font's ascent and descent together. ``starts`` [N] bool: no character
    of its word comes before it on the page. ``firsts`` [N] bool: no character of its word comes before it on this tile.
    The two differ for the rest of a word whose beginning lies on another tile or is cut off: such a rest is a word of
    its own in ``words``, but its first character is no start, since what stands left of it isn't white space. A word
    that is wrapped goes on in the next line without a start.
    """

    codes: Array
    centres_px: Array
    heights_px: Array
    starts: Array
    firsts: Array

    def __len__(self) -> int:
        return len(self.codes)

    def words(self) -> list[tuple[str, slice]]:
        """(text, its characters) of each word, as far as this tile shows it, in reading order."""
        text = text_of(self.codes)
        parts = [slice(*part) for part in pairwise([*np.flatnonzero(self.firsts).tolist(), len(self)])]
        return [(text[part], part) for part in parts]


def text_of(codes: Array) -> str:
    """The string of code points [N]."""
    return codes.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")


class PageCharacters:
    """The characters of a page in page pixels, to be cut to tiles.

    ``words``: of each word [whether its first character here begins it, [code, x, y, height]...], x and y of a
    character's centre.
    """

    def __init__(self, words: Sequence[Sequence[Any]]) -> None:
        rows = np.array([row for word in words for row in word[1:]], dtype=np.float64).reshape(-1, 4)
        counts = np.array([len(word) - 1 for word in words], dtype=np.int64)
        self.centres = rows[:, 1:3]
        self._codes, self._heights = rows[:, 0].astype(np.uint32), rows[:, 3].astype(np.float32)
        self._words = np.repeat(np.arange(len(words)), counts)
        begins = np.array([bool(word[0]) for word in words], dtype=bool)
        self._starts = _firsts(self._words) & begins[self._words]

    def cut(self, inside: Array, x_px: int, y_px: int) -> Characters:
        """Those at the ascending places ``inside`` [M], from the corner ``x_px``, ``y_px`` of a tile."""
        return Characters(
            self._codes[inside],
            (self.centres[inside] - (x_px, y_px)).astype(np.float32),
            self._heights[inside],
            self._starts[inside],
            _firsts(self._words[inside]),
        )


def _firsts(owners: Array) -> Array:
    """[N] bool: which of the ascending ``owners`` [N] differ from the one before."""
    changes = np.ones(len(owners), dtype=bool)
    changes[1:] = owners[1:] != owners[:-1]
    return changes


def page_file(work: Path, page_id: str) -> Path:
    """The working file of a page's characters, beside that of its tiles."""
    return working_file(work, page_id, "characters.npz")


def write_page(path: Path, tiles: Mapping[str, Characters]) -> None:
    """Write the characters of a page's tiles {tile_id: characters}, atomically."""
    ids = sorted(tiles)
    parts = [_columns_of(tiles[tile_id]) for tile_id in ids]
    arrays: dict[str, Any] = {"tile_ids": np.array(ids, f"S{ID_WIDTH}"), "counts": [len(tiles[name]) for name in ids]}
    if parts:
        arrays |= {name: np.concatenate([part[name] for part in parts]) for name in _COLUMNS}
    temporary = path.with_name(f"{path.name}.tmp")
    with temporary.open("wb") as file:
        np.savez(file, **arrays)
    temporary.replace(path)


def _columns_of(tile: Characters) -> dict[str, Array]:
    flags = tile.starts * _START + tile.firsts * _FIRST
    values = {"codes": tile.codes, "centres": tile.centres_px, "heights": tile.heights_px, "flags": flags}
    return {name: value.astype(_COLUMNS[name][0]) for name, value in values.items()}


def write_table(folder: Path, store: TileStore, work: Path) -> int:
    """Join the pages' files of ``work`` in the order of the store's ids; return the number of characters.

    Raises InputError if the file of a page of the store is missing or holds other tiles.
    """
    folder.mkdir(exist_ok=True)
    counts = list(_parts(store, work, "counts"))
    offsets = np.concatenate([np.zeros(1, np.int64), *counts]).cumsum()
    np.save(folder / _OFFSETS, offsets.astype("<i8"))
    total = int(offsets[-1])
    for name, (dtype, shape) in _COLUMNS.items():
        with (folder / f"{name}.npy").open("wb") as file:
            head = {"descr": dtype, "fortran_order": False, "shape": (total, *shape)}
            np.lib.format.write_array_header_1_0(file, head)
            for part in _parts(store, work, name):
                file.write(part.tobytes())
    about = {"format": _FORMAT, "tiles": len(store), "characters": total, "ids_sha256": _digest_of_ids(store)}
    (folder / _ABOUT).write_text(json.dumps(about, indent=1, sort_keys=True) + "\n", encoding="utf-8")
    return total


def _parts(store: TileStore, work: Path, name: str) -> Iterator[Array]:
    """The array ``name`` of each page of the store, in order."""
    for page_id, ids in groupby(store.tile_ids, page_of):
        path = page_file(work, page_id)
        try:
            with np.load(path) as arrays:
                found, part = arrays["tile_ids"].tolist(), arrays[name]
        except (OSError, ValueError, KeyError, TokenError, BadZipFile) as error:
            raise InputError(f"{path}: wanted the characters of page {page_id}'s tiles ({error})") from error
        if found != [tile_id.encode() for tile_id in ids]:
            raise InputError(f"{path}: wanted the characters of the tiles that the store has of page {page_id}")
        yield part


class CharacterTable:
    """The characters of all tiles of a store, read-only and memory-mapped. Make one with ``CharacterTable.open``.

    It can be pickled, which carries its place along, not its content.
    """

    def __init__(self, folder: Path, store: TileStore) -> None:
        self._folder, self._store = folder, store
        self._offsets = _map(folder / _OFFSETS, "<i8", (len(store) + 1,))
        total = int(self._offsets[-1])
        if self._offsets[0] != 0 or np.any(np.diff(self._offsets) < 0):
            raise InputError(f"{folder / _OFFSETS}: wanted ascending numbers from 0 on; run render_tiles again")
        self._columns = {
            name: _map(folder / f"{name}.npy", dtype, (total, *shape)) for name, (dtype, shape) in _COLUMNS.items()
        }

    @classmethod
    def open(cls, folder: Path, store: TileStore) -> Self:
        """The table in ``folder``, or in the output folder of a render stage.

        Raises InputError if there is none, if it can't be read, or if it belongs to a store with other ids or to one
        that was edited since.
        """
        place = next((path for path in (folder, folder / CHARACTERS) if (path / _ABOUT).is_file()), None)
        if place is None:
            raise InputError(
                f"{folder}: wanted a table of characters ({_ABOUT}, or {CHARACTERS}/{_ABOUT}): run render_tiles with"
                " `characters: true`"
            )
        try:
            about = json.loads((place / _ABOUT).read_text(encoding="utf-8"))
            found = about["format"], about["tiles"], about["ids_sha256"]
        except (OSError, ValueError, KeyError, TypeError) as error:
            raise InputError(f"{place / _ABOUT}: not readable ({error!r}); run render_tiles again") from error
        if store.state.is_edited:
            raise InputError(f"{store.folder}: pages came or went since {place} was made: run render_tiles for them")
        wanted = _FORMAT, len(store), _digest_of_ids(store)
        if found != wanted:
            raise InputError(
                f"{place}: belongs to another store than {store.folder}: wanted (format, tiles, digest of ids)"
                f" {wanted}, found {found}"
            )
        return cls(place, store)

    def __reduce__(self) -> tuple[Any, ...]:
        return CharacterTable, (self._folder, self._store)

    def __len__(self) -> int:
        return len(self._offsets) - 1

    def of(self, tile_id: str) -> Characters:
        """The characters of a tile. Raises InputError if the store has none of that id."""
        position = self._store.tile_ids.position(tile_id)
        if position is None:
            raise InputError(f"{self._folder}: no tile {tile_id!r} among its {len(self)} tiles")
        return self.at(position)

    def at(self, position: int) -> Characters:
        """The characters of the tile at that place in the store's ``tile_ids``. Raises IndexError beyond them."""
        if not 0 <= position < len(self):
            raise IndexError(f"{self._folder}: wanted a position from 0 to {len(self) - 1}, found {position}")
        part = slice(int(self._offsets[position]), int(self._offsets[position + 1]))
        codes, centres, heights, flags = (self._columns[name][part] for name in _COLUMNS)
        return Characters(codes, centres, heights, flags & _START != 0, flags & _FIRST != 0)


def _map(path: Path, dtype: str, shape: tuple[int, ...]) -> Array:
    """A mapped .npy file. Raises InputError if it can't be read or is of another type or shape."""
    try:
        array: Array = np.load(path, mmap_mode="r" if shape[0] else None)
    except (OSError, ValueError, TokenError) as error:  # numpy parses the header
        raise InputError(f"{path}: not a readable array ({error}); run render_tiles again") from error
    if array.shape != shape or array.dtype.str != dtype:
        raise InputError(f"{path}: wanted {shape} of {dtype}, found {array.shape} of {array.dtype.str}")
    return np.asarray(array)


def _digest_of_ids(store: TileStore) -> str:
    """SHA-256 of the store's sorted ids."""
    ids = map_array(store.folder / store.state.ids, len(store), f"|S{ID_WIDTH}")
    return hashlib.sha256(ids.tobytes()).hexdigest()
