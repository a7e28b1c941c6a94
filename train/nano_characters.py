"""The characters that nano reads, and the trigrams that it makes of texts.

Two alphabets: 96 *classes* are what a cell of pixels is read as (printable ASCII, everything else, blank), 38 *letters*
are what is compared (case and accents folded; punctuation and blank are one letter, the boundary of a word).
"""

import unicodedata
from collections.abc import Iterable
from functools import lru_cache
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]
_FIRST, _LAST = 33, 126  # printable ASCII without the blank
OTHER = _LAST - _FIRST + 1
BLANK = OTHER + 1
CLASSES = BLANK + 1
"""Number of classes: 94 printable characters, `OTHER`, `BLANK`."""
BOUNDARY = 0
OTHER_LETTER = 37
LETTERS = 38
"""Number of letters: the boundary, 26 letters, 10 digits, any other character."""
TRIGRAMS = LETTERS**3
_SAME = str.maketrans("‘’‚‛“”„‟′″‐‑‒–—―−…·•×⁄", "''''\"\"\"\"'\"-------..*x/")
_LIGATURES = {"ß": "s", "æ": "a", "Æ": "A", "œ": "o", "Œ": "O", "ø": "o", "Ø": "O", "ł": "l", "Ł": "L", "đ": "d"}


@lru_cache(maxsize=65_536)
def class_of(code_point: int) -> int:
    """The class of a character: without its accents, typographic signs as their ASCII ones; 0 to CLASSES - 1."""
    if 0xD800 <= code_point < 0xE000:
        return OTHER
    character = chr(code_point).translate(_SAME)
    character = _LIGATURES.get(character) or unicodedata.normalize("NFKD", character)[0]
    if character.isspace():
        return BLANK
    return ord(character) - _FIRST if _FIRST <= ord(character) <= _LAST else OTHER


@lru_cache(maxsize=65_536)
def _takes_room(code_point: int) -> bool:
    return unicodedata.category(chr(code_point)) not in ("Mn", "Me", "Cf")


def character_of(class_number: int) -> str:
    """The character of a class; `\\ufffd` for `OTHER`, a blank for `BLANK`."""
    if class_number == BLANK:
        return " "
    return "\ufffd" if class_number == OTHER else chr(class_number + _FIRST)


def _letter_of(class_number: int) -> int:
    if class_number == OTHER:
        return OTHER_LETTER
    character = character_of(class_number).lower()
    if "a" <= character <= "z":
        return 1 + ord(character) - ord("a")
    return 27 + int(character) if "0" <= character <= "9" else BOUNDARY


LETTER_OF = np.array([_letter_of(number) for number in range(CLASSES)])
"""[CLASSES] the letter of each class."""


def letters_of(text: str) -> Array:
    """[N] letters of a text, with a boundary at either end; blanks and punctuation are boundaries, one in a row.

    Accents that follow their letter and signs without a width, such as soft hyphens, are no letters.
    """
    classes = [class_of(code_point) for code_point in map(ord, text) if _takes_room(code_point)]
    letters = np.concatenate([[BOUNDARY], LETTER_OF[classes] if classes else [], [BOUNDARY]]).astype(np.int64)
    kept = np.ones(len(letters), dtype=bool)
    kept[1:] = (letters[1:] != BOUNDARY) | (letters[:-1] != BOUNDARY)
    shown: np.ndarray = letters[kept]
    return shown


def trigram(before: Array, letter: Array, after: Array) -> Array:
    """The number of each trigram, 0 to TRIGRAMS - 1."""
    return (before * LETTERS + letter) * LETTERS + after


def trigrams_of(text: str) -> Array:
    """[N] one trigram around each letter of a text that is no boundary, in order; empty if there's none."""
    letters = letters_of(text)
    inner = np.flatnonzero(letters[1:-1] != BOUNDARY) + 1
    return trigram(letters[inner - 1], letters[inner], letters[inner + 1])


def inverse_document_frequency(texts: Iterable[str]) -> Array:
    """float32 [TRIGRAMS]: log((1 + texts) / (1 + texts with the trigram)) + 1, as scikit-learn's smooth idf."""
    found, count = np.zeros(TRIGRAMS), 0
    for text in texts:
        found[np.unique(trigrams_of(text))] += 1
        count += 1
    return (np.log((1 + count) / (1 + found)) + 1).astype(np.float32)
