"""How a page is cut into tiles: a pure function of its size."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.errors import InputError

TILE_WIDTH_PX = 875
TILE_HEIGHT_PX = 1024
MIN_PX = 32  # one visual token of Qwen3-VL: patch 16 x merge 2


@dataclass(frozen=True)
class TileBox:
    """Where a tile lies on its page: grid position, and a rectangle in page pixels."""

    row: int
    column: int
    x_px: int
    y_px: int
    width_px: int
    height_px: int


def tile_boxes(
    width_px: int,
    height_px: int,
    tile_width_px: int = TILE_WIDTH_PX,
    tile_height_px: int = TILE_HEIGHT_PX,
    min_px: int = MIN_PX,
) -> list[TileBox]:
    """Boxes that cover every pixel of a ``width_px`` x ``height_px`` page once, row by row, left to right.

    A rest shorter than ``min_px`` joins its neighbour above or to the left. Raises ValueError for a side below 1.
    """
    for name, value in (("width_px", width_px), ("height_px", height_px)):
        if value < 1:
            raise ValueError(f"{name}: wanted at least 1 pixel, found {value}")
    for name, value in (("tile_width_px", tile_width_px), ("tile_height_px", tile_height_px)):
        if value < max(1, min_px):
            raise ValueError(f"{name}: wanted at least min_px = {min_px}, found {value}")
    return [
        TileBox(row, column, x_px, y_px, width, height)
        for row, (y_px, height) in enumerate(_spans(height_px, tile_height_px, min_px))
        for column, (x_px, width) in enumerate(_spans(width_px, tile_width_px, min_px))
    ]


def _spans(length: int, step: int, min_length: int) -> list[tuple[int, int]]:
    """(start, length) of consecutive spans of ``step``; a last one below ``min_length`` joins the one before."""
    starts = list(range(0, length, step))
    if len(starts) > 1 and length - starts[-1] < min_length:
        starts.pop()
    return [(start, end - start) for start, end in zip(starts, [*starts[1:], length], strict=True)]


def in_order_of_id(boxes: Iterable[TileBox]) -> list[TileBox]:
    """``boxes`` as their ids ascend, which stores want: beyond 9,999 rows or 99 columns digits don't line up."""
    return sorted(boxes, key=lambda box: tile_id("", box.row, box.column))


def page_of(tile_id: str) -> str:
    """The page_id of a tile_id (``{page_id}-{row}-{column}``)."""
    return tile_id.partition("-")[0]


def tile_id(page_id: str, row: int, column: int) -> str:
    """``{page_id}-{row:04d}-{column:02d}``."""
    return f"{page_id}-{row:04d}-{column:02d}"


def working_file(work: Path, page_id: str, suffix: str) -> Path:
    """``work/{page_id}.{suffix}``. Raises InputError for an id that isn't the name of a file there."""
    if page_id in ("", ".", "..") or page_id != Path(page_id).name or "\0" in page_id:
        raise InputError(f"page_id {page_id!r}: wanted 16 hex, found what can't name a file")
    return work / f"{page_id}.{suffix}"
