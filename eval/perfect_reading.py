"""What nano would read on a tile if it read every character: the ceiling of its vectors."""

import numpy as np

from tilewright.data_gen.characters import Array, Characters
from tilewright.train.nano_characters import BOUNDARY, LETTER_OF, class_of, trigram


def true_trigrams(characters: Characters) -> tuple[Array, Array]:
    """(trigrams [N], places [N]): the trigram around each character that is a letter, and its place among them.

    As nano makes them of texts, word by word: what stands around a letter is a boundary at the ends of its word and
    beside punctuation.
    """
    letters = LETTER_OF[[class_of(int(code)) for code in characters.codes]] if len(characters) else np.zeros(0, int)
    firsts = characters.firsts
    before = np.where(firsts, BOUNDARY, np.roll(letters, 1))
    after = np.where(np.roll(firsts, -1), BOUNDARY, np.roll(letters, -1))
    after[-1:] = BOUNDARY
    places = np.flatnonzero(letters != BOUNDARY)
    return trigram(before[places], letters[places], after[places]), places
