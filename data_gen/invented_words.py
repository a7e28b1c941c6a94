"""Invented names made of syllables; each belongs to one split, whoever draws it."""

import hashlib
import random
from collections.abc import Mapping

from tilewright.configs.errors import InputError

CONSONANTS = "bdfghklmnprstvz"
VOWELS = "aeiou"
SYLLABLES_A_WORD = 3
_SHARES = {"train": 0.6, "validation": 0.2, "test": 0.2}
_TRIES = 10_000


class InventedWords:
    """Words of three syllables, drawn from a stock of ``count`` syllables that ``seed`` chooses.

    Which split may use a word depends on the word and the seed alone. Raises InputError for a ``count`` out of range.
    """

    def __init__(self, seed: int, count: int) -> None:
        possible = [consonant + vowel for consonant in CONSONANTS for vowel in VOWELS]
        if not SYLLABLES_A_WORD <= count <= len(possible):
            raise InputError(f"syllables: wanted {SYLLABLES_A_WORD} to {len(possible)}, found {count}")
        self.seed = seed
        self.syllables = sorted(random.Random(f"{seed}/syllables").sample(possible, count))

    def split_of(self, word: str) -> str:
        """The split whose tiles may show ``word``."""
        digest = hashlib.sha256(f"{self.seed}/{word}".encode()).digest()
        return _at(int.from_bytes(digest[:8], "big") / 2**64, _SHARES)

    def draw(self, random_state: random.Random, split: str, count: int) -> list[str]:
        """``count`` different words of ``split``, no syllable twice in a word. Raises InputError if it has too few."""
        words: dict[str, None] = {}
        for _ in range(_TRIES):
            word = "".join(random_state.sample(self.syllables, SYLLABLES_A_WORD)).capitalize()
            if self.split_of(word) == split:
                words[word] = None
            if len(words) == count:
                return list(words)
        raise InputError(f"syllables: {len(self.syllables)} give too few words for the split {split}: take more")


def _at(position: float, shares: Mapping[str, float]) -> str:
    edge = 0.0
    for name, share in shares.items():
        edge += share
        if position < edge:
            return name
    return list(shares)[-1]
