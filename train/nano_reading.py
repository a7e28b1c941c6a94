"""What nano reads of whole pages, and how much of what stands there it reads: characters and words.

Reading uses the picture alone; the true places of characters serve to score it.
"""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import torch

from tilewright.data_gen.characters import Characters
from tilewright.train.nano import CELLS, PATCH_PX, NanoModel
from tilewright.train.nano_characters import BLANK, character_of, class_of
from tilewright.train.nano_data import label_cells, padded, patches_of
from tilewright.train.nano_decoding import CELL_PX, ReadPage, ReadWord, decode

NEAR_PX = (8.0, 12.0)  # a word is found where it stands if its first character is read this close (x, y)


@torch.no_grad()
def read_page(model: NanoModel, pixels: np.ndarray, *, bfloat16: bool = False) -> ReadPage:
    """Read uint8 [height, width, 3]; sides are padded to whole patches."""
    height, width = (PATCH_PX * math.ceil(side / PATCH_PX) for side in pixels.shape[:2])
    page = patches_of(torch.from_numpy(padded(pixels, height, width).copy())[None])[0]
    with torch.autocast("cpu", torch.bfloat16, enabled=bfloat16):
        reading = model.read(model.page_states([page])[0])
    return decode(reading)


@dataclass(frozen=True)
class ReadingScore:
    """Counts over pages. ``characters`` of the DOM, of which ``cells_right`` are read in the very cell, before
    decoding, and ``characters_right`` after it, in their cell or beside it (each reading counts once); ``read``:
    characters read; ``words`` of the DOM, of which ``words_right`` are read equal where they stand."""

    characters: int = 0
    cells_right: int = 0
    characters_right: int = 0
    read: int = 0
    words: int = 0
    words_right: int = 0

    def __add__(self, other: "ReadingScore") -> "ReadingScore":
        names = self.__dataclass_fields__
        return ReadingScore(**{name: getattr(self, name) + getattr(other, name) for name in names})

    def figures(self) -> dict[str, float]:
        """Shares; NaN-free: 0 where there is nothing to read."""
        return {
            "cell_recall": self.cells_right / max(1, self.characters),
            "character_recall": self.characters_right / max(1, self.characters),
            "character_precision": self.characters_right / max(1, self.read),
            "word_recall": self.words_right / max(1, self.words),
        }


def score_page(page: ReadPage, characters: Characters) -> ReadingScore:
    """How much of ``characters`` was read. Texts are compared as nano sees them: without accents, signs as ASCII."""
    rows, columns = page.classes.shape[0], page.classes.shape[1] // CELLS
    classes = np.array([class_of(int(code)) for code in characters.codes], dtype=np.int64)
    shown = classes != BLANK
    labels = label_cells(characters, 0, 0, rows, columns).characters.reshape(rows, -1)
    cells_right = int(((labels == page.cells) & (labels != BLANK)).sum())
    true_words = [
        ("".join(character_of(int(number)) for number in classes[part]), *characters.centres_px[part.start])
        for _, part in characters.words()
    ]
    return ReadingScore(
        characters=int(shown.sum()),
        cells_right=cells_right,
        characters_right=_matched(page, classes[shown], characters.centres_px[shown]),
        read=int((page.classes != BLANK).sum()),
        words=len(true_words),
        words_right=_words_right(page.words, true_words),
    )


def _matched(page: ReadPage, classes: np.ndarray, centres_px: np.ndarray) -> int:
    """How many true characters find a cell read as their class, in their own cell or next to it, each cell once."""
    free = page.classes.copy()
    y = (centres_px[:, 1] // PATCH_PX).astype(int)
    x = (centres_px[:, 0] // CELL_PX).astype(int)
    waiting = np.arange(len(classes))
    found = 0
    for down, across in _STEPS:
        left = []
        for index in waiting:
            row, column = y[index] + down, x[index] + across
            inside = 0 <= row < free.shape[0] and 0 <= column < free.shape[1]
            if inside and free[row, column] == classes[index]:
                free[row, column] = BLANK
                found += 1
            else:
                left.append(index)
        waiting = np.array(left, dtype=int)
    return found


_STEPS = ((0, 0), (0, 1), (0, -1), (1, 0), (-1, 0))


def _words_right(read: Sequence[ReadWord], wanted: Iterable[tuple[str, float, float]]) -> int:
    by_text: dict[str, list[ReadWord]] = defaultdict(list)
    for word in read:
        by_text[word.text].append(word)
    right = 0
    for text, x, y in wanted:
        candidates = by_text[text]
        for place, word in enumerate(candidates):
            if abs(word.x_px - x) <= NEAR_PX[0] and abs(word.y_px - y) <= NEAR_PX[1]:
                del candidates[place]
                right += 1
                break
    return right
