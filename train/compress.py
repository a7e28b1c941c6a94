"""Compression c of a tile: each side × 1/√c by Pillow's Lanczos filter. Sizes are pure functions, without decoding."""

import math
from fractions import Fraction

from PIL import Image

from tilewright.configs.errors import InputError


def size(width_px: int, height_px: int, compression: float) -> tuple[int, int]:
    """(width, height) in px of a tile at ``compression``: each side × 1/√c rounded down, at least 1; 1 is identity.

    Exact for every float c (875 × 1024 at 4 is 437 × 512). Raises InputError for c below 1 or not finite (sizes never
    grow), or a side below one pixel.
    """
    if not math.isfinite(compression) or compression < 1:
        raise InputError(f"compression: wanted a finite number of at least 1, found {compression!r}")
    if min(width_px, height_px) < 1:
        raise InputError(f"image of {width_px} x {height_px} px: wanted at least one pixel on each side")
    exact = Fraction(compression)
    return _side(width_px, exact), _side(height_px, exact)


def _side(side_px: int, compression: Fraction) -> int:
    """floor(side / √c) = floor(√(side² · q / p)) for c = p/q, in integers."""
    return max(1, math.isqrt(side_px * side_px * compression.denominator // compression.numerator))


def compress(image: Image.Image, compression: float) -> Image.Image:
    """``image`` at ``compression`` by Lanczos; the same object for 1. Never enlarges. Raises InputError as ``size``."""
    wanted = size(*image.size, compression)
    return image if wanted == image.size else image.resize(wanted, Image.Resampling.LANCZOS)
