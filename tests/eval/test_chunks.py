"""Chunks of texts: nothing is lost, none is too long, cuts are at sentences and lines where they fit."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.chunks import chunks_of

TEXT = "One two three. Four five six! Seven\n\nEight nine ten eleven twelve thirteen fourteen. x"


def words(text: str) -> int:
    return len(text.split())


def test_cuts_at_sentences_and_lines_then_words_then_anywhere() -> None:
    assert [chunk.text for chunk in chunks_of(TEXT, 7, words)] == [
        "One two three. Four five six! Seven",
        "Eight nine ten eleven twelve thirteen fourteen.",
        "x",
    ]
    assert [chunk.text for chunk in chunks_of(TEXT, 3, words)][:2] == ["One two three.", "Four five six!"]
    assert [chunk.text for chunk in chunks_of("abcdefghij", 3, len)] == ["ab", "cde", "fg", "hij"]
    assert chunks_of("  \n ", 5, words) == [] and chunks_of("", 5, words) == []


def test_overlap_repeats_whole_pieces_and_always_goes_on() -> None:
    chunks = chunks_of("a b. c d. e f. g h.", 4, words, overlap=2)
    assert [chunk.text for chunk in chunks] == ["a b. c d.", "c d. e f.", "e f. g h."]
    with pytest.raises(ValueError, match="overlap < tokens"):
        chunks_of("a", 2, words, overlap=2)


@given(st.text(st.sampled_from("ab .!?\n\u2003é"), max_size=200), st.integers(1, 12), st.integers(0, 11))
def test_every_word_is_in_a_chunk_in_order_and_none_is_too_long(text: str, tokens: int, overlap: int) -> None:
    overlap = min(overlap, tokens - 1)
    chunks = chunks_of(text, tokens, words, overlap)
    assert all(1 <= chunk.tokens == words(chunk.text) <= tokens for chunk in chunks)
    assert [chunk.position for chunk in chunks] == list(range(len(chunks)))
    assert [chunk.start for chunk in chunks] == sorted({chunk.start for chunk in chunks})
    if overlap == 0:
        joined = "".join("".join(chunk.text.split()) for chunk in chunks)
        assert joined == "".join(text.split())
    found = text
    for chunk in chunks:
        assert chunk.text in found


@given(st.text(max_size=120), st.integers(1, 20))
def test_any_text_by_characters(text: str, tokens: int) -> None:
    chunks = chunks_of(text, tokens, len)
    assert all(len(chunk.text) <= tokens for chunk in chunks)
    assert "".join("".join(chunk.text.split()) for chunk in chunks) == "".join(text.split())
