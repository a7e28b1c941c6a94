"""Look-up in the sorted ids, and what a reader meets when a store changes under it."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Tile
from tilewright.data_gen.store.ids import TileIds
from tilewright.data_gen.store.rows import ID_WIDTH
from tilewright.data_gen.tile_store import TileStore, write_store

PAGES = st.sampled_from(["0" * 16, "0" * 15 + "1", "a" * 16, "f" * 16])


@given(st.sets(st.tuples(PAGES, st.integers(0, 20_000), st.integers(0, 120))), st.data())
def test_ids_equal_a_list(places: set[tuple[str, int, int]], data: st.DataObject) -> None:
    listed = sorted(f"{page}-{row:04d}-{column:02d}" for page, row, column in places)
    ids = TileIds(np.array(listed, dtype=f"S{ID_WIDTH}"))
    assert list(ids) == listed and ids[:] == listed and len(ids) == len(listed)
    page = data.draw(PAGES)
    assert [ids[place] for place in ids.of_page(page)] == [item for item in listed if item.startswith(page)]
    assert [ids.position(item) for item in listed] == list(range(len(listed)))
    for wrong in ("", page, f"{page}-", "é", "z" * 99):
        assert ids.position(wrong) is None and wrong not in ids


def test_a_store_that_changes_under_a_reader(tmp_path: Path, make_page: Callable[..., list[Tile]]) -> None:
    """Another store in its place, or none: an error, never another tile's picture."""
    first, other = make_page("First"), make_page("Other")
    write_store(tmp_path / "store", first)
    reader = TileStore.open(tmp_path)
    write_store(tmp_path / "store", other)
    with pytest.raises(InputError, match="was the store changed"):
        reader.image(first[0].tile_id)
    reader = TileStore.open(tmp_path)
    (tmp_path / "store" / "data-00000.arrow").unlink()
    with pytest.raises(InputError, match="not a readable file of tiles"):
        reader.get(other[0].tile_id)
    with pytest.raises(InputError, match="not a readable tile store"):
        TileStore.open(tmp_path)
