"""Kinds of evidence are given out as wanted, as far as the tiles have them, whatever their order."""

import dataclasses
from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tilewright.data_gen.evidence_balance import KINDS, MIN_EVIDENCE_PX, assign_kinds, check_kind_shares, kinds_on
from tilewright.data_gen.records import Tile

Make = Callable[..., Tile]
AREA = 875 * 1024


def tiles_with(make_tile: Make, kinds: Sequence[Mapping[str, int]]) -> list[Tile]:
    return [dataclasses.replace(make_tile(f"Town {i}", []), evidence_px=dict(px)) for i, px in enumerate(kinds)]


def test_kinds_of_a_tile_by_covered_area(make_tile: Make) -> None:
    (tile,) = tiles_with(make_tile, [{"paragraph": AREA // 2, "table": MIN_EVIDENCE_PX, "list": MIN_EVIDENCE_PX - 1}])
    assert kinds_on(tile) == ("paragraph", "table", "image"), "much is bare: there may be a picture"
    (full,) = tiles_with(make_tile, [{"paragraph": AREA}])
    assert kinds_on(full) == ("paragraph",)


def test_equal_shares_come_out_equal_where_every_tile_has_all(make_tile: Make) -> None:
    everything = dict.fromkeys(("paragraph", "infobox", "table", "list"), AREA // 4)
    tiles = tiles_with(make_tile, [everything] * 40)
    shares = {"paragraph": 1.0, "infobox": 1.0, "table": 2.0}
    assert Counter(assign_kinds(tiles, shares, 0).values()) == {"paragraph": 10, "infobox": 10, "table": 20}


def test_a_rare_kind_is_asked_about_wherever_it_stands(make_tile: Make) -> None:
    common, rare = {"paragraph": AREA}, {"paragraph": AREA // 2, "table": AREA // 2}
    tiles = tiles_with(make_tile, [common] * 30 + [rare] * 5)
    assigned = assign_kinds(tiles, {"paragraph": 0.5, "table": 0.5}, 3)
    assert Counter(assigned.values()) == {"paragraph": 30, "table": 5}


SHARES = st.dictionaries(st.sampled_from(KINDS), st.floats(0.1, 5), max_size=5)
KIND_PX = st.dictionaries(st.sampled_from(KINDS[:4]), st.integers(0, AREA // 4), max_size=4)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    st.lists(KIND_PX, max_size=25), st.dictionaries(st.sampled_from(KINDS), st.floats(0.1, 5), max_size=5), st.data()
)
def test_own_kinds_only_and_no_order_matters(
    make_tile: Make, kinds: list[dict[str, int]], shares: dict[str, float], data: st.DataObject
) -> None:
    tiles = tiles_with(make_tile, kinds)
    assigned = assign_kinds(tiles, shares, 7)
    by_id = {tile.tile_id: tile for tile in tiles}
    assert all(kind in shares and kind in kinds_on(by_id[tile_id]) for tile_id, kind in assigned.items())
    left_out = by_id.keys() - assigned.keys()
    assert all(not set(kinds_on(by_id[tile_id])) & set(shares) for tile_id in left_out)
    assert assign_kinds(data.draw(st.permutations(tiles)), shares, 7) == assigned


@pytest.mark.parametrize("shares", [{"prose": 1.0}, {"table": -1.0}, {"table": 0.0}])
def test_shares_that_make_no_sense_are_refused(shares: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="kind_shares: wanted"):
        check_kind_shares(shares)
