"""Where a text stands on a tile: boxes around its words, found in the DOM text; none rather than a wrong one."""

import math
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

from tilewright.data_gen.records import Tile, Word

Box = tuple[float, float, float, float]  # left, top, right, bottom in tile px
_LINE_OVERLAP = 0.5  # of the lower of two words: more in common, and they stand on one line
_GAP_HEIGHTS = 1.5  # words of a line farther apart than this many of their heights get boxes of their own


@dataclass(frozen=True)
class Highlight:
    """``span``: a box for each line of each place shown. ``answer``: within them, where the answer stands.

    ``places``: how many places are shown, of ``found`` where the span stands.
    """

    span: tuple[Box, ...]
    answer: tuple[Box, ...]
    places: int
    found: int


def highlight(tile: Tile, span: str, answer: str) -> Highlight:
    """The places of ``span`` on ``tile``: those in whose blocks ``answer`` stands, else all; maybe none."""
    found = occurrences(tile.words, span)
    shown = [place for place in found if _block_holds(tile.words, place, answer)] or found
    spans = [[tile.words[index] for index in place] for place in shown]
    answers = [[words[index] for index in place] for words in spans for place in occurrences(words, answer)]
    return Highlight(_boxes(spans, tile), _boxes(answers, tile), len(shown), len(found))


def occurrences(words: Sequence[Word], wanted: str) -> list[tuple[int, ...]]:
    """Every place of ``wanted`` among ``words``: the indices of the words that it covers.

    White space doesn't matter; letter case only if the exact text stands somewhere. Words are tried block by block,
    as in the tile's text, then in their own order. A place that begins or ends inside a number or a word is none
    (scripts without blanks aside), nor is one that puts a number together from two words.
    """
    by_block = sorted(range(len(words)), key=lambda index: (words[index].block < 0, words[index].block))
    for order in (by_block, list(range(len(words)))):
        for fold in (str, str.casefold):
            texts = ["".join(fold(words[index].text).split()) for index in order]
            found = _places(texts, [fold(token) for token in wanted.split()])
            if found:
                return [tuple(order[position] for position in place) for place in found]
    return []


def _places(texts: Sequence[str], tokens: Sequence[str]) -> list[range]:
    """Ranges of ``texts`` that hold ``tokens``, put together without blanks."""
    whole, wanted = "".join(texts), "".join(tokens)
    owners = [number for number, text in enumerate(texts) for _ in text]
    blanks = set(accumulate(map(len, tokens)))
    found: dict[range, None] = {}
    start = whole.find(wanted) if wanted else -1
    while start >= 0:
        end = start + len(wanted)
        first, last = owners[start], owners[end - 1]
        inside = range(start + 1, end)
        joined = any(
            owners[at - 1] != owners[at] and at - start not in blanks and whole[at - 1 : at + 1].isdigit()
            for at in inside
        )
        if not joined and not _cuts(whole, owners, start) and not _cuts(whole, owners, end):
            found[range(first, last + 1)] = None
        start = whole.find(wanted, start + 1)
    return list(found)


def _cuts(whole: str, owners: Sequence[int], at: int) -> bool:
    """Whether a border before character ``at`` parts what belongs together: letters of a word, digits of a number."""
    if at in (0, len(whole)) or owners[at - 1] != owners[at]:
        return False
    before, after = whole[at - 1], whole[at]
    if before.isalnum() and after.isalnum():
        return "Lo" not in (unicodedata.category(before), unicodedata.category(after))
    digits_around = (whole[at - 2 : at - 1], after) if before in ".," else (before, whole[at + 1 : at + 2])
    return (before in ".," or after in ".,") and all(char.isdigit() for char in digits_around)


def _block_holds(words: Sequence[Word], place: Sequence[int], answer: str) -> bool:
    """Whether ``answer`` stands in a block that ``place`` touches."""
    blocks = {words[index].block for index in place} - {-1}
    around = [word for index, word in enumerate(words) if word.block in blocks or index in place]
    return bool(occurrences(around, answer))


def _boxes(places: Sequence[Sequence[Word]], tile: Tile) -> tuple[Box, ...]:
    """Lines of words, cut to the tile; what has no area there is left out."""
    lines = [line for words in places for line in _lines(words)]
    inside = [
        (max(0.0, left), max(0.0, top), min(float(tile.width_px), right), min(float(tile.height_px), bottom))
        for left, top, right, bottom in lines
    ]
    return tuple(dict.fromkeys(box for box in inside if box[0] < box[2] and box[1] < box[3]))


def _lines(words: Sequence[Word]) -> list[Box]:
    """Boxes around neighbours on one line of one block."""
    lines: list[Box] = []
    block = None
    for word in words:
        box = (word.x_px, word.y_px, word.x_px + word.width_px, word.y_px + word.height_px)
        if not all(map(math.isfinite, box)):
            continue
        if lines and word.block == block and _on_one_line(lines[-1], box):
            last = lines[-1]
            lines[-1] = (min(last[0], box[0]), min(last[1], box[1]), max(last[2], box[2]), max(last[3], box[3]))
        else:
            lines.append(box)
        block = word.block
    return lines


def _on_one_line(line: Box, word: Box) -> bool:
    height = min(line[3] - line[1], word[3] - word[1])
    overlap = min(line[3], word[3]) - max(line[1], word[1])
    gap = max(line[0], word[0]) - min(line[2], word[2])
    return height > 0 and overlap >= _LINE_OVERLAP * height and gap <= _GAP_HEIGHTS * height
