"""Tiles that look alike: a perceptual hash of each, and groups of hashes a few bits apart, without comparing all pairs.

The hash is pHash's (signs of the lowest cosine frequencies against their median), of 256 bits. 64 bits don't tell
pages of text apart: of 253 rendered article tiles, different ones were as near as 10 bits while copies by JPEG (quality
80) were up to 4 bits off; at 256 bits that is 56 and 10 (monospaced text, other letters in words of the same lengths:
46). It is written here, in ten lines of numpy: the ImageHash package would bring scipy and PyWavelets for them.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from PIL import Image

HASH_BITS = 256
_SIDE = 16  # frequencies a side: _SIDE ** 2 bits
_GREY_PX = 64  # the picture is shrunk to this square first
_PRECISION = 3  # decimals of a frequency's weight: what is nothing but rounding errors is 0
_ASPECT = 1.02  # width by height of alike tiles differ by this factor at most
_SMALL = 64  # buckets up to this many tiles are compared all at once
_PAIRS = 1 << 20  # compared at a time: bounds memory
_POPCOUNT = np.array([bin(value).count("1") for value in range(1 << 16)], dtype=np.uint8)
_COSINES = np.sqrt(2 / _GREY_PX) * np.cos(
    np.pi / _GREY_PX * (np.arange(_GREY_PX) + 0.5)[None, :] * np.arange(_SIDE)[:, None]
)  # [frequencies, pixels] of the DCT-II
_COSINES[0] /= np.sqrt(2)

Array = np.ndarray[Any, Any]


def perceptual_hash(image: Image.Image) -> str:
    """64 hex characters of the 256 bits of ``image``; small changes of its pixels change few of them."""
    grey = np.asarray(image.convert("L").resize((_GREY_PX, _GREY_PX), Image.Resampling.BOX), dtype=np.float64)
    weights = np.round(_COSINES @ grey @ _COSINES.T, _PRECISION).reshape(-1)
    return np.packbits(weights > np.median(weights)).tobytes().hex()


def hash_distance(first: str, second: str) -> int:
    """Bits in which two hashes differ, 0 to 256."""
    return (int(first, 16) ^ int(second, 16)).bit_count()


def near_duplicates(
    tile_ids: Sequence[str], hashes: Sequence[str], sizes_px: Sequence[tuple[int, int]], max_distance: int
) -> dict[str, str]:
    """{tile: the tile that is kept in its place}: all tiles of a group but the one with the smallest id.

    Tiles are of a group if a chain of tiles joins them, each at most ``max_distance`` bits from the next and of its
    shape. The result depends on the set of tiles alone, not on their order. Two hashes that are at most t bits apart
    agree in one of t + 1 bands of bits: only tiles that share a band are compared (multi-index hashing).
    """
    if not 0 <= max_distance < HASH_BITS // 8:
        raise ValueError(f"max_distance: wanted 0 to {HASH_BITS // 8 - 1} of {HASH_BITS} bits, found {max_distance}")
    order = sorted(range(len(tile_ids)), key=tile_ids.__getitem__)
    bits = np.frombuffer(bytes.fromhex("".join(hashes[i] for i in order)), dtype=np.uint8).reshape(-1, HASH_BITS // 8)
    sizes = np.array([sizes_px[i] for i in order], dtype=np.int32).reshape(-1, 2)
    # equal tiles (blank ones may be many) are one from the start: `first` is the smallest of each kind
    rows = np.concatenate([bits, np.ascontiguousarray(sizes).view(np.uint8).reshape(-1, 8)], axis=1)
    _, first, kind = np.unique(rows, axis=0, return_index=True, return_inverse=True)
    groups = _Groups(bits[first], sizes[first], first, max_distance)
    for band in _bands(bits[first], max_distance + 1):
        groups.join_within(band)
    kept = [int(first[groups.root(i)]) for i in kind.reshape(-1).tolist()]
    return {tile_ids[order[i]]: tile_ids[order[keep]] for i, keep in enumerate(kept) if i != keep}


def _bands(bits: Array, count: int) -> Iterator[Array]:
    """[P] keys of each band; a band's bits are ``count`` apart, so that each has low and high frequencies."""
    unpacked = np.unpackbits(bits, axis=1)
    for band in range(count):
        packed = np.packbits(unpacked[:, band::count], axis=1)
        _, keys = np.unique(packed, axis=0, return_inverse=True) if packed.shape[1] > 8 else (None, _as_int(packed))
        yield keys.reshape(-1)


