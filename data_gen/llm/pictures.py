"""Pictures as they are sent: byte for byte where they fit, else scaled and encoded again."""

import base64
import hashlib
import io
import math
from dataclasses import dataclass

from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image
from tilewright.data_gen.llm.failures import CallError
from tilewright.data_gen.llm.request import ImagePart
from tilewright.data_gen.llm.settings import ImageSettings

_PILLOW = {"png": "PNG", "webp": "WEBP", "jpeg": "JPEG"}


@dataclass(frozen=True)
class SentPicture:
    """Encoded bytes, their SHA-256, media type ("image/png") and size in pixels."""

    data: bytes
    sha256: str
    media_type: str
    size_px: tuple[int, int]

    def url(self) -> str:
        """The picture as a data URL."""
        return f"data:{self.media_type};base64,{base64.b64encode(self.data).decode('ascii')}"


def fitted_px(size_px: tuple[int, int], max_pixels: int | None) -> tuple[int, int]:
    """(width, height) scaled down to at most ``max_pixels`` in all; each side at least 1."""
    width, height = size_px
    if max_pixels is None or width * height <= max_pixels:
        return size_px
    scale = math.sqrt(max_pixels / (width * height))
    fitted_width = min(max(math.floor(width * scale), 1), max_pixels)
    return fitted_width, max(min(math.floor(height * scale), max_pixels // fitted_width), 1)


def send_picture(part: ImagePart, settings: ImageSettings) -> SentPicture:
    """``part`` as ``settings`` want it; the same bytes for the same input. Raises CallError for what is no picture."""
    try:
        with Image.open(io.BytesIO(part.data), formats=("PNG", "WEBP", "JPEG")) as image:
            size_px, stored = image.size, image.format
    except (OSError, SyntaxError, ValueError, Image.DecompressionBombError) as error:
        raise CallError(f"wanted a PNG, WebP or JPEG picture, found {len(part.data)} other bytes") from error
    fitted, media_type = fitted_px(size_px, settings.max_pixels), f"image/{settings.encoding}"
    if fitted == size_px and stored == _PILLOW[settings.encoding]:
        return SentPicture(part.data, part.sha256, media_type, size_px)
    try:
        pixels = decode_image(part.data)
    except InputError as error:
        raise CallError(str(error)) from error
    if fitted != size_px:
        pixels = pixels.resize(fitted, Image.Resampling.LANCZOS)
    try:
        data = _encoded(pixels, settings)
    except (OSError, ValueError) as error:  # WebP holds 16,383 pixels a side, JPEG 65,535
        wanted = "wanted a picture that fits: set llm.image.max_pixels, or encoding png"
        raise CallError(f"{wanted}; found {fitted[0]} x {fitted[1]} px for {settings.encoding} ({error})") from error
    return SentPicture(data, hashlib.sha256(data).hexdigest(), media_type, fitted)


def _encoded(image: Image.Image, settings: ImageSettings) -> bytes:
    buffer = io.BytesIO()
    if settings.encoding == "png":
        image.save(buffer, "PNG", compress_level=1)
    elif settings.encoding == "webp":
        image.save(buffer, "WEBP", lossless=True, quality=20, method=1)
    else:
        image.save(buffer, "JPEG", quality=settings.jpeg_quality, subsampling=0)
    return buffer.getvalue()
