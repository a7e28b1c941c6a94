"""Encoded images to RGB pixels and back, and a digest of pixels that outlives an encoder version."""

import hashlib
import io
from typing import Any

import numpy as np
from PIL import Image, ImageCms, ImageOps, UnidentifiedImageError

from tilewright.configs.errors import InputError

WEBP_METHOD, WEBP_EFFORT = 1, 20  # as quick as PNG, half its size (benchmarks/encodings.py); 4, 70: a quarter, slow
FORMATS = ("PNG", "WEBP", "JPEG", "GIF", "BMP", "TIFF")  # others run programs (EPS) or decoders few have looked at
PNG_COMPRESS_LEVEL = 1  # of 9; level 1 is several times faster than 6 and about a tenth larger on text pages


def decode_image(data: bytes) -> Image.Image:
    """RGB image of encoded bytes, transparent parts over white. Raises InputError if ``data`` is no image."""
    try:
        with Image.open(io.BytesIO(data), formats=FORMATS) as image:
            image.load()
            return to_rgb(image)
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise InputError(f"wanted an encoded image, found {len(data)} bytes that can't be decoded ({error})") from error


def to_rgb(image: Image.Image) -> Image.Image:
    """``image`` as RGB (itself, if it is that); transparent parts show white, 16 bits a channel are scaled to 8.

    Raises InputError for 32-bit integers and floats: what is black and what is white in them isn't said.
    """
    if image.mode == "RGB" and "transparency" not in image.info:
        return image
    if image.mode.startswith("I;16"):
        return _from_16_bits(image)
    if image.mode in ("I", "F"):
        raise InputError(f"wanted 1 to 16 bits a channel, found pixels of mode {image.mode!r} (32 bits)")
    if image.has_transparency_data:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB")
    return image.convert("RGB")


def _from_16_bits(image: Image.Image) -> Image.Image:
    """Grey levels of 16 bits, rounded to 8 (Pillow's own conversion cuts them off at 255)."""
    levels = np.asarray(image).astype(np.uint32)
    grey = ((levels + 128) // 257).astype(np.uint8)
    transparent = image.info.get("transparency")
    if isinstance(transparent, int):
        grey[levels == transparent] = 255
    return Image.fromarray(grey).convert("RGB")


def upright_rgb(image: Image.Image) -> Image.Image:
    """RGB pixels as a viewer shows a picture file: turned by its EXIF orientation, colours by its ICC profile."""
    return to_rgb(_in_srgb(ImageOps.exif_transpose(image)))


def _in_srgb(image: Image.Image) -> Image.Image:
    """``image`` with its colours in sRGB; unchanged if it has no profile, an sRGB one, or one that can't be used."""
    data = image.info.get("icc_profile")
    if image.mode == "LAB":
        return _converted(image, ImageCms.ImageCmsProfile(ImageCms.createProfile("LAB")), "RGB")
    if not data or image.mode not in ("L", "P", "RGB", "RGBA", "CMYK"):
        return image
    if image.mode == "P":
        image = image.convert("RGBA" if image.has_transparency_data else "RGB")
    try:
        profile = ImageCms.ImageCmsProfile(io.BytesIO(data))
        if "srgb" in ImageCms.getProfileDescription(profile).lower():
            return image
        return _converted(image, profile, "RGBA" if image.mode == "RGBA" else "RGB")
    except (ImageCms.PyCMSError, OSError, ValueError):  # damaged, or of other channels than the pixels
        return image


def _converted(image: Image.Image, profile: ImageCms.ImageCmsProfile, mode: str) -> Image.Image:
    converted = ImageCms.profileToProfile(image, profile, ImageCms.createProfile("sRGB"), outputMode=mode)
    if converted is None:  # only for a conversion in place
        raise ValueError("no converted image")
    return converted


def encode_png(image: Image.Image) -> bytes:
    """PNG bytes of an image, the same for the same pixels and Pillow version."""
    buffer = io.BytesIO()
    image.save(buffer, format="PNG", compress_level=PNG_COMPRESS_LEVEL)
    return buffer.getvalue()


def encode_image(image: Image.Image, image_format: str, jpeg_quality: int) -> bytes:
    """``image`` as png, lossless webp or jpeg bytes (``jpeg_quality`` 1 to 100)."""
    if image_format == "png":
        return encode_png(image)
    buffer = io.BytesIO()
    if image_format == "webp":
        image.save(buffer, format="WEBP", lossless=True, method=WEBP_METHOD, quality=WEBP_EFFORT, exact=True)
    else:
        image.save(buffer, format="JPEG", quality=jpeg_quality, subsampling=0)
    return buffer.getvalue()


def image_sha256(image: Image.Image) -> str:
    """SHA-256 (64 hex) of the size, ``{width}x{height}:``, followed by the RGB bytes in row order."""
    rgb = to_rgb(image)
    return _sha256(rgb.width, rgb.height, rgb.tobytes())


def rgb_sha256(pixels: np.ndarray[Any, Any]) -> str:
    """``image_sha256`` of RGB pixels, [H, W, 3] uint8."""
    height, width, _ = pixels.shape
    return _sha256(width, height, np.ascontiguousarray(pixels).data)


def _sha256(width_px: int, height_px: int, rgb: bytes | memoryview) -> str:
    digest = hashlib.sha256(f"{width_px}x{height_px}:".encode())
    digest.update(rgb)
    return digest.hexdigest()
