"""Whether tiles cover their page: each pixel once, none outside."""

from bisect import bisect_left, insort
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.data_gen.records import Page


@dataclass(frozen=True)
class Rectangle:
    """Where a tile lies on its page, in page pixels."""

    tile_id: str
    x_px: int
    y_px: int
    width_px: int
    height_px: int


def overlaps(tiles: Sequence[Rectangle]) -> list[tuple[str, str]]:
    """Pairs of tiles that share pixels; every tile of an overlap stands in a pair, not every pair is given.

    A line sweeps down the page and holds the x spans it crosses, which are apart from each other: O(n log n).
    """
    pairs: list[tuple[str, str]] = []
    active: list[tuple[int, int, str]] = []  # (x start, x end, tile_id), apart and in order
    ends = sorted((tile.y_px + tile.height_px, tile.x_px, tile.x_px + tile.width_px, tile.tile_id) for tile in tiles)
    gone = 0
    left_out: set[str] = set()
    for tile in sorted(tiles, key=lambda tile: (tile.y_px, tile.x_px, tile.tile_id)):
        while gone < len(ends) and ends[gone][0] <= tile.y_px:
            _, start, end, tile_id = ends[gone]
            if tile_id not in left_out:
                _discard(active, (start, end, tile_id))
            gone += 1
        place = bisect_left(active, (tile.x_px, 0, ""))
        near = [item for item in active[max(0, place - 1) : place + 1] if _touches(item, tile)]
        if near:
            pairs.append((near[0][2], tile.tile_id))
            left_out.add(tile.tile_id)
        else:
            insort(active, (tile.x_px, tile.x_px + tile.width_px, tile.tile_id))
    return pairs


def _touches(span: tuple[int, int, str], tile: Rectangle) -> bool:
    return span[0] < tile.x_px + tile.width_px and tile.x_px < span[1]


def _discard(active: list[tuple[int, int, str]], span: tuple[int, int, str]) -> None:
    place = bisect_left(active, span)
    if place < len(active) and active[place] == span:
        del active[place]


def problems_of_page(tiles: Sequence[Rectangle], page: Page | None) -> list[tuple[str, str]]:
    """(tile_id or page_id, what is wrong) of one page's tiles; ``page``: its record, None if there's none.

    A complete page must be covered, one that was sampled only without overlaps and in its bounds.
    """
    sized = [tile for tile in tiles if tile.width_px > 0 and tile.height_px > 0]
    found = [(tile.tile_id, "has no pixels") for tile in tiles if tile.width_px <= 0 or tile.height_px <= 0]
    found += [(tile_id, f"overlaps {other}") for other, tile_id in overlaps(sized)]
    width_px, height_px = (page.width_px, page.height_px) if page and page.height_px else (None, None)
    for tile in tiles:
        right, bottom = tile.x_px + tile.width_px, tile.y_px + tile.height_px
        outside = tile.x_px < 0 or tile.y_px < 0
        if outside or (width_px is not None and right > width_px) or (height_px is not None and bottom > height_px):
            size = "" if width_px is None else f" of {width_px} x {height_px} px"
            found.append(
                (tile.tile_id, f"reaches out of its page{size}: {tile.x_px}, {tile.y_px} to {right}, {bottom}")
            )
    if page is not None and page.complete and not found:
        covered, area = sum(tile.width_px * tile.height_px for tile in tiles), page.width_px * page.height_px
        if covered != area:
            found.append((page.page_id, f"is complete, but its tiles cover {covered} of {area} px"))
    if page is not None and page.tile_count != len(tiles):
        found.append((page.page_id, f"has {len(tiles)} tiles, its record says {page.tile_count}"))
    return found
