"""Characters of tiles: cut from a page, joined to a table, opened; pure, on hand-made pages and stores."""

import pickle
from collections.abc import Callable
from itertools import accumulate
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.characters import (
    CHARACTERS,
    Characters,
    CharacterTable,
    PageCharacters,
    page_file,
    text_of,
    write_page,
    write_table,
)
from tilewright.data_gen.dom_layer import DomLayer
from tilewright.data_gen.records import Tile
from tilewright.data_gen.store.edit import replace_pages
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.data_gen.tiles import TileBox, tile_boxes

MakeTile = Callable[..., Tile]
WORD = st.tuples(
    st.booleans(),
    st.lists(st.tuples(st.integers(33, 0x10FFFF), st.integers(0, 99 * 128), st.integers(0, 199 * 128)), max_size=6),
)


def line(text: str, x_px: float, y_px: float, *, begins: bool = True) -> list[Any]:
    """A word of characters 10 px wide and 8 px high."""
    return [begins, *([ord(one), x_px + 10 * place + 5, y_px, 8] for place, one in enumerate(text))]


def layer(words: list[Any] | None) -> DomLayer:
    data: dict[str, Any] = {"width_px": 100, "height_px": 200, "words": [], "blocks": [], "links": [], "bases": []}
    data |= {"has_fixed_parts": False, "areas": {kind: [] for kind in ("infobox", "table", "list", "paragraph")}}
    return DomLayer(data if words is None else data | {"characters": words}, "https://example.com/")


def found(tile: Characters) -> list[tuple[str, list[bool]]]:
    return [(text, tile.starts[part].tolist()) for text, part in tile.words()]


def test_of_a_cut_word_each_tile_has_its_part() -> None:
    page = layer([line("abcd", 20, 10), line("efgh", 70, 10), line("z", 0, 110)])
    left, right, below = TileBox(0, 0, 0, 0, 85, 100), TileBox(0, 1, 85, 0, 85, 100), TileBox(1, 0, 0, 100, 85, 100)
    tile = page.cut_characters(left)
    assert found(tile) == [("abcd", [True, False, False, False]), ("e", [True])]
    assert tile.centres_px.tolist() == [[25, 10], [35, 10], [45, 10], [55, 10], [75, 10]]
    assert tile.heights_px.tolist() == [8.0] * 5
    assert [values.dtype.str for values in (tile.codes, tile.centres_px, tile.heights_px)] == ["<u4", "<f4", "<f4"]
    rest = page.cut_characters(right)
    assert found(rest) == [("fgh", [False] * 3)]  # "f", whose centre lies on the edge, is on the right of it
    assert rest.centres_px.tolist() == [[0, 10], [10, 10], [20, 10]] and rest.firsts.tolist() == [True, False, False]
    assert found(page.cut_characters(below)) == [("z", [True])]
    assert page.cut_characters(below).centres_px.tolist() == [[5, 10]]


def test_neighbours_that_are_cut_are_words_of_their_own() -> None:
    """Two words whose beginnings lie elsewhere stand next to each other without a start between them."""
    page = layer([line("ab", 80, 10), line("cd", 80, 30), line("ef", 90, 50, begins=False)])
    tile = page.cut_characters(TileBox(0, 1, 90, 0, 85, 100))
    assert found(tile) == [("b", [False]), ("d", [False]), ("ef", [False, False])]


def test_pages_without_characters() -> None:
    for words in (None, [], [[None], [None]]):
        tile = layer(words).cut_characters(TileBox(0, 0, 0, 0, 100, 200))
        assert len(tile) == 0 and tile.words() == [] and tile.centres_px.shape == (0, 2)


