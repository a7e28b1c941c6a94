"""Pixels of plain PNGs against Pillow's, of every filter, size and damage."""

import io
import struct
import zlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.browser_png import _pixels_of_plain_png, png_size, rgb_pixels
from tilewright.data_gen.images import decode_image


def chunk(kind: bytes, body: bytes) -> bytes:
    return struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))


def png(width: int, height: int, rows: bytes, header: bytes = b"\x08\x02\0\0\0", extra: bytes = b"") -> bytes:
    data = zlib.compress(rows)
    middle = len(data) // 2
    body = chunk(b"IHDR", struct.pack(">II", width, height) + header) + extra
    body += chunk(b"IDAT", data[:middle]) + chunk(b"IDAT", data[middle:]) + chunk(b"IEND", b"")
    return b"\x89PNG\r\n\x1a\n" + body


@given(st.integers(1, 9), st.integers(1, 9), st.data())
def test_rows_of_any_filter_are_what_pillow_reads(width: int, height: int, data: st.DataObject) -> None:
    filters = data.draw(st.lists(st.sampled_from((0, 2, 2, 1, 3, 4)), min_size=height, max_size=height))
    rows = b"".join(
        bytes([kind]) + data.draw(st.binary(min_size=3 * width, max_size=3 * width), label="row") for kind in filters
    )
    picture = png(width, height, rows)
    wanted = np.asarray(decode_image(picture))
    assert png_size(picture) == (width, height)
    assert np.array_equal(rgb_pixels(picture), wanted)
    assert (_pixels_of_plain_png(picture) is not None) == (set(filters) <= {0, 1, 2})


@pytest.mark.parametrize("mode", ["RGB", "RGBA", "L", "P", "1", "LA", "I;16"])
def test_other_pictures_go_to_pillow(mode: str) -> None:
    image = Image.linear_gradient("L").resize((40, 30)).convert("RGB" if mode == "P" else mode.replace("I;16", "L"))
    buffer = io.BytesIO()
    (image.quantize(7) if mode == "P" else image.convert(mode)).save(buffer, "PNG")
    assert np.array_equal(rgb_pixels(buffer.getvalue()), np.asarray(decode_image(buffer.getvalue())))


def test_a_transparent_colour_shows_white() -> None:
    picture = png(2, 1, b"\0" + bytes((1, 2, 3, 4, 5, 6)), extra=chunk(b"tRNS", struct.pack(">HHH", 1, 2, 3)))
    assert rgb_pixels(picture).tolist() == [[[255, 255, 255], [4, 5, 6]]]


def test_damage_is_an_error() -> None:
    whole = png(3, 3, b"\0" * 30)
    for broken in (b"", whole[:20], whole[:60], png(3, 3, b"\0" * 29), b"GIF89a"):
        with pytest.raises(InputError):
            rgb_pixels(broken)
    with pytest.raises(ValueError, match="wanted a PNG"):
        png_size(b"GIF89a")
