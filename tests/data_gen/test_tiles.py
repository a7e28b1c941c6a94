"""tile_boxes covers every pixel once, by counting pixels; ids have one form."""

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.tile_store import TILE_ID
from tilewright.data_gen.tiles import TileBox, in_order_of_id, tile_boxes, tile_id, working_file


@given(st.integers(1, 400), st.integers(1, 500), st.integers(8, 90), st.integers(8, 120), st.integers(1, 8))
def test_every_pixel_once(width_px: int, height_px: int, tile_width_px: int, tile_height_px: int, min_px: int) -> None:
    covered = np.zeros((height_px, width_px), dtype=np.int32)
    boxes = tile_boxes(width_px, height_px, tile_width_px, tile_height_px, min_px)
    for box in boxes:
        covered[box.y_px : box.y_px + box.height_px, box.x_px : box.x_px + box.width_px] += 1
    assert (covered == 1).all()
    assert len({(box.row, box.column) for box in boxes}) == len(boxes)
    assert all(box.height_px < tile_height_px + min_px and box.width_px < tile_width_px + min_px for box in boxes)


def test_a_full_page_by_hand() -> None:
    assert tile_boxes(875, 2075) == [TileBox(0, 0, 0, 0, 875, 1024), TileBox(1, 0, 0, 1024, 875, 1051)]
    assert tile_boxes(875, 2080) == [
        TileBox(0, 0, 0, 0, 875, 1024),
        TileBox(1, 0, 0, 1024, 875, 1024),
        TileBox(2, 0, 0, 2048, 875, 32),
    ]
    assert tile_boxes(875, 5) == [TileBox(0, 0, 0, 0, 875, 5)]
    assert [(box.column, box.width_px) for box in tile_boxes(900, 10)] == [(0, 900)]
    assert [(box.column, box.width_px) for box in tile_boxes(1000, 10)] == [(0, 875), (1, 125)]
    assert len(tile_boxes(875, 200_000)) == 196


@pytest.mark.parametrize("sizes", [(0, 5), (5, 0), (5, 5, 0, 5), (5, 5, 16, 16, 32)])
def test_impossible_sizes(sizes: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="wanted at least"):
        tile_boxes(*sizes)


def test_ids() -> None:
    assert tile_id("0123456789abcdef", 3, 1) == "0123456789abcdef-0003-01"
    for row, column in ((0, 0), (9999, 99), (12345, 0)):
        assert TILE_ID.fullmatch(tile_id("0123456789abcdef", row, column))


@given(st.integers(1, 300), st.integers(9_990, 10_020))
def test_ids_ascend_also_with_more_digits(columns: int, rows: int) -> None:
    boxes = tile_boxes(columns, rows, 1, 1, 1)[-20 * columns :]  # around the row where digits are added
    ids = [tile_id("0" * 16, box.row, box.column) for box in in_order_of_id(boxes)]
    assert ids == sorted(ids) and len(ids) == len(boxes)


@pytest.mark.parametrize("page_id", ["../x", "/tmp/x", "a/b", "..", ".", "", "a\0b"])
def test_an_id_that_is_a_path_names_no_working_file(tmp_path: Path, page_id: str) -> None:
    assert working_file(tmp_path, "0" * 16, "arrow") == tmp_path / "0000000000000000.arrow"
    with pytest.raises(InputError, match="can't name a file"):
        working_file(tmp_path, page_id, "arrow")
