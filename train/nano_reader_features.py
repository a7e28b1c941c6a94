"""What a nano reader looks at: for each word read, how it and its neighbourhood resemble the question's words.

Letters of [., .]: T tiles, N words of a tile, m words of the question, F features.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional as F

from tilewright.train.nano_reader_layout import Layout, layout_of
from tilewright.train.nano_reader_question import KINDS, Asked, slots
from tilewright.train.nano_reader_words import SCALE, TileWords, squashed

Array = np.ndarray[Any, Any]
SLOTS = (-3, -2, -1, 1, 2, 3, 4)  # words of the question around the one that asks
REACHES = (8, 16, 32)  # words of reading order before and after, whose resemblance counts together
GRAM = 4  # words in a row that stand in the question in a row
COLUMN_CELLS = 12  # words whose cells begin so close stand in one column
FOUND = 0.5  # resemblance at which a word counts as one of the question's
_MONTH = re.compile(r"(january|february|march|april|may|june|july|august|september|october|november|december)", re.I)
_NUMBER = re.compile(
    r"(one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|hundred|thousand|million)", re.IGNORECASE
)
_SHAPES: tuple[re.Pattern[str], ...] = (
    re.compile(r"\d"),
    re.compile(r"^\W*[\d.,%$]+\W*$"),
    re.compile(r"^\W*(1\d|20)\d\d\W*$"),
    re.compile(r"^\W*[A-Z]"),
    re.compile(r"^\W*[A-Z]{2,}\W*$"),
    re.compile(r"^[a-z]"),
    re.compile(r"[,;:]$"),
    re.compile(r"[.]$"),
    re.compile(r"[%$]"),
    re.compile(r"[-/]"),
    re.compile(r"[(\[]"),
    re.compile(r"[)\]]"),
)


@dataclass(frozen=True)
class Lines:
    """Words in reading order: texts, the same ``squashed``, and the block [N] that each is of."""

    texts: tuple[str, ...]
    squashed: tuple[str, ...]
    block: Array

    def __len__(self) -> int:
        return len(self.texts)

    def only(self, places: Array) -> "Lines":
        """Those at ``places``."""
        texts, same = (tuple(part[place] for place in places) for part in (self.texts, self.squashed))
        return Lines(texts, same, self.block[places])


@dataclass(frozen=True)
class Page:
    """A tile's words in reading order, ready for any question: vectors [N, DIMENSION], own features [N, .]."""

    words: TileWords
    layout: Layout
    lines: Lines
    vectors: Tensor
    own: Tensor
    columns: tuple[Array, ...]

    def __len__(self) -> int:
        return len(self.lines)


def page_of_words(words: TileWords) -> Page:
    """A tile's words as questions are asked about them."""
    layout = layout_of(words)
    texts = tuple(words.texts[place] for place in layout.order)
    shapes = torch.tensor([_shape(text) for text in texts]).view(len(texts), len(_SHAPES) + 3)
    return Page(
        words=words,
        layout=layout,
        lines=Lines(texts, tuple(map(squashed, texts)), layout.block),
        vectors=torch.from_numpy(words.vectors[layout.order]).float() / SCALE,
        own=torch.cat([shapes, _places(words, layout)], 1),
        columns=_columns(words, layout),
    )


@lru_cache(maxsize=65_536)
def _shape(text: str) -> tuple[float, ...]:
    bare = text.strip(".,;:()[]\"'").lower()
    found = [float(pattern.search(text) is not None) for pattern in _SHAPES]
    return (
        *found,
        float(_MONTH.search(text) is not None),
        float(_NUMBER.fullmatch(bare) is not None),
        min(len(text), 16) / 8,
    )


def _places(words: TileWords, layout: Layout) -> Tensor:
    """[N, 7]: place on the tile, ends of pieces and blocks, how surely the word was read."""
    if not len(words):
        return torch.zeros(0, 7)
    left, right, rows = (array[layout.order].astype(np.float32) for array in (words.left, words.right, words.rows))
    first_piece, last_piece = _ends(layout.piece)
    first_block, _ = _ends(layout.block)
    parts = [left / 200, (right - left) / 16, rows / 64, first_piece, last_piece, first_block, words.sure[layout.order]]
    return torch.from_numpy(np.stack(parts, 1).astype(np.float32))


