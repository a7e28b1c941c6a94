"""What the settings of the grounded annotator let through, and that the rest is counted."""

import dataclasses
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.load import build
from tilewright.data_gen.annotator import Generated, RawPair, Skip
from tilewright.data_gen.grounded.annotator import GroundedAnnotator
from tilewright.data_gen.grounded.selection import is_easy, is_hard, selected
from tilewright.data_gen.grounded.settings import KINDS, GroundedSettings
from tilewright.data_gen.grounded.terms import contains_title
from tilewright.data_gen.records import Block, Tile


def generated(tile: Tile, settings: GroundedSettings, most: int = 100) -> Generated:
    found = GroundedAnnotator(most, settings).generate(tile)
    return Generated((), found.dropped) if isinstance(found, Skip) else found


def test_defaults_keep_everything(known_tiles: list[Tile]) -> None:
    for tile in known_tiles:
        assert GroundedAnnotator(9, GroundedSettings()).generate(tile) == GroundedAnnotator(9).generate(tile)
    assert build(GroundedSettings, {"kinds": ["table"], "max_per_kind": {"table": 2}}, "x.yaml").kinds == ("table",)


def test_kinds_and_caps(known_tiles: list[Tile]) -> None:
    tile = known_tiles[2]
    everything = generated(tile, GroundedSettings()).pairs
    cells = generated(tile, GroundedSettings(kinds=("table",)))
    assert {pair.source_type for pair in cells.pairs} == {"table"} and len(cells.pairs) == 4
    assert cells.dropped["other_kind"] == len(everything) - 4
    capped = generated(tile, GroundedSettings(max_per_kind={"table": 1}))
    assert [pair.source_type for pair in capped.pairs].count("table") == 1 and capped.dropped["over_max_of_kind"] == 3
    assert generated(tile, GroundedSettings(max_per_kind={"table": 0})).dropped["over_max_of_kind"] == 4
    none = GroundedAnnotator(9, GroundedSettings(kinds=("infobox",))).generate(tile)
    assert isinstance(none, Skip) and none.reason == "nothing_selected" and none.dropped["other_kind"] > 0


def test_difficulty(known_tiles: list[Tile]) -> None:
    for tile in known_tiles:
        everything = generated(tile, GroundedSettings()).pairs
        easy = generated(tile, GroundedSettings(difficulty="easy", easy_words=12))
        assert easy.pairs == tuple(pair for pair in everything if is_easy(pair, tile.title, 12))
        assert easy.dropped["not_easy"] == len(everything) - len(easy.pairs)
        hard = generated(tile, GroundedSettings(difficulty="hard"))
        assert all(is_hard(pair, tile.title) for pair in hard.pairs)
    assert generated(known_tiles[0], GroundedSettings(difficulty="easy")).pairs


def test_hard_questions_name_a_row_by_its_own_name_alone(
    make_tile: Callable[..., Tile], make_block: Callable[..., Block]
) -> None:
    labels = ("Stadium", "Capacity")
    rows = [make_block("table_row", cells=row, labels=labels) for row in (("Moss Park", "900"), ("moss yard", "80"))]
    found = generated(make_tile("Fern League", rows), GroundedSettings(difficulty="hard")).pairs
    queries = {pair.answer: pair.query for pair in found}
    assert "Fern League" not in queries["900"] and "Moss Park" in queries["900"] and "Fern League" in queries["80"]


def pair(query: str, kind: str = "paragraph") -> RawPair:
    return RawPair(query, "x", (), "Moss is green.", kind, "Moss")


@given(st.integers(0, 30), st.integers(0, 30), st.integers(1, 40), st.sampled_from([0.0, 0.2, 0.4, 0.5, 0.9, 1.0]))
def test_the_share_without_title(free: int, titled: int, most: int, share: float) -> None:
    pairs = [pair(f"Who sold fern {i}?") for i in range(free)] + [pair(f"Who sold moss {i}?") for i in range(titled)]
    settings = GroundedSettings(title_free_share=share)
    kept, dropped = selected(pairs, "t", "Moss", most, settings)
    found = sum(not contains_title(one.query, "Moss") for one in kept)
    assert len(kept) <= most and len(kept) + dropped.total() == len(pairs)
    assert abs(found - share * len(kept)) <= 1
    possible = min([most] + [n / s for n, s in ((free, share), (titled, 1 - share)) if s > 0])
    assert len(kept) >= possible - 2
    assert kept == selected(pairs[::-1], "t", "Moss", most, settings)[0]


def test_fractions_even_out_over_tiles() -> None:
    pairs = [pair("Who sold fern 1?"), *(pair(f"Who sold moss {i}?") for i in range(9))]
    settings = GroundedSettings(title_free_share=0.4)  # 1.5 with the title to one without
    kept = [one for tile in range(400) for one in selected(pairs, str(tile), "Moss", 9, settings)[0]]
    share = sum(not contains_title(one.query, "Moss") for one in kept) / len(kept)
    assert share == pytest.approx(0.4, abs=0.02)


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"kinds": ()}, "kinds: wanted at least one"),
        ({"kinds": ("table", "table")}, "none twice"),
        ({"kinds": ("image",)}, "kinds: wanted"),
        ({"max_per_kind": {"tables": 1}}, "max_per_kind: wanted .* found tables: 1"),
        ({"max_per_kind": {"table": -1}}, "max_per_kind: wanted .* found table: -1"),
        ({"easy_words": 0}, "easy_words: wanted at least 1, found 0"),
        ({"title_free_share": 1.1}, r"title_free_share: wanted 0 to 1, found 1\.1"),
    ],
)
def test_settings_that_make_no_sense_are_named(values: dict[str, object], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        dataclasses.replace(GroundedSettings(), **values)  # type: ignore[arg-type]
    assert set(GroundedSettings().kinds) == set(KINDS)
