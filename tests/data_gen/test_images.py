"""Pixels in, pixels out: transparency is white, the digest sees size and colour only."""

import io

import numpy as np
import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image, encode_png, image_sha256, upright_rgb


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


def test_sixteen_bits_are_scaled_not_cut_off() -> None:
    levels = np.array([[0, 128, 129, 257, 32896, 65407, 65535]], dtype=np.uint16)
    for kind in ("PNG", "TIFF"):
        decoded = np.asarray(decode_image(encoded(Image.fromarray(levels), kind)))
        assert decoded[0, :, 0].tolist() == np.round(levels[0] / 257).tolist() == [0, 0, 1, 1, 128, 255, 255]
        assert (decoded[..., 0] == decoded[..., 2]).all()


def test_a_transparent_16_bit_level_is_white() -> None:
    image = Image.fromarray(np.array([[4660, 4661]], dtype=np.uint16))
    decoded = decode_image(encoded(image, "PNG", transparency=4660))
    assert [decoded.getpixel((x, 0)) for x in (0, 1)] == [(255, 255, 255), (18, 18, 18)]


@pytest.mark.parametrize("mode", ["I", "F"])
def test_pixels_without_a_white_are_refused(mode: str) -> None:
    with pytest.raises(InputError, match="32 bits"):
        decode_image(encoded(Image.new(mode, (3, 2)), "TIFF"))


def test_upright_and_unharmed_by_a_foreign_profile() -> None:
    exif = Image.Exif()
    exif[274] = 6  # stored on its left side
    image = Image.new("RGB", (30, 20), "white")
    image.paste("red", (0, 0, 10, 20))
    with Image.open(io.BytesIO(encoded(image, "PNG", exif=exif, icc_profile=b"no profile"))) as opened:
        shown = upright_rgb(opened)
    assert shown.size == (20, 30)
    assert (shown.getpixel((10, 5)), shown.getpixel((10, 25))) == ((255, 0, 0), (255, 255, 255))


def test_a_bomb_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    data = encoded(Image.new("RGB", (64, 64)), "PNG")
    monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", 1000)
    with pytest.raises(InputError, match="encoded image"):
        decode_image(data)


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
