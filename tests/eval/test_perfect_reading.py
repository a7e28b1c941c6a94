"""True trigrams of characters against those of the words as texts."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.data_gen.characters import Characters
from tilewright.eval.perfect_reading import true_trigrams
from tilewright.train.nano_characters import trigrams_of


def characters(words: list[str]) -> Characters:
    """``words`` as the characters of a tile; where they stand doesn't matter here."""
    text = "".join(words)
    firsts = np.array([place == 0 for word in words for place, _ in enumerate(word)], dtype=bool)
    codes = np.array([ord(character) for character in text], dtype=np.uint32)
    return Characters(codes, np.zeros((len(text), 2), np.float32), np.zeros(len(text), np.float32), firsts, firsts)


def test_a_word_by_hand() -> None:
    trigrams, places = true_trigrams(characters(["it's", "A1"]))
    assert trigrams.tolist() == np.concatenate([trigrams_of("it's"), trigrams_of("a1")]).tolist()
    assert places.tolist() == [0, 1, 3, 4, 5]  # the apostrophe is a boundary


def test_no_characters() -> None:
    trigrams, places = true_trigrams(characters([]))
    assert len(trigrams) == len(places) == 0


shown = st.text(st.sampled_from("abZ09.,-'éßЖ("), min_size=1, max_size=6)


@settings(max_examples=200, deadline=None)
@given(st.lists(shown, max_size=6))
def test_trigrams_are_those_of_the_words_as_texts(words: list[str]) -> None:
    wanted = [trigram for word in words for trigram in trigrams_of(word).tolist()]
    assert true_trigrams(characters(words))[0].tolist() == wanted
