"""Classes, letters and trigrams of texts, by hand and by properties."""

import math
import unicodedata

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tilewright.train.nano_characters import (
    BLANK,
    BOUNDARY,
    CLASSES,
    LETTER_OF,
    LETTERS,
    OTHER,
    OTHER_LETTER,
    TRIGRAMS,
    character_of,
    class_of,
    inverse_document_frequency,
    letters_of,
    trigrams_of,
)

texts = st.text(max_size=40)


def spelled(text: str) -> list[str]:
    """The trigrams of a text as three characters each; `_` is the boundary, `?` any other letter."""
    names = "_" + "abcdefghijklmnopqrstuvwxyz" + "0123456789" + "?"
    return [
        "".join(names[number // power % LETTERS] for power in (LETTERS**2, LETTERS, 1))
        for number in trigrams_of(text).tolist()
    ]


def test_trigrams_by_hand() -> None:
    assert spelled("a") == ["_a_"]
    assert spelled("The Alps") == ["_th", "the", "he_", "_al", "alp", "lps", "ps_"]
    assert spelled("  don't -- 42%") == ["_do", "don", "on_", "_t_", "_42", "42_"]
    assert spelled("Ångström") == spelled("angstrom")
    assert spelled("東京") == ["_??", "??_"]
    assert spelled("¿…!") == ["_?_"]  # the one sign that is neither ASCII nor has an ASCII twin
    assert spelled("") == spelled(" \n") == spelled("-.,") == []


def test_classes_by_hand() -> None:
    assert (CLASSES, LETTERS, TRIGRAMS) == (96, 38, 38**3)
    assert class_of(ord("!")) == 0 and class_of(ord("~")) == 93
    assert class_of(ord("é")) == class_of(ord("e")) and class_of(ord("É")) == class_of(ord("E"))
    assert class_of(ord("’")) == class_of(ord("'")) and class_of(ord("–")) == class_of(ord("-"))
    assert class_of(ord("ß")) == class_of(ord("s")) and class_of(ord("Ł")) == class_of(ord("L"))
    assert {class_of(ord(blank)) for blank in " \t\n\u00a0\u2003\u3000"} == {BLANK}
    assert class_of(ord("京")) == class_of(0xD800) == class_of(0x10FFFF) == OTHER


def test_letters_of_classes() -> None:
    assert LETTER_OF.shape == (CLASSES,)
    assert LETTER_OF[class_of(ord("a"))] == LETTER_OF[class_of(ord("A"))] == 1
    assert LETTER_OF[class_of(ord("z"))] == 26 and LETTER_OF[class_of(ord("9"))] == 36
    assert LETTER_OF[OTHER] == OTHER_LETTER == LETTERS - 1
    assert LETTER_OF[BLANK] == LETTER_OF[class_of(ord("'"))] == BOUNDARY
    assert sorted(set(LETTER_OF.tolist())) == list(range(LETTERS))


@given(st.integers(0, 0x10FFFF))
def test_folding_is_idempotent(code_point: int) -> None:
    found = class_of(code_point)
    assert 0 <= found < CLASSES
    assert class_of(ord(character_of(found))) == found


@given(texts)
def test_letters_have_single_boundaries_around_them(text: str) -> None:
    letters = letters_of(text)
    assert letters[0] == letters[-1] == BOUNDARY
    assert not ((letters[1:] == BOUNDARY) & (letters[:-1] == BOUNDARY)).any()
    assert (letters[1:] != BOUNDARY).sum() == len(trigrams_of(text))
    assert letters.min() >= 0 and letters.max() < LETTERS


@given(texts)
def test_trigrams_tell_the_letters_back(text: str) -> None:
    trigrams = trigrams_of(text)
    middle = trigrams // LETTERS % LETTERS
    assert middle.tolist() == [letter for letter in letters_of(text).tolist() if letter != BOUNDARY]
    inside = trigrams[1:] // LETTERS**2 != BOUNDARY  # a letter goes before: the one of the trigram before
    assert ((trigrams[1:] // LETTERS**2)[inside] == middle[:-1][inside]).all()
    assert ((trigrams[:-1] % LETTERS)[inside] == middle[1:][inside]).all()


@given(texts)
def test_how_accents_are_written_doesnt_matter(text: str) -> None:
    latin = "".join(character for character in unicodedata.normalize("NFC", text) if ord(character) < 0x250)
    assert trigrams_of(unicodedata.normalize("NFD", latin)).tolist() == trigrams_of(latin).tolist()


def test_signs_without_a_width_are_no_letters() -> None:
    assert spelled("to\u00adge\u200bther") == spelled("together")


@given(texts, texts)
def test_texts_joined_by_a_blank_have_the_trigrams_of_both(one: str, other: str) -> None:
    assert trigrams_of(f"{one} {other}").tolist() == [*trigrams_of(one).tolist(), *trigrams_of(other).tolist()]


def test_inverse_document_frequency_by_hand() -> None:
    weights = inverse_document_frequency(["a a a", "a b", "c"])
    assert weights.dtype == np.float32 and weights.shape == (TRIGRAMS,)
    (a,), (b,), (x,) = (trigrams_of(text).tolist() for text in "abx")
    for trigram, holding in ((a, 2), (b, 1), (x, 0)):
        assert math.isclose(weights[trigram], math.log(4 / (1 + holding)) + 1, rel_tol=1e-6)
