"""Pixels in, pixels out: transparency is white, the digest sees size and colour only."""

import io

import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image, encode_png, image_sha256


def encoded(image: Image.Image, kind: str, **options: object) -> bytes:
    buffer = io.BytesIO()
    image.save(buffer, format=kind, **options)
    return buffer.getvalue()


def test_transparent_is_white_and_half_transparent_is_mixed() -> None:
    image = Image.new("RGBA", (2, 1), (0, 0, 0, 0))
    image.putpixel((1, 0), (0, 0, 0, 128))
    decoded = decode_image(encoded(image, "PNG"))
    assert decoded.mode == "RGB"
    assert decoded.getpixel((0, 0)) == (255, 255, 255)
    assert decoded.getpixel((1, 0)) == (127, 127, 127)


def test_transparent_palette_entry_is_white() -> None:
    image = Image.new("P", (2, 1))
    image.putpalette([10, 20, 30, 40, 50, 60])
    image.putpixel((1, 0), 1)
    decoded = decode_image(encoded(image, "PNG", transparency=0))
    assert [decoded.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (40, 50, 60)]


@pytest.mark.parametrize("mode", ["1", "L", "LA", "P", "RGB", "RGBA", "CMYK", "I;16"])
def test_any_mode_becomes_rgb(mode: str) -> None:
    image = Image.new(mode, (3, 2))
    decoded = decode_image(encoded(image, "TIFF" if mode in ("CMYK", "I;16") else "PNG"))
    assert (decoded.mode, decoded.size) == ("RGB", (3, 2))


def test_digest_outlives_the_encoder() -> None:
    image = Image.radial_gradient("L").convert("RGB")
    forms = [encoded(image, "PNG", compress_level=level) for level in (0, 9)] + [encoded(image, "BMP")]
    assert {image_sha256(decode_image(form)) for form in forms} == {image_sha256(image)}
    assert image_sha256(Image.new("RGB", (2, 3))) != image_sha256(Image.new("RGB", (3, 2)))
    assert image_sha256(image) != image_sha256(image.rotate(90))


def test_png_round_trip_and_determinism() -> None:
    image = Image.effect_noise((64, 48), 90).convert("RGB")
    assert decode_image(encode_png(image)).tobytes() == image.tobytes()
    assert encode_png(image) == encode_png(image.copy())


@pytest.mark.parametrize("data", [b"", b"no image", encode_png(Image.new("RGB", (64, 64)))[:60]])
def test_broken_bytes(data: bytes) -> None:
    with pytest.raises(InputError, match="encoded image"):
        decode_image(data)
