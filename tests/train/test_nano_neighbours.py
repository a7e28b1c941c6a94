"""Neighbours in a word hear each other: against an explicit loop, by hand, by symmetries, with exact gradients."""

import math
from itertools import pairwise

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional as F

from tilewright.train.nano_characters import BOUNDARY, LETTERS
from tilewright.train.nano_neighbours import FLOOR, NEIGHBOUR_SHARE, WIDEST_CELLS, heard, page_places

torch.set_num_threads(1)
A, B, C = 1, 2, 3
Parts = tuple[Tensor, Tensor, Tensor]


def cells_of(size: tuple[int, int], seed: int, share: float = 0.6) -> tuple[Parts, Tensor]:
    """Doubtful cells, double [N, LETTERS] each, at some of a page's places; many agree with the next one."""
    generator = torch.Generator().manual_seed(seed)
    places = page_places([size])
    places = places[torch.rand(len(places), generator=generator) < share]
    count = len(places)
    own = torch.randint(0, 5, (count,), generator=generator)
    named = [own, own.roll(1), own.roll(-1)]
    sure = [6 * torch.rand(count, 1, generator=generator) * F.one_hot(part, LETTERS) for part in named]
    noise = [torch.randn(count, LETTERS, generator=generator) for _ in named]
    letters, before, after = ((one + other).double().softmax(-1) for one, other in zip(sure, noise, strict=True))
    return (letters, before, after), places


def by_hand(parts: Parts, places: Tensor) -> list[list[list[float]]]:
    """The same, a cell and a letter at a time."""
    letters, before, after = (part.tolist() for part in parts)
    order = sorted(range(len(places)), key=lambda cell: int(places[cell]))
    left: dict[int, int] = {}
    for one, two in pairwise(order):
        first, second = (max(range(LETTERS), key=letters[cell].__getitem__) for cell in (one, two))
        goes_on = max(after[one][second], FLOOR) * max(before[two][first], FLOOR)
        begins = max(after[one][BOUNDARY], FLOOR) * max(before[two][BOUNDARY], FLOOR)
        near = places[two] - places[one] <= WIDEST_CELLS
        if near and first != BOUNDARY and second != BOUNDARY and goes_on > begins:
            left[two] = one
    right = {one: two for two, one in left.items()}
    found: list[list[list[float]]] = [[], [], []]
    for cell in range(len(places)):
        heads = (letters[cell], before[cell], after[cell])
        said = [[max(value, FLOOR) for value in head] for head in heads]
        for letter in range(LETTERS):
            if cell in left:
                said[0][letter] *= max(after[left[cell]][letter], FLOOR) ** NEIGHBOUR_SHARE
                said[1][letter] *= max(letters[left[cell]][letter], FLOOR) ** NEIGHBOUR_SHARE
            if cell in right:
                said[0][letter] *= max(before[right[cell]][letter], FLOOR) ** NEIGHBOUR_SHARE
                said[2][letter] *= max(letters[right[cell]][letter], FLOOR) ** NEIGHBOUR_SHARE
        said[0][BOUNDARY] = 0
        scales = (1 - letters[cell][BOUNDARY], 1, 1)
        for part, values, scale in zip(found, said, scales, strict=True):
            part.append([scale * value / sum(values) for value in values])
    return found


@pytest.mark.parametrize("size", [(1, 12), (4, 9), (3, 1), (1, 1)])
def test_an_explicit_loop_gives_the_same(size: tuple[int, int]) -> None:
    for seed in range(4):
        parts, places = cells_of(size, seed)
        for found, wanted in zip(heard(*parts, places), by_hand(parts, places), strict=True):
            torch.testing.assert_close(found, torch.tensor(wanted, dtype=torch.float64).view(-1, LETTERS))


def test_the_order_of_cells_doesnt_matter() -> None:
    parts, places = cells_of((4, 30), 1)
    order = torch.randperm(len(places), generator=torch.Generator().manual_seed(0))
    shuffled = heard(*(part[order] for part in parts), places=places[order])
    for found, wanted in zip(shuffled, heard(*parts, places), strict=True):
        torch.testing.assert_close(found, wanted[order])


