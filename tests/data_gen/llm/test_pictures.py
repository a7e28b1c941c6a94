"""Pictures as they are sent: untouched where they fit, the same pixels otherwise, never larger than allowed."""

import io
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tilewright.data_gen.llm import CallError, ImagePart, ImageSettings
from tilewright.data_gen.llm.pictures import fitted_px, send_picture

WIDTH_PX, HEIGHT_PX = 61, 40


def encoded(kind: str, **options: object) -> bytes:
    image = Image.effect_noise((WIDTH_PX, HEIGHT_PX), 80).convert("RGB")
    buffer = io.BytesIO()
    image.save(buffer, kind, **options)
    return buffer.getvalue()


def decoded(data: bytes) -> Image.Image:
    return Image.open(io.BytesIO(data)).convert("RGB")


@pytest.mark.parametrize("encoding", ["png", "webp", "jpeg"])
def test_a_stored_picture_that_fits_goes_out_byte_for_byte(encoding: str) -> None:
    data = encoded(encoding)
    settings = ImageSettings(encoding=encoding, max_pixels=WIDTH_PX * HEIGHT_PX)  # type: ignore[arg-type]
    sent = send_picture(ImagePart(data), settings)
    assert sent.data == data and sent.sha256 == ImagePart(data).sha256 and sent.size_px == (WIDTH_PX, HEIGHT_PX)
    assert sent.url().startswith(f"data:image/{encoding};base64,")


@pytest.mark.parametrize(("stored", "encoding"), [("webp", "png"), ("png", "webp")])
def test_another_lossless_encoding_keeps_every_pixel_and_is_deterministic(stored: str, encoding: str) -> None:
    data = encoded(stored, lossless=True)
    settings = ImageSettings(encoding=encoding)  # type: ignore[arg-type]
    sent = send_picture(ImagePart(data), settings)
    assert Image.open(io.BytesIO(sent.data)).format == encoding.upper()
    assert decoded(sent.data).tobytes() == decoded(data).tobytes()
    assert send_picture(ImagePart(data), settings) == sent


def test_a_large_picture_is_scaled_by_lanczos() -> None:
    data = encoded("png")
    sent = send_picture(ImagePart(data), ImageSettings(max_pixels=600))
    wanted = decoded(data).resize(sent.size_px, Image.Resampling.LANCZOS)
    assert decoded(sent.data).tobytes() == wanted.tobytes() and sent.size_px == (30, 19)


@given(st.integers(1, 20_000), st.integers(1, 20_000), st.integers(1, 10_000_000))
def test_the_fitted_size_is_within_the_limit_and_keeps_the_shape(width: int, height: int, most: int) -> None:
    fitted_width, fitted_height = fitted_px((width, height), most)
    assert 1 <= fitted_width * fitted_height <= max(most, 1)
    assert fitted_width <= width and fitted_height <= height
    if min(fitted_width, fitted_height) > 100:
        assert fitted_width / fitted_height == pytest.approx(width / height, rel=0.02)


@pytest.mark.parametrize("data", [b"", b"<svg/>", b"GIF89a", encoded("png")[:200]])
def test_what_is_no_picture_is_an_error_of_its_item(data: bytes) -> None:
    with pytest.raises(CallError, match="wanted"):
        send_picture(ImagePart(data), ImageSettings(encoding="jpeg"))


@pytest.mark.parametrize(("encoding", "height_px"), [("webp", 16_384), ("jpeg", 65_536)])
def test_a_picture_too_tall_for_its_encoding_is_an_error_of_its_item(encoding: Any, height_px: int) -> None:
    buffer = io.BytesIO()
    Image.new("RGB", (2, height_px)).save(buffer, "PNG")
    with pytest.raises(CallError, match=f"max_pixels.*found 2 x {height_px} px"):
        send_picture(ImagePart(buffer.getvalue()), ImageSettings(encoding=encoding))
    small = send_picture(ImagePart(buffer.getvalue()), ImageSettings(encoding=encoding, max_pixels=10_000))
    assert small.size_px[1] <= 10_000


def test_a_picture_shows_neither_its_bytes_nor_much_else() -> None:
    assert len(repr(ImagePart(b"x" * 10_000))) < 80
