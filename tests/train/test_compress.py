"""Compression c: sizes, filter, encoded images in threads."""

import io
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from decimal import Decimal, getcontext
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image, encode_png
from tilewright.train.compress import compress, compress_array, compress_bytes, in_threads, size
from tilewright.train.encoder import visual_tokens
from tilewright.train.pixels import synthetic_image

SIDES = st.integers(1, 20_000)


@pytest.mark.parametrize(
    ("compression", "wanted", "tokens"),
    [
        (1, (875, 1024), 864),
        (2, (618, 724), 437),
        (3, (505, 591), 288),
        (4, (437, 512), 224),
        (5, (391, 457), 168),
        (9, (291, 341), 99),
    ],
)
def test_figures_of_a_full_tile(compression: float, wanted: tuple[int, int], tokens: int) -> None:
    assert size(875, 1024, compression) == wanted
    assert visual_tokens(*wanted) == tokens


@given(SIDES, SIDES, st.floats(1, 1e6))
def test_equals_the_definition_in_many_digits(width: int, height: int, compression: float) -> None:
    getcontext().prec = 60
    factor = 1 / Decimal(compression).sqrt()
    assert size(width, height, compression) == tuple(max(1, int(side * factor)) for side in (width, height))


@given(SIDES, st.integers(1, 200))
def test_perfect_squares_are_exact(side: int, root: int) -> None:
    assert size(side, side, root * root) == (max(1, side // root),) * 2


@given(SIDES, SIDES, st.floats(1, 100), st.floats(1, 100))
def test_more_compression_is_never_larger(width: int, height: int, one: float, two: float) -> None:
    less, more = sorted((one, two))
    assert all(a <= b for a, b in zip(size(width, height, more), size(width, height, less), strict=True))
    assert all(a <= b for a, b in zip(size(width, height, less), (width, height), strict=True))


@pytest.mark.parametrize("compression", [0.99, 0, -2, float("nan"), float("inf"), float("-inf")])
def test_impossible_compressions(compression: float) -> None:
    with pytest.raises(ValueError, match="compression: wanted a finite number of at least 1"):
        size(875, 1024, compression)


def test_no_pixels() -> None:
    with pytest.raises(ValueError, match="at least one pixel"):
        size(0, 1024, 2)


def test_images() -> None:
    image = synthetic_image(120, 80)
    assert compress(image, 1) is image
    assert compress(image, 4).size == (60, 40)
    assert compress(image, 1e9).size == (1, 1)


def test_a_flat_image_stays_flat() -> None:
    flat = synthetic_image(90, 70).point(lambda value: 200)
    assert compress(flat, 3).getcolors() == [(51 * 40, (200, 200, 200))]


def encoded(image: Image.Image, image_format: str) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, image_format)
    return buffer.getvalue()


@pytest.mark.parametrize("image_format", ["PNG", "JPEG", "WEBP"])
def test_compression_1_gives_the_very_bytes(image_format: str) -> None:
    data = encoded(synthetic_image(60, 41), image_format)
    assert compress_bytes(data, 1) is data
    assert np.array_equal(compress_array(data, 1), np.asarray(decode_image(data)))


@pytest.mark.parametrize("compression", [2.0, 3.0, 1.0001])
def test_bytes_and_arrays_are_the_pixels_of_compress(compression: float) -> None:
    image = synthetic_image(120, 81)
    wanted = compress(image, compression)
    for made in (compress_bytes(encode_png(image), compression, form) for form in ("png", "webp")):  # type: ignore[arg-type]
        assert decode_image(made).tobytes() == wanted.tobytes()
    array = compress_array(encode_png(image), compression)
    assert array.dtype == np.uint8 and array.shape == (wanted.height, wanted.width, 3)
    assert array.tobytes() == wanted.tobytes()
    jpeg = decode_image(compress_bytes(encode_png(image), compression, "jpeg", 95))
    assert jpeg.size == wanted.size


def test_transparent_parts_show_white() -> None:
    glass = Image.new("RGBA", (40, 40), (0, 0, 0, 0))
    assert (compress_array(encoded(glass, "PNG"), 4) == 255).all()


def test_what_is_no_image_is_refused() -> None:
    for work in (compress_bytes, compress_array):
        with pytest.raises(InputError, match="can't be decoded"):
            work(b"no image", 2)


@pytest.mark.parametrize("threads", [1, 2, 5])
def test_threads_keep_the_order_and_the_bytes(threads: int) -> None:
    images = [encode_png(synthetic_image(30 + 7 * number, 50, number)) for number in range(12)]
    work = partial(compress_bytes, compression=2.0)
    assert list(in_threads(work, iter(images), threads)) == [work(data) for data in images]
    assert list(in_threads(work, [], threads)) == []


def test_threads_work_at_the_same_time_and_take_few_ahead() -> None:
    """Three items meet at a barrier, which one thread alone would never pass; a long stream isn't read to its end."""
    barrier, taken = threading.Barrier(3), []

    def items() -> Iterator[int]:
        for number in range(300):
            taken.append(number)
            yield number

    def meet(number: int) -> int:
        barrier.wait(timeout=60)
        return number

    made = in_threads(meet, items(), 3)
    assert [next(made) for _ in range(3)] == [0, 1, 2]
    assert len(taken) < 20
    barrier.abort()
    made.close()  # type: ignore[attr-defined]


def test_an_error_comes_in_its_place() -> None:
    images = [encode_png(synthetic_image(40, 40)), b"broken", encode_png(synthetic_image(40, 40))]
    made = in_threads(partial(compress_array, compression=2.0), images, 2)
    assert next(made).shape == (28, 28, 3)
    with pytest.raises(InputError, match="6 bytes"):
        next(made)
    with pytest.raises(InputError, match="threads: wanted at least 1, found 0"):
        list(in_threads(len, images, 0))


def test_the_benchmark_prints_one_line_of_json() -> None:
    script = Path(__file__).parents[2] / "benchmarks/compress.py"
    command = [sys.executable, str(script), "--tiles=2", "--rounds=1", "--threads=2"]
    printed = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = json.loads(printed)
    assert printed.count("\n") == 1 and found["threads"] == 2 and found["scaling_bytes"] > 0 < found["scaling_arrays"]
