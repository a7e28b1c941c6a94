"""Neighbours in a word hear each other: each cell names the letters around it, so its neighbours say what it is."""

from collections.abc import Sequence

import torch
from torch import Tensor

from tilewright.train.nano_characters import BOUNDARY

# Chosen on pages of the training corpus (never on held-out ones), where words read right were most:
WIDEST_CELLS = 8  # centres of neighbours in a word lie closer; a W of 28 px is 7 cells wide
NEIGHBOUR_SHARE = 0.5  # of the neighbours' say in what a character is
FLOOR = 1e-6  # the least probability that a cell's word counts with


def page_places(sizes: Sequence[tuple[int, int]]) -> Tensor:
    """[N] of the cells of pages of these (rows, columns of cells), one after the other, row by row: in reading order.

    Rows and pages lie too far apart for two of them to share a word.
    """
    starts, places = 0, []
    for rows, columns in sizes:
        lines = starts + torch.arange(rows) * (columns + WIDEST_CELLS)
        places.append((lines[:, None] + torch.arange(columns)).flatten())
        starts += rows * (columns + WIDEST_CELLS)
    return torch.cat(places)


def heard(letters: Tensor, before: Tensor, after: Tensor, places: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Probabilities [N, LETTERS] of N cells' letters and of those around them -> the same after neighbours spoke.

    ``places`` [N], see ``page_places``. To its log-probabilities a cell adds NEIGHBOUR_SHARE of what its neighbours in
    the word say: what they name after or before them to its letter, their letter to what it names there. How sure it
    is to hold a letter stays, and a boundary is no letter: its column becomes zero. Who is whose neighbour has no
    gradient.
    """
    sure = 1 - letters[:, BOUNDARY, None]
    own, first, last = (part.clamp_min(FLOOR).log() for part in (letters, before, after))
    with torch.no_grad():
        one, two = _neighbours(own, first, last, places)
    said = own.index_add(0, two, last[one], alpha=NEIGHBOUR_SHARE)
    said = said.index_add(0, one, first[two], alpha=NEIGHBOUR_SHARE)
    said[:, BOUNDARY] = -torch.inf
    first = first.index_add(0, two, own[one], alpha=NEIGHBOUR_SHARE)
    last = last.index_add(0, one, own[two], alpha=NEIGHBOUR_SHARE)
    return said.softmax(-1) * sure, first.softmax(-1), last.softmax(-1)


def _neighbours(own: Tensor, before: Tensor, after: Tensor, places: Tensor) -> tuple[Tensor, Tensor]:
    """Of log-probabilities [N, LETTERS]: the cells [M] that go on in a cell [M] of the same word.

    Of two cells in a row the second goes on with the first one's word if each names the other's letter more than it
    names the end or the beginning of a word.
    """
    order = torch.argsort(places)
    likeliest = own.argmax(-1)
    one, two = order[:-1], order[1:]
    goes_on = after[one, likeliest[two]] + before[two, likeliest[one]]
    begins = after[one, BOUNDARY] + before[two, BOUNDARY]
    both = (likeliest[one] != BOUNDARY) & (likeliest[two] != BOUNDARY)
    linked = both & (places[two] - places[one] <= WIDEST_CELLS) & (goes_on > begins)
    return one[linked], two[linked]