@given(st.lists(WORD, max_size=8))
def test_every_character_on_exactly_one_tile(words: list[tuple[bool, list[tuple[int, int, int]]]]) -> None:
    """Put together again by place, the tiles are the page; starts are those of the page, whatever the cuts."""
    page = layer([[begins, *([code, x / 128, y / 128, 1] for code, x, y in rows)] for begins, rows in words])
    whole = {row: 0 for _, rows in words for row in rows}  # how often each stands on some tile
    for box in tile_boxes(100, 200, 60, 90, 16):
        tile = page.cut_characters(box)
        for code, (x, y) in zip(tile.codes.tolist(), tile.centres_px.tolist(), strict=True):
            assert 0 <= x < box.width_px and 0 <= y < box.height_px
            whole[code, round((x + box.x_px) * 128), round((y + box.y_px) * 128)] += 1
        assert "".join(text for text, _ in tile.words()) == text_of(tile.codes)
        assert not np.any(tile.starts & ~tile.firsts)
    assert whole == {key: sum(rows.count(key) for _, rows in words) for key in whole}
    one = page.cut_characters(TileBox(0, 0, 0, 0, 100, 200))
    assert int(one.starts.sum()) == sum(begins and bool(rows) for begins, rows in words)
    assert int(one.firsts.sum()) == sum(bool(rows) for _, rows in words)


def test_code_points_of_all_kinds_are_text() -> None:
    codes = np.array([0x41, 0x1F642, 0xD83D, 0xDE00, 0x10FFFF], np.uint32)
    assert text_of(codes) == "A🙂\ud83d\ude00\U0010ffff" and [ord(one) for one in text_of(codes)] == codes.tolist()


