"""BM25: Lucene's formula by hand, rankings that must hold, ties by id."""

import math

import pytest

from tilewright.eval.bm25 import K1, B, Bm25, tokens

TEXTS = {
    "t1": "Marie Curie was born in Warsaw in 1867",
    "t2": "Warsaw is the capital of Poland",
    "t3": "The Curie family",
    "t4": "",
}


def test_lucene_formula_by_hand() -> None:
    lengths = [len(tokens(text)) for text in TEXTS.values()]
    idf = math.log(1 + (4 - 1 + 0.5) / (1 + 0.5))
    norm = K1 * (1 - B + B * lengths[1] / (sum(lengths) / 4))
    (hit,) = Bm25(TEXTS).search("Poland", 5)
    assert hit == ("t2", pytest.approx(idf * 1 / (1 + norm), rel=1e-5))


def test_ranking() -> None:
    index = Bm25(TEXTS)
    assert [tile for tile, _ in index.search("Where was Marie Curie born?", 5)][:2] == ["t1", "t3"]
    assert [tile for tile, _ in index.search("WARSAW capital", 5)] == ["t2", "t1"]
    assert index.search("1867", 5)[0][0] == "t1"
    assert len(index.search("Warsaw", 1)) == 1


def test_nothing_shared_is_no_hit() -> None:
    assert Bm25(TEXTS).search("xylophone", 5) == Bm25(TEXTS).search("?!", 5) == ()
    assert Bm25({"t": ""}).search("a", 5) == Bm25({}).search("a", 5) == ()


def test_ties_by_id_and_order_of_texts_changes_nothing() -> None:
    texts = {f"t{number:02d}": "same words here" for number in (7, 3, 9, 1, 5)}
    hits = Bm25(texts).search("words", 3)
    assert [tile for tile, _ in hits] == ["t01", "t03", "t05"]
    assert hits == Bm25(dict(sorted(texts.items()))).search("words", 3)


def test_tokens() -> None:
    assert tokens("The X-15 flew 6.7, ÉTUDE Straße") == ["the", "x", "15", "flew", "6", "7", "étude", "strasse"]
    assert tokens("東京tower 2") == ["東", "京", "tower", "2"]
