"""Compression c of a tile: each side × 1/√c by Pillow's Lanczos filter. Sizes are pure functions, without decoding."""

import math
import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from fractions import Fraction
from itertools import islice
from typing import Any, Literal, TypeVar

import numpy as np
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image, encode_image

AHEAD = 2  # images in work or waiting to be taken, for each thread
Given = TypeVar("Given")
Made = TypeVar("Made")


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


def compress_bytes(
    data: bytes, compression: float, image_format: Literal["png", "webp", "jpeg"] = "png", jpeg_quality: int = 90
) -> bytes:
    """An encoded image at ``compression``, encoded anew (png and webp without loss); the very same bytes for 1.

    Raises InputError as ``size``, and for bytes that are no image.
    """
    if compression == 1:
        return data
    return encode_image(compress(decode_image(data), compression), image_format, jpeg_quality)


def compress_array(data: bytes, compression: float) -> np.ndarray[Any, Any]:
    """RGB pixels, uint8 [H, W, 3], of an encoded image at ``compression``. Raises InputError as ``compress_bytes``."""
    return np.asarray(compress(decode_image(data), compression))


def in_threads(work: Callable[[Given], Made], items: Iterable[Given], threads: int | None = None) -> Iterator[Made]:
    """``work`` of each of ``items``, in their order, by ``threads`` at once (None: as many as cores).

    Pillow lets go of the interpreter's lock while it decodes, resizes and encodes, so that ``compress_bytes`` and
    ``compress_array`` scale with cores. Few items are taken ahead: a long stream needs little memory. An error
    is raised in its item's place. Raises InputError for less than one thread.
    """
    count = threads if threads is not None else len(os.sched_getaffinity(0))
    if count < 1:
        raise InputError(f"threads: wanted at least 1, found {count}")
    if count == 1:
        yield from map(work, items)
        return
    todo = iter(items)
    with ThreadPoolExecutor(count) as pool:
        running: deque[Future[Made]] = deque(pool.submit(work, item) for item in islice(todo, AHEAD * count))
        try:
            while running:
                made = running.popleft().result()
                running.extend(pool.submit(work, item) for item in islice(todo, 1))
                yield made
        finally:
            for future in running:
                future.cancel()