def test_a_page_in_a_mirror() -> None:
    """Read from its end, with before for after: the same letters, the other neighbours."""
    (letters, before, after), places = cells_of((4, 30), 2)
    wanted = heard(letters, before, after, places)
    found = heard(letters, after, before, int(places.max()) - places)
    for one, other in zip(found, (wanted[0], wanted[2], wanted[1]), strict=True):
        torch.testing.assert_close(one, other)


def named(*letters: int) -> Tensor:
    return F.one_hot(torch.tensor(letters), LETTERS).double()


def test_a_doubtful_letter_becomes_what_its_neighbours_name() -> None:
    """`ab?`: ? is C with 2/5 and A with 3/5, the `b` names a C with 4/5: 2/5 · sqrt(4/5) against 3/5 · sqrt(1/5)."""
    letters, before, after = named(A, B, A), named(BOUNDARY, A, B), named(B, A, BOUNDARY)
    letters[2] = 0.4 * named(C) + 0.6 * named(A)
    after[1] = 0.8 * named(C) + 0.2 * named(A)
    found, _, later = heard(letters, before, after, torch.arange(3))
    assert letters[2].argmax() == A and found[2].argmax() == C
    shares = 0.4 * math.sqrt(0.8), 0.6 * math.sqrt(0.2)
    assert found[2, C].item() == pytest.approx(shares[0] / sum(shares), rel=1e-4)
    named_c = 0.8 * math.sqrt(0.4), 0.2 * math.sqrt(0.6)
    assert later[1, C].item() == pytest.approx(named_c[0] / sum(named_c), rel=1e-4)


@pytest.mark.parametrize(
    ("apart", "ends", "heeded"),
    [(WIDEST_CELLS, 0.4, True), (WIDEST_CELLS + 1, 0.4, False), (1, 0.9, False)],
)
def test_only_neighbours_in_a_word_are_heard(apart: int, ends: float, heeded: bool) -> None:
    letters, before, after = named(A, B), named(BOUNDARY, BOUNDARY), named(BOUNDARY, BOUNDARY)
    before[1] = ends * named(BOUNDARY) + (1 - ends) * named(A)
    after[0] = ends * named(BOUNDARY) + (1 - ends) * named(B)
    found, first, last = heard(letters, before, after, torch.tensor([0, apart]))
    torch.testing.assert_close(found, letters, atol=1e-4, rtol=0)
    for one, other in ((first[1], before[1]), (last[0], after[0])):
        assert heeded == (not torch.allclose(one, other, atol=1e-3))


def test_gradients_are_those_of_the_formula() -> None:
    parts, places = cells_of((3, 8), 3)
    logits = [part.log().requires_grad_() for part in parts]
    chosen = torch.randn(3, len(places), LETTERS, dtype=torch.float64, generator=torch.Generator().manual_seed(0))

    def said(*inputs: Tensor) -> Tensor:
        return (torch.stack(heard(*(part.softmax(-1) for part in inputs), places=places)) * chosen).sum((1, 2))

    assert torch.autograd.gradcheck(said, logits, eps=1e-6, atol=1e-6)
    said(*logits).sum().backward()
    neighbours = len(logits[0]) - 1
    assert neighbours > 1 and all(logit.grad is not None and logit.grad.abs().sum(1).all() for logit in logits)


@settings(deadline=None)
@given(st.lists(st.tuples(st.integers(0, 9), st.integers(1, 40)), min_size=1, max_size=4))
def test_places_are_near_in_a_row_only(sizes: list[tuple[int, int]]) -> None:
    places = page_places(sizes)
    rows = torch.cat(
        [torch.arange(rows).repeat_interleave(columns) + 100 * n for n, (rows, columns) in enumerate(sizes)]
    )
    assert len(places) == sum(rows * columns for rows, columns in sizes)
    steps, same = places.diff(), rows.diff() == 0
    assert (steps[same] == 1).all() and (steps[~same] > WIDEST_CELLS).all()
