"""Overlaps and covers of tiles, against counting pixels."""

import dataclasses

from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.records import Page
from tilewright.data_gen.store.geometry import Rectangle, overlaps, problems_of_page
from tilewright.data_gen.tiles import tile_boxes

PAGE = Page("0" * 16, "u", "t", "", "s", 100, 90, True, 0)
SIDES = st.integers(1, 6)


def grid(width_px: int, height_px: int) -> list[Rectangle]:
    boxes = tile_boxes(width_px, height_px, 40, 40, 8)
    return [Rectangle(f"{b.row}-{b.column}", b.x_px, b.y_px, b.width_px, b.height_px) for b in boxes]


@given(st.lists(st.tuples(st.integers(0, 8), st.integers(0, 8), SIDES, SIDES), max_size=7))
def test_overlaps_are_shared_pixels(places: list[tuple[int, int, int, int]]) -> None:
    tiles = [Rectangle(str(number), *place) for number, place in enumerate(places)]
    pixels = {
        tile.tile_id: {
            (x, y)
            for x in range(tile.x_px, tile.x_px + tile.width_px)
            for y in range(tile.y_px, tile.y_px + tile.height_px)
        }
        for tile in tiles
    }
    found = overlaps(tiles)
    assert all(pixels[one] & pixels[other] for one, other in found)
    rest = [tile.tile_id for tile in tiles if tile.tile_id not in {other for _, other in found}]
    assert sum(len(pixels[name]) for name in rest) == len(set().union(*(pixels[name] for name in rest)))


@given(st.integers(1, 300), st.integers(1, 300), st.data())
def test_a_grid_covers_its_page(width_px: int, height_px: int, data: st.DataObject) -> None:
    tiles = grid(width_px, height_px)
    page = dataclasses.replace(PAGE, width_px=width_px, height_px=height_px, tile_count=len(tiles))
    assert problems_of_page(tiles, page) == [] == problems_of_page(tiles, None)
    victim = data.draw(st.sampled_from(tiles))
    without = [tile for tile in tiles if tile is not victim]
    (problem,) = problems_of_page(without, dataclasses.replace(page, tile_count=len(without)))
    assert problem[0] == page.page_id and "cover" in problem[1]
    sampled = dataclasses.replace(page, tile_count=len(without), complete=False)
    assert problems_of_page(without, sampled) == []
    assert "its record says" in problems_of_page(without, dataclasses.replace(sampled, tile_count=9999))[0][1]


def test_moved_tiles_are_named() -> None:
    tiles = grid(100, 90)
    page = dataclasses.replace(PAGE, tile_count=len(tiles))
    moved = [dataclasses.replace(tiles[0], x_px=1), *tiles[1:]]
    assert ("0-1", "overlaps 0-0") in problems_of_page(moved, page)
    for change in ({"x_px": -1}, {"y_px": 89}, {"width_px": 500}):
        changed = [*tiles[:-1], dataclasses.replace(tiles[-1], **change)]
        assert any("reaches out" in what for _, what in problems_of_page(changed, page))
    assert any("no pixels" in what for _, what in problems_of_page([dataclasses.replace(tiles[0], width_px=0)], page))
