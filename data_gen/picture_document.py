"""A picture file as a document of pages: one page, or a page a frame for a TIFF."""

from pathlib import Path
from typing import Any

from PIL import Image, ImageSequence

from tilewright.configs.items import ItemError
from tilewright.data_gen.images import upright_rgb

PICTURE_FORMATS = {
    ".png": "PNG",
    ".jpg": "JPEG",
    ".jpeg": "JPEG",
    ".webp": "WEBP",
    ".gif": "GIF",
    ".tif": "TIFF",
    ".tiff": "TIFF",
    ".bmp": "BMP",
}
_SUBFILE_TYPE = 254  # TIFF: bit 0 a smaller copy of another frame, bit 2 a mask
_NO_PAGE = 0b101
_ORIENTATION = 274
_SIDEWAYS = (5, 6, 7, 8)  # EXIF orientations that swap width and height


def fitted_size(width_px: int, height_px: int, max_width_px: int) -> tuple[int, int]:
    """Size of a page that is ``max_width_px`` wide at most; heights are rounded half up and at least 1."""
    if width_px <= max_width_px:
        return width_px, height_px
    return max_width_px, max(1, (2 * height_px * max_width_px + width_px) // (2 * width_px))


class PictureDocument:
    """The picture file at ``path``: ``sizes_px`` [(width, height)] of its pages, each at most ``max_width_px`` wide.

    Wider ones are reduced (Lanczos), narrower ones stay. Raises ItemError for a file of more than ``max_pages``
    frames or ``max_pixels`` pixels in one of them; it says so before any pixel is decoded.
    """

    title = ""

    def __init__(self, path: Path, max_width_px: int, max_pixels: int, max_pages: int) -> None:
        Image.MAX_IMAGE_PIXELS = None  # of this process, which does nothing else: our own limit holds
        self._path, self._max_pixels = path, max_pixels
        # whatever its name says: many a ".png" on the web is a JPEG, which viewers show all the same
        self._image = Image.open(path, formats=sorted(set(PICTURE_FORMATS.values())))
        self._frames = self._page_frames(max_pages)
        self.sizes_px: list[tuple[int, int]] = []
        for frame in self._frames:
            self._image.seek(frame)
            width_px, height_px = self._checked_size()
            self.sizes_px.append(fitted_size(width_px, height_px, max_width_px))
        self._decoded: tuple[int, Image.Image] | None = None

    def _page_frames(self, max_pages: int) -> list[int]:
        if self._image.format != "TIFF":
            return [0]
        frames = []
        for number, frame in enumerate(ImageSequence.Iterator(self._image)):
            if number >= max_pages:
                raise ItemError(f"more than max_pages = {max_pages} frames")
            kind: Any = frame.tag_v2.get(_SUBFILE_TYPE, 0)  # type: ignore[attr-defined]
            if not number or not (isinstance(kind, int) and kind & _NO_PAGE):
                frames.append(number)
        return frames

    def _checked_size(self) -> tuple[int, int]:
        """Width and height of the current frame as shown, from its header."""
        width_px, height_px = self._image.size
        if width_px * height_px > self._max_pixels:
            raise ItemError(f"{width_px} x {height_px} px, max_pixels is {self._max_pixels}")
        # a TIFF's own size is that after turning
        sideways = self._image.format != "TIFF" and self._image.getexif().get(_ORIENTATION) in _SIDEWAYS
        return (height_px, width_px) if sideways else (width_px, height_px)

    def close(self) -> None:
        """Free it."""
        self._decoded = None
        self._image.close()

    def layer(self, number: int) -> dict[str, Any]:
        """No words, no links: reading a picture is the business of OCR."""
        return {"words": [], "blocks": [], "links": []}

    def rows(self, number: int, y_px: int, height_px: int) -> Image.Image:
        """Rows ``y_px`` to ``y_px + height_px`` of a page, RGB, over its whole width."""
        if self._decoded is None or self._decoded[0] != number:
            self._decoded = None  # one page at a time
            self._decoded = number, self._decode(number)
        image = self._decoded[1]
        return image.crop((0, y_px, image.width, y_px + height_px))

    def _decode(self, number: int) -> Image.Image:
        self._image.seek(self._frames[number])
        self._image.load()
        image = upright_rgb(self._image)
        wanted = self.sizes_px[number]
        if image.size == wanted:
            return image
        if fitted_size(*image.size, wanted[0]) != wanted:
            raise ItemError(f"page {number + 1}: wanted a picture that fits {wanted}, found {image.size}")
        return image.resize(wanted, Image.Resampling.LANCZOS)
