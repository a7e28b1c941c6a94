"""Spans are framed where they stand, and nowhere else."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.data_gen.records import Block, Tile, Word
from tilewright.data_gen.span_boxes import highlight, occurrences

HEIGHT_PX = 20.0


def words_of(*blocks: str) -> list[Word]:
    """Each block on a line of its own, 10 px a character; "|" parts two words where the page shows no blank."""
    words = []
    for number, block in enumerate(blocks):
        x = 0.0
        for text in block.replace("|", " ").split():
            words.append(Word(text, x, 30.0 * number, 10.0 * len(text), HEIGHT_PX, number))
            x += 10.0 * len(text) + 5.0
    return words


def found(words: Sequence[Word], wanted: str) -> list[str]:
    return [" ".join(words[index].text for index in place) for place in occurrences(words, wanted)]


@pytest.mark.parametrize(
    ("blocks", "wanted", "places"),
    [
        (("It rises 42 km.",), "42 km", ["42 km."]),
        (("It rises 42 km.",), " 42\u00a0\n km ", ["42 km."]),
        (("It rises 42 km.",), "42km", ["42 km."]),
        (("It rises 42km.",), "42 km", ["42km."]),
        (("the (42) stones",), "42", ["(42)"]),
        (("142 and 420",), "42", []),
        (("3.42 and 42,500 and 0.42",), "42", []),
        (("in 1842, and 1842.",), "1842", ["1842,", "1842."]),
        (("1|0 of them",), "10", []),
        (("1|0 of them",), "1 0", ["1 0"]),
        (("Annual report of Ann",), "Ann", ["Ann"]),
        (("Annual report",), "Ann", []),
        (("Moss on moss",), "moss", ["moss"]),
        (("Moss on stone",), "MOSS ON", ["Moss on"]),
        (("Große Straße",), "STRASSE", ["Straße"]),
        (("moss moss moss",), "moss moss", ["moss moss", "moss moss"]),
        (("建築は2020年に完成した。",), "2020年", ["建築は2020年に完成した。"]),
        (("one two", "three four"), "two three", ["two three"]),
        (("one two",), "three", []),
        (("one two",), "  ", []),
        ((), "one", []),
    ],
)
def test_occurrences(blocks: tuple[str, ...], wanted: str, places: list[str]) -> None:
    assert found(words_of(*blocks), wanted) == places


def test_words_of_blocks_that_interleave() -> None:
    """A tile's text has block after block; its words may come in another order, and the span in either."""
    words = [
        Word(text, 10.0 * n, 0.0, 9.0, 20.0, block)
        for n, (text, block) in enumerate(zip("abcd", (0, 1) * 2, strict=True))
    ]
    assert occurrences(words, "a c") == [(0, 2)]
    assert occurrences(words, "b c") == [(1, 2)]
    assert occurrences([dataclasses.replace(word, block=-1) for word in words], "c d") == [(2, 3)]


@given(st.lists(st.text("ab1.é ", min_size=1, max_size=4).filter(str.strip), min_size=1, max_size=8), st.data())
def test_every_run_of_words_is_found_and_nothing_else(texts: list[str], data: st.DataObject) -> None:
    words = [Word(text, 0.0, 0.0, 1.0, 1.0, 0) for text in texts]
    start = data.draw(st.integers(0, len(texts) - 1))
    end = data.draw(st.integers(start + 1, len(texts)))
    wanted = " ".join(texts[start:end])
    places = occurrences(words, wanted)
    assert tuple(range(start, end)) in places
    for place in places:
        assert "".join(wanted.split()) in "".join("".join(texts[index].split()) for index in place)


@pytest.fixture
def tile(make_tile: Callable[..., Tile], make_block: Callable[..., Block]) -> Callable[..., Tile]:
    """tile(*blocks) -> Tile with their words."""

    def make(*blocks: str) -> Tile:
        made = make_tile("T", [make_block("paragraph", block) for block in blocks])
        return dataclasses.replace(made, words=tuple(words_of(*blocks)))

    return make


def test_boxes_are_those_of_the_words(tile: Callable[..., Tile]) -> None:
    shown = highlight(tile("aa bb", "It was 42 km long"), "was 42 km", "42 km")
    assert shown.span == ((25.0, 30.0, 105.0, 50.0),)  # "It" ends at 20, its blank at 25
    assert shown.answer == ((60.0, 30.0, 105.0, 50.0),)
    assert (shown.places, shown.found) == (1, 1)


def test_of_several_places_the_one_whose_block_has_the_answer(tile: Callable[..., Tile]) -> None:
    rows = tile("Height of A 10 m", "Height of B 20 m", "Height of C 120 m")
    one = highlight(rows, "Height of", "20 m")
    assert (one.places, one.found) == (1, 3)
    assert [box[1] for box in one.span] == [30.0]
    every = highlight(rows, "Height of", "99 m")
    assert (every.places, every.found) == (3, 3)
    assert [box[1] for box in every.span] == [0.0, 30.0, 60.0]
    assert highlight(rows, "Width of", "20 m").span == ()


def test_lines_blocks_and_far_words_get_boxes_of_their_own(tile: Callable[..., Tile]) -> None:
    made = tile("a b c", "d")
    far = [*made.words[:2], dataclasses.replace(made.words[2], x_px=400.0), made.words[3]]
    shown = highlight(dataclasses.replace(made, words=tuple(far)), "a b c d", "")
    assert shown.span == ((0.0, 0.0, 25.0, 20.0), (400.0, 0.0, 410.0, 20.0), (0.0, 30.0, 10.0, 50.0))
    mirrored = [dataclasses.replace(word, x_px=100.0 - word.x_px) for word in made.words[:2]]  # right to left
    assert highlight(dataclasses.replace(made, words=tuple(mirrored)), "a b", "").span == ((85.0, 0.0, 110.0, 20.0),)


def test_boxes_stay_on_the_tile(tile: Callable[..., Tile]) -> None:
    made = tile("edge gone odd")
    edge, gone, odd = made.words
    words = (
        dataclasses.replace(edge, x_px=-10.0, y_px=1010.0, height_px=50.0),
        dataclasses.replace(gone, x_px=2000.0),
        dataclasses.replace(odd, x_px=math.nan),
    )
    shown = highlight(dataclasses.replace(made, words=words), "edge gone odd", "")
    assert shown.span == ((0.0, 1010.0, 30.0, 1024.0),) and shown.found == 1