def _as_int(packed: Array) -> Array:
    padded = np.zeros((len(packed), 8), dtype=np.uint8)
    padded[:, : packed.shape[1]] = packed
    keys: Array = padded.view(np.uint64)
    return keys


class _Groups:
    """Union-find over tiles: a group's root is the one of smallest ``rank``."""

    def __init__(self, bits: Array, sizes_px: Array, ranks: Array, max_distance: int) -> None:
        self._words = np.ascontiguousarray(bits).view(np.uint16)  # [P, 16]
        self._aspects = np.log(sizes_px[:, 0] / sizes_px[:, 1]) if len(sizes_px) else np.zeros(0)
        self._max_distance = max_distance
        self._ranks = ranks.tolist()
        self._parents = list(range(len(bits)))

    def root(self, tile: int) -> int:
        """The tile that stands for the group of ``tile``."""
        while self._parents[tile] != tile:
            self._parents[tile] = self._parents[self._parents[tile]]
            tile = self._parents[tile]
        return tile

    def join(self, first: int, second: int) -> None:
        """Make one group of those of two tiles."""
        low, high = sorted((self.root(first), self.root(second)), key=self._ranks.__getitem__)
        self._parents[high] = low

    def join_within(self, keys: Array) -> None:
        """Join the tiles with equal keys that are alike."""
        order = np.argsort(keys, kind="stable")
        ordered = keys[order]
        starts = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]])) if len(keys) else order
        lengths = np.diff(np.append(starts, len(keys)))
        for start, length in zip(starts[lengths > _SMALL], lengths[lengths > _SMALL], strict=True):
            self._join_bucket(order[start : start + length])
        places = np.arange(len(keys)) - np.repeat(starts, lengths)  # in the own bucket
        sizes = np.repeat(np.where(lengths > _SMALL, 0, lengths), lengths)
        for step in range(1, int(sizes.max(initial=0))):
            left = np.flatnonzero(places + step < sizes)
            for part in range(0, len(left), _PAIRS):
                here = left[part : part + _PAIRS]
                self._join_pairs(order[here], order[here + step])

    def _join_pairs(self, first: Array, second: Array) -> None:
        alike = self._alike(first, second)
        for one, other in zip(first[alike].tolist(), second[alike].tolist(), strict=True):
            self.join(one, other)

    def _join_bucket(self, tiles: Array) -> None:
        """A large bucket: each is compared with those of other groups only."""
        roots = np.array([self.root(tile) for tile in tiles.tolist()])
        for place, tile in enumerate(tiles.tolist()):
            others = place + np.flatnonzero(roots[place:] != roots[place])
            if not len(others):
                if (roots == roots[0]).all():
                    return
                continue
            near = others[self._alike(np.full(len(others), tile), tiles[others])]
            if len(near):
                for other in np.unique(roots[near]).tolist():
                    self.join(tile, other)
                roots[np.isin(roots, np.append(roots[near], roots[place]))] = self.root(tile)

    def _alike(self, first: Array, second: Array) -> Array:
        """[M] bool: whether two tiles are of one shape and few bits apart."""
        alike: Array = np.abs(self._aspects[first] - self._aspects[second]) <= np.log(_ASPECT)
        for columns in (slice(0, 4), slice(0, 16)):  # most pairs are told apart by a quarter of their bits
            left = np.flatnonzero(alike)
            different = self._words[first[left], columns] ^ self._words[second[left], columns]
            alike[left] = _POPCOUNT[different].sum(axis=1, dtype=np.int32) <= self._max_distance
        return alike
