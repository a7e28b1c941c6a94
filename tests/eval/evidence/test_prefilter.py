"""The prefilter's scores are those of bm25s; ties go by page rank and place."""

import bm25s
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.eval.bm25 import tokens
from tilewright.eval.evidence.prefilter import UnitIndex, bm25_scores, prefilter
from tilewright.eval.evidence.units import BLOCK, Unit

WORDS = st.lists(st.sampled_from(["a", "b", "c", "7", "1964", "river"]), min_size=1, max_size=8).map(" ".join)


def index_of(page: str, texts: list[str]) -> UnitIndex:
    return UnitIndex.of([Unit(f"{page}:{n}", page, BLOCK, n, (), "", (), text) for n, text in enumerate(texts)])


@settings(max_examples=50)
@given(st.lists(st.lists(WORDS, max_size=5), min_size=1, max_size=3), WORDS)
def test_scores_equal_those_of_bm25s(pages: list[list[str]], query: str) -> None:
    texts = [text for page in pages for text in page]
    ours = [score for scores in bm25_scores(query, [index_of("p", page) for page in pages]) for score in scores]
    if not texts or not set(tokens(query)) & {word for text in texts for word in tokens(text)}:
        assert not any(ours)
        return
    other = bm25s.BM25(k1=1.2, b=0.75, method="lucene")
    other.index([tokens(text) for text in texts], show_progress=False)
    assert ours == pytest.approx(list(map(float, other.get_scores(tokens(query)))), rel=1e-4)


def test_best_first_then_page_rank_and_place() -> None:
    pages = [index_of("x", ["b", "river 1964", "b"]), index_of("y", ["river", "b", "1964 river river"])]
    found = [unit.unit_id for unit in prefilter("1964 river?", pages, 5)]
    assert set(found[:2]) == {"x:1", "y:2"} and found[2:] == ["y:0", "x:0", "x:2"]
    assert [unit.unit_id for unit in prefilter("nothing", pages, 2)] == ["x:0", "x:1"]
    assert np.isfinite(sum(map(sum, bm25_scores("", pages))))
