"""Encoded images to RGB pixels and back, and a digest of pixels that outlives an encoder version."""

import hashlib
import io

from PIL import Image, UnidentifiedImageError

from tilewright.configs.errors import InputError

PNG_COMPRESS_LEVEL = 1  # of 9; level 1 is several times faster than 6 and about a tenth larger on text pages


def decode_image(data: bytes) -> Image.Image:
    """RGB image of encoded bytes, transparent parts over white. Raises InputError if ``data`` is no image."""
    try:
        with Image.open(io.BytesIO(data)) as image:
            image.load()
            return to_rgb(image)
    except (UnidentifiedImageError, OSError, SyntaxError) as error:
        raise InputError(f"wanted an encoded image, found {len(data)} bytes that can't be decoded ({error})") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """``image`` as RGB; an alpha channel or transparent palette entry shows white."""
    if image.mode == "RGB" and "transparency" not in image.info:
        return image.copy()
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


def encode_png(image: Image.Image) -> bytes:
    """PNG bytes of an image, the same for the same pixels and Pillow version."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=PNG_COMPRESS_LEVEL)
    return buffer.getvalue()


def image_sha256(image: Image.Image) -> str:
    """SHA-256 (64 hex) of the size, ``{width}x{height}:``, followed by the RGB bytes in row order."""
    rgb = to_rgb(image)
    digest = hashlib.sha256(f"{rgb.width}x{rgb.height}:".encode())
    digest.update(rgb.tobytes())
    return digest.hexdigest()