def _ends(numbers: Array) -> tuple[Array, Array]:
    change = numbers[1:] != numbers[:-1]
    return np.append(True, change).astype(np.float32), np.append(change, True).astype(np.float32)


def _columns(words: TileWords, layout: Layout) -> tuple[Array, ...]:
    """Places (in reading order) of the words in each strip of cells, from top to bottom."""
    left = words.left[layout.order].astype(np.int64)
    by_row = np.argsort(words.rows[layout.order], kind="stable")
    strips = range(int(left.max(initial=0)) // COLUMN_CELLS + 1)
    return tuple(by_row[np.abs(left[by_row] // COLUMN_CELLS - strip) <= 1] for strip in strips)


def features(question: Asked, pages: Sequence[Page]) -> list[Tensor]:
    """[N, F] of each page; a question may have no words, and there may be no pages."""
    if not pages:
        return []
    similar = [(page.vectors @ question.vectors.T).clamp(0, 1.2) for page in pages]  # [N, m]
    weights = _weights(similar)
    total = weights.sum().clamp_min(1e-6)
    whole = [(part.max(0).values @ weights / total).item() if len(part) else 0.0 for part in similar]
    return [
        _of_page(question, page, part, weights, (whole[number], whole[number] - max(_others(whole, number))))
        for number, (page, part) in enumerate(zip(pages, similar, strict=True))
    ]


def likeliest(page: Page, found: Tensor, count: int) -> Array:
    """Places of at least ``count`` words, if there are so many: the pieces around which most of the question stands.

    ``found`` [N, F] are the page's features.
    """
    if len(page) <= count:
        return np.arange(len(page))
    words = found[:, AROUND].max(1).values.numpy()
    piece = page.layout.piece
    best = np.zeros(piece[-1] + 1, dtype=np.float32)
    np.maximum.at(best, piece, words)
    order = np.argsort(-best, kind="stable")
    enough = int(np.searchsorted(np.cumsum(np.bincount(piece)[order]), count)) + 1
    return np.flatnonzero(np.isin(piece, order[:enough]))


def _others(values: Sequence[float], number: int) -> list[float]:
    return [value for other, value in enumerate(values) if other != number] or [0.0]


def _weights(similar: Sequence[Tensor]) -> Tensor:
    """[m]: how rare each word of the question is on the tiles shown: log((1 + words) / (1 + those that are it))."""
    joined = torch.cat(list(similar))
    return torch.log((1 + len(joined)) / (1 + (joined > FOUND).sum(0)))


def _of_page(question: Asked, page: Page, similar: Tensor, weights: Tensor, whole: tuple[float, float]) -> Tensor:
    count, size = similar.shape
    if not count:
        return torch.zeros(0, FEATURES)
    weighted = similar * weights / F.pad(weights, (0, 1)).max().clamp_min(1e-6)
    share = weights / weights.sum().clamp_min(1e-6)
    gap = min(question.gap, size)
    parts = [weighted.max(1).values[:, None] if size else similar.new_zeros(count, 1)]
    parts += [_best(weighted[:, :gap]), _best(weighted[:, gap:])]
    parts += [_slot(similar, place) for place in slots(question, SLOTS)]
    parts += _reached(similar, share)
    parts += _in_rows(page, similar, share)
    parts.append(_above(page, similar) @ share[:, None])
    parts += _grams(similar, gap)
    parts.append(torch.tensor(whole).expand(count, 2))
    return torch.cat([*parts, page.own, question.kinds.expand(count, -1)], 1)


def _best(similar: Tensor) -> Tensor:
    return similar.max(1, keepdim=True).values if similar.shape[1] else similar.new_zeros(len(similar), 1)


def _slot(similar: Tensor, place: int) -> Tensor:
    return similar[:, place, None] if place >= 0 else similar.new_zeros(len(similar), 1)


def _reached(similar: Tensor, share: Tensor) -> list[Tensor]:
    """[N, 1] each: what share of the question stands within REACHES words around, and within 16 before or after."""
    windows = (*((reach, reach) for reach in REACHES), (16, 0), (0, 16))
    if not similar.shape[1]:
        return [similar.new_zeros(len(similar), 1) for _ in windows]
    lines = similar.T[None]  # [1, m, N]
    found = [F.max_pool1d(F.pad(lines, (before, after)), before + after + 1, 1) for before, after in windows]
    return [part[0].T @ share[:, None] for part in found]


def _in_rows(page: Page, similar: Tensor, share: Tensor) -> list[Tensor]:
    """[N, 1] each: share of the question in the word's row, left of it in its row, in its row and those beside it."""
    rows = torch.from_numpy(page.words.rows[page.layout.order].astype(np.int64))
    left = torch.from_numpy(page.words.left[page.layout.order].astype(np.int64))
    height = int(rows.max()) + 3
    index = (rows + 1)[:, None].expand_as(similar)
    best = similar.new_zeros(height, similar.shape[1]).scatter_reduce(0, index, similar, "amax")
    near = torch.maximum(torch.maximum(best[rows], best[rows + 1]), best[rows + 2])
    order = torch.argsort(rows * 4096 + left)
    before = _running_best(similar[order], rows[order])
    to_left = torch.empty_like(similar)
    to_left[order] = before
    return [best[rows + 1] @ share[:, None], to_left @ share[:, None], near @ share[:, None]]


def _running_best(values: Tensor, groups: Tensor) -> Tensor:
    """[N, m]: the best so far, without the word itself, within its group (groups stand together)."""
    lifted = values + groups[:, None] * 4.0  # values are below 4: a later group's least is above an earlier one's best
    best = torch.cummax(lifted, 0).values
    shifted = torch.cat([best.new_zeros(1, values.shape[1]), best[:-1]])
    return (shifted - groups[:, None] * 4.0).clamp_min(0)


def _above(page: Page, similar: Tensor) -> Tensor:
    """[N, m]: the best of the words above in the same column."""
    left = page.words.left[page.layout.order].astype(np.int64) // COLUMN_CELLS
    found = torch.zeros_like(similar)
    for strip, places in enumerate(page.columns):
        if not len(places):
            continue
        best = torch.cummax(similar[torch.from_numpy(places)], 0).values
        before = torch.cat([best.new_zeros(1, similar.shape[1]), best[:-1]])
        mine = left[places] == strip
        found[torch.from_numpy(places[mine])] = before[torch.from_numpy(np.flatnonzero(mine))]
    return found


def _grams(similar: Tensor, gap: int) -> list[Tensor]:
    """[N, 1] each: how well the GRAM words that end here stand in a row in the question, anywhere and right before its
    gap; and those that begin here, one, two and three words after the gap."""
    count, size = similar.shape
    padded = F.pad(similar, (GRAM, GRAM + 4, GRAM, GRAM))  # [N + 2 GRAM, m + 2 GRAM + 4]
    back = sum(padded[GRAM - d : GRAM - d + count, GRAM - d : GRAM - d + size] for d in range(GRAM))
    assert isinstance(back, Tensor)
    before = sum(padded[GRAM - d : GRAM - d + count, GRAM + gap - 1 - d] for d in range(GRAM))
    parts = [_best(back), before[:, None]]  # type: ignore[index]
    for skipped in (1, 2, 3):
        after = sum(padded[GRAM + d : GRAM + d + count, GRAM + gap + skipped + d] for d in range(GRAM))
        parts.append(after[:, None])  # type: ignore[index]
    return [part / GRAM for part in parts]


_FIRST_AROUND = 3 + len(SLOTS) + 2
AROUND = slice(_FIRST_AROUND, _FIRST_AROUND + len(REACHES) + 2 + 3 + 1)
"""The features that say how much of the question stands around a word."""
_OWN = len(_SHAPES) + 3 + 7
FEATURES = AROUND.stop + 5 + 2 + _OWN + len(KINDS)
"""F."""
