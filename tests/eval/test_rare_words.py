"""Rare words: each on one tile, none from the title, the same ones whatever the order of the tiles."""

import dataclasses
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.data_gen.records import Tile
from tilewright.eval.bm25 import tokens
from tilewright.eval.rare_words import rare_word_queries


def tile(number: int, text: str, title: str = "Title") -> Tile:
    page = f"{number:016x}"
    return Tile(f"{page}-0000-00", page, "", title, 0, 0, 0, 0, 1, 1, b"", "", text, {})


def test_a_rare_word_is_long_of_letters_alone_on_one_tile_and_not_in_the_title() -> None:
    first = tile(1, "Abacus abacus, BETA gamma delta; cat 1234 a1b2c3 omega-point Title", "Omega Title")
    second = tile(2, "beta Gamma delta", "Other")
    (query,) = rare_word_queries([first, second], words=2)
    assert sorted(query.query.split()) == ["abacus", "point"]  # of the rest each breaks one rule
    assert (query.tile_id, query.page_id) == (first.tile_id, first.page_id)
    assert rare_word_queries([first, second], words=3) == []
    assert {
        word for item in rare_word_queries([first, second], words=1, shortest=3, depth=9) for word in [item.query]
    } == {
        "abacus",
        "point",
        "cat",
    }


texts = st.lists(
    st.lists(st.sampled_from([f"word{c}" for c in "abcdefghijklmnop"]), max_size=9), min_size=1, max_size=6
)


@settings(max_examples=60, deadline=None)
@given(texts, st.integers(0, 3), st.integers(1, 3))
def test_each_word_stands_on_its_tile_only_and_order_does_not_matter(
    words: list[list[str]], seed: int, depth: int
) -> None:
    tiles = [tile(number, " ".join(found)) for number, found in enumerate(words)]
    queries = rare_word_queries(tiles, words=2, seed=seed, depth=depth)
    by_tile = {item.tile_id: set(tokens(item.text)) for item in tiles}
    for query in queries:
        for word in query.query.split():
            assert [tile_id for tile_id, found in by_tile.items() if word in found] == [query.tile_id]
    drawn = [word for query in queries for word in query.query.split()]
    assert len(drawn) == len(set(drawn))
    shuffled = random.Random(0).sample(tiles, len(tiles))
    again = rare_word_queries(shuffled, words=2, seed=seed, depth=depth)
    assert sorted(again, key=lambda query: query.query_id) == queries


def test_the_seed_draws_other_words() -> None:
    found = tile(1, " ".join(f"word{c}{d}" for c in "abcdef" for d in "abcdef"))
    queries = {rare_word_queries([found], seed=seed)[0].query for seed in range(5)}
    assert len(queries) == 5
    assert rare_word_queries([dataclasses.replace(found, text="")]) == []