class Made:
    """A store of pages with some tiles each, and its characters: tile ``number`` of a page holds ``number`` words."""

    def __init__(self, folder: Path, make_tile: MakeTile, titles: str = "abc", words: int = 3) -> None:
        self.folder, self.work = folder, folder / "work"
        self.work.mkdir(parents=True)
        self.tiles: dict[str, Characters] = {}
        tiles = [make_tile(title, [], row) for title in titles for row in range(4)]
        write_store(folder / "store", sorted(tiles, key=lambda tile: tile.tile_id))
        for title in titles:
            of_page = {}
            for tile in (tile for tile in tiles if tile.title == title):
                rows = [line(f"{title}🙂{tile.row}", 30 * n, 9 + n) for n in range(tile.row * words // 3)]
                of_page[tile.tile_id] = PageCharacters(rows).cut(np.arange(3 * len(rows)), 0, 0)
            write_page(page_file(self.work, tile.page_id), of_page)
            self.tiles |= of_page
        self.store = TileStore.open(folder)
        self.count = write_table(folder / CHARACTERS, self.store, self.work)


def same(one: Characters, other: Characters) -> bool:
    return all(np.array_equal(vars(one)[name], vars(other)[name]) for name in vars(one))


def test_a_table_gives_back_what_was_written(tmp_path: Path, make_tile: MakeTile) -> None:
    made = Made(tmp_path, make_tile)
    table = CharacterTable.open(tmp_path, made.store)
    assert len(table) == 12 and made.count == sum(map(len, made.tiles.values())) == 3 * 3 * (1 + 2 + 3)
    for opened in (table, CharacterTable.open(tmp_path / CHARACTERS, made.store), pickle.loads(pickle.dumps(table))):
        for position, tile_id in enumerate(made.store.tile_ids):
            assert same(opened.of(tile_id), made.tiles[tile_id]) and same(opened.at(position), made.tiles[tile_id])
    offsets = np.load(tmp_path / CHARACTERS / "offsets.npy").tolist()
    assert offsets == [0, *accumulate(len(made.tiles[tile_id]) for tile_id in made.store.tile_ids)]
    assert np.load(tmp_path / CHARACTERS / "centres.npy").shape == (made.count, 2)
    with pytest.raises(IndexError, match="from 0 to 11, found 12"):
        table.at(12)
    with pytest.raises(IndexError):
        table.at(-1)
    with pytest.raises(InputError, match="no tile '0-0-0' among its 12"):
        table.of("0-0-0")


def test_a_table_is_mapped_and_read_only(tmp_path: Path, make_tile: MakeTile) -> None:
    made = Made(tmp_path, make_tile)
    tile = CharacterTable.open(tmp_path, made.store).at(3)
    with pytest.raises(ValueError, match="read-only"):
        tile.codes[0] = 1


def test_a_store_without_characters(tmp_path: Path, make_tile: MakeTile) -> None:
    made = Made(tmp_path, make_tile, words=0)
    table = CharacterTable.open(tmp_path, made.store)
    assert made.count == 0 and [len(table.at(position)) for position in range(12)] == [0] * 12
    nothing = Made(tmp_path / "none", make_tile, titles="")
    assert len(CharacterTable.open(nothing.folder, nothing.store)) == 0


def test_a_table_of_another_store_is_refused(tmp_path: Path, make_tile: MakeTile) -> None:
    made, other = Made(tmp_path / "one", make_tile), Made(tmp_path / "other", make_tile, titles="abd")
    with pytest.raises(InputError, match=r"belongs to another store than .*other"):
        CharacterTable.open(made.folder, other.store)
    with pytest.raises(InputError, match="wanted a table of characters"):
        CharacterTable.open(made.work, made.store)
    (made.folder / CHARACTERS / "about.json").write_text("[]")
    with pytest.raises(InputError, match=r"about\.json: not readable"):
        CharacterTable.open(made.folder, made.store)


def test_a_table_of_pages_that_were_replaced_is_refused(tmp_path: Path, make_tile: MakeTile) -> None:
    made = Made(tmp_path, make_tile)
    again = [make_tile("a", [], row) for row in range(4)]  # the same ids; other pixels and words for all we know
    replace_pages(tmp_path, sorted(again, key=lambda tile: tile.tile_id))
    store = TileStore.open(tmp_path)
    assert list(store.tile_ids) == list(made.store.tile_ids)
    with pytest.raises(InputError, match="pages came or went since"):
        CharacterTable.open(tmp_path, store)


def test_damaged_tables_are_refused(tmp_path: Path, make_tile: MakeTile) -> None:
    made = Made(tmp_path, make_tile)
    place = tmp_path / CHARACTERS
    offsets = np.load(place / "offsets.npy")
    for damaged, match in (
        (offsets[:-1], r"wanted \(13,\) of <i8, found \(12,\)"),
        (offsets.astype(np.int32), "found .* of <i4"),
        (offsets + 1, "ascending numbers from 0"),
        (offsets[[0, *range(12, 0, -1)]], "ascending|wanted"),
    ):
        np.save(place / "offsets.npy", damaged)
        with pytest.raises(InputError, match=match):
            CharacterTable.open(tmp_path, made.store)
    np.save(place / "offsets.npy", offsets)
    whole = (place / "codes.npy").read_bytes()
    for damaged in (b"x", whole[:10] + b"{'descr': '<u4', ".ljust(117) + b"\n" + whole[128:]):
        (place / "codes.npy").write_bytes(damaged)
        with pytest.raises(InputError, match=r"codes.npy: not a readable array"):
            CharacterTable.open(tmp_path, made.store)


def test_pages_that_are_missing_or_of_other_tiles_are_refused(tmp_path: Path, make_tile: MakeTile) -> None:
    made = Made(tmp_path, make_tile)
    first, *_, last = sorted(made.work.iterdir())
    kept = first.read_bytes()
    first.write_bytes(last.read_bytes())
    with pytest.raises(InputError, match="wanted the characters of the tiles that the store has"):
        write_table(tmp_path / CHARACTERS, made.store, made.work)
    first.write_bytes(kept[:-30])
    with pytest.raises(InputError, match="wanted the characters of page"):
        write_table(tmp_path / CHARACTERS, made.store, made.work)
    first.unlink()
    with pytest.raises(InputError, match="wanted the characters of page"):
        write_table(tmp_path / CHARACTERS, made.store, made.work)
