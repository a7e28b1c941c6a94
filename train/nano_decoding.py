"""From what each cell is read as to characters and words: what is read twice is kept once, neighbours are heard.

Each cell names its own character and those before and after it in its word. Two cells side by side that name the same
character with the same neighbours saw one character: the surer one stays. Of two characters in a row that follow each
other, the second continues the first one's word if each names the other more than it names an end or a beginning; and
each speaks for what the other is.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from tilewright.train.nano import CELLS, PATCH_PX, Reading
from tilewright.train.nano_characters import BLANK, CLASSES, character_of
from tilewright.train.nano_neighbours import NEIGHBOUR_SHARE, WIDEST_CELLS

Array = np.ndarray[Any, Any]
CELL_PX = PATCH_PX // CELLS
# Chosen on pages of the training corpus (never on held-out ones), where words read right were most:
SAME = 0.05  # probability that two cells agree on both neighbours, above which they saw one character
START_SHARE = 0.5  # of the start head's say in where a word begins
_BESIDE = ((0, 1), (1, -1), (1, 0), (1, 1))  # down, across


@dataclass(frozen=True)
class ReadWord:
    """A word as it is read; ``x_px``, ``y_px``: the centre of the cell of its first character."""

    text: str
    x_px: float
    y_px: float


@dataclass(frozen=True)
class ReadPage:
    """``cells`` [rows, columns · CELLS]: the likeliest class of each; ``classes``: what is left after decoding."""

    cells: Array
    classes: Array
    words: tuple[ReadWord, ...]

    def text(self) -> str:
        """The words of each row, a row a line; empty rows are left out."""
        lines: dict[float, list[str]] = {}
        for word in self.words:
            lines.setdefault(word.y_px, []).append(word.text)
        return "\n".join(" ".join(words) for words in lines.values())


@dataclass(frozen=True)
class _Marks:
    """The N cells that aren't blank, row by row: place, log-probabilities [N, CLASSES] and of being a start [N]."""

    rows: Array
    columns: Array
    characters: Array
    before: Array
    after: Array
    starts: Array

    def __len__(self) -> int:
        return len(self.rows)

    def only(self, kept: Array) -> "_Marks":
        return _Marks(*(getattr(self, name)[kept] for name in self.__dataclass_fields__))


def decode(reading: Reading) -> ReadPage:
    """What a page's cells [rows, columns, ...] say together."""
    height = reading.starts.shape[0]
    characters, before, after = (
        logits.float().log_softmax(-1).view(height, -1, CLASSES).numpy()
        for logits in (reading.characters, reading.before, reading.after)
    )
    starts = reading.starts.float().view(height, -1).numpy()
    cells = characters.argmax(-1)
    rows, columns = np.nonzero(cells != BLANK)
    found = (array[rows, columns] for array in (characters, before, after, starts))
    marks = _Marks(rows, columns, *found)
    marks = marks.only(_seen_once(marks, cells.shape))
    linked = _linked(marks)
    read = _heard(marks, linked)
    classes = np.full(cells.shape, BLANK)
    classes[marks.rows, marks.columns] = read
    return ReadPage(cells, classes, _words(marks, linked, read))


def _seen_once(marks: _Marks, shape: tuple[int, ...]) -> Array:
    """[N] bool: without those that saw what a surer cell beside them saw."""
    classes = marks.characters.argmax(-1)
    sureness = marks.characters.max(-1)
    before, after = np.exp(marks.before), np.exp(marks.after)
    place = np.full((shape[0] + 1, shape[1] + 2), -1)
    place[marks.rows, marks.columns + 1] = np.arange(len(marks))
    kept = np.ones(len(marks), dtype=bool)
    for down, across in _BESIDE:
        other = place[marks.rows + down, marks.columns + 1 + across]
        first = np.flatnonzero((other >= 0) & (classes == classes[other]))
        second = other[first]
        agree = (before[first] * before[second]).sum(-1) * (after[first] * after[second]).sum(-1)
        for one, two in zip(first[agree > SAME], second[agree > SAME], strict=True):
            if kept[one] and kept[two]:
                kept[two if sureness[one] >= sureness[two] else one] = False
    return kept


def _linked(marks: _Marks) -> Array:
    """[N] bool: whether a mark continues the word of the mark that stands before it."""
    linked = np.zeros(len(marks), dtype=bool)
    if len(marks) < 2:
        return linked
    classes = marks.characters.argmax(-1)
    one, two = np.arange(len(marks) - 1), np.arange(1, len(marks))
    start, no_start = -np.logaddexp(0, -marks.starts[two]), -np.logaddexp(0, marks.starts[two])
    goes_on = marks.after[one, classes[two]] + marks.before[two, classes[one]] + START_SHARE * no_start
    begins = marks.after[one, BLANK] + marks.before[two, BLANK] + START_SHARE * start
    near = (marks.rows[one] == marks.rows[two]) & (marks.columns[two] - marks.columns[one] <= WIDEST_CELLS)
    linked[1:] = near & (goes_on > begins)
    return linked


def _heard(marks: _Marks, linked: Array) -> Array:
    """[N] classes, by the cell itself and by its neighbours in the word; never blank."""
    scores = marks.characters.copy()
    later = np.flatnonzero(linked)
    scores[later] += NEIGHBOUR_SHARE * marks.after[later - 1]
    scores[later - 1] += NEIGHBOUR_SHARE * marks.before[later]
    scores[:, BLANK] = -np.inf
    read: Array = scores.argmax(-1)
    return read


def _words(marks: _Marks, linked: Array, read: Array) -> tuple[ReadWord, ...]:
    begins = np.flatnonzero(~linked)
    ends = np.append(begins, len(marks))[1:]
    return tuple(
        ReadWord(
            "".join(character_of(int(number)) for number in read[begin:end]),
            (int(marks.columns[begin]) + 0.5) * CELL_PX,
            (int(marks.rows[begin]) + 0.5) * PATCH_PX,
        )
        for begin, end in zip(begins, ends, strict=True)
    )
