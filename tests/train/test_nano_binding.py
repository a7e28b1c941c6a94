"""Bound letters: dot products tell equal trigrams from others, counts are damped, cells equal the text they spell."""

import math
from collections import Counter
from collections.abc import Sequence

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F

from tilewright.train.nano_binding import MANY_CELLS, Binding
from tilewright.train.nano_characters import BLANK, CLASSES, LETTERS, class_of, trigrams_of
from tilewright.train.nano_neighbours import page_places

torch.set_num_threads(1)
D = 2048
SURE = 40.0


@pytest.fixture(scope="module")
def binding() -> Binding:
    return Binding(D)


def of(texts: Sequence[str]) -> tuple[Tensor, Tensor, int]:
    """(trigrams, owners, count) of texts."""
    found = [torch.from_numpy(trigrams_of(text)) for text in texts]
    owners = torch.repeat_interleave(torch.arange(len(texts)), torch.tensor([len(part) for part in found]))
    return torch.cat(found), owners, len(texts)


def logits_of(classes: Sequence[int]) -> Tensor:
    return SURE * F.one_hot(torch.tensor(classes), CLASSES).float()


def cells_of(text: str) -> tuple[Tensor, Tensor, Tensor]:
    """Logits of cells that read ``text``, a character each: it, the one before, the one after."""
    classes = [BLANK, *(class_of(ord(character)) for character in text), BLANK]
    return logits_of(classes[1:-1]), logits_of(classes[:-2]), logits_of(classes[2:])


def of_one(binding: Binding, *heads: Tensor) -> Tensor:
    """[1, D] of cells side by side, from their three heads' logits."""
    count = len(heads[0])
    owners = torch.zeros(count, dtype=torch.long)
    return binding.of_cells(heads[0], heads[1], heads[2], owners, 1, places=page_places([(1, count)]))


def test_one_trigram_is_the_product_of_its_signs(binding: Binding) -> None:
    before, letter, after = 3, 17, 0
    trigram = torch.tensor([(before * LETTERS + letter) * LETTERS + after])
    vector = binding.of_trigrams(trigram, torch.tensor([2.5]), torch.tensor([1]), 2)
    signs = binding.signs.float()
    assert torch.equal(vector[1], 2.5 * signs[0, before] * signs[1, letter] * signs[2, after])
    assert not vector[0].any()


def test_dot_products_count_common_trigrams(binding: Binding) -> None:
    """Of random signs: D for equal trigrams, about ±sqrt(D) for others."""
    words = ["alps", "plate", "yellow", "3210", "qwerty", "Zürich"]
    vectors = binding.of_texts(*of(words))
    common = torch.tensor([[len({*trigrams_of(a)} & {*trigrams_of(b)}) for b in words] for a in words])
    lengths = torch.tensor([len(trigrams_of(word)) for word in words])
    noise = (vectors @ vectors.T / D - common).abs()
    assert (noise <= 5 * torch.sqrt(lengths[:, None] * lengths[None] / D)).all()
    every = binding.of_trigrams(torch.arange(2000) * 27, torch.ones(2000), torch.arange(2000), 2000)
    cosine = every @ every.T / D - torch.eye(2000)
    assert cosine.abs().max() < 6 / math.sqrt(D)
    assert cosine.pow(2).sum() / (2000 * 1999) == pytest.approx(1 / D, rel=0.1)


def test_texts_count_the_root_of_a_trigram(binding: Binding) -> None:
    """`a a a b` by hand: sqrt(3) of one, 1 of the other; another text's copies don't count."""
    a, b = binding.of_texts(*of(["a", "b"]))
    found = binding.of_texts(*of(["a a a b", "a"]))
    torch.testing.assert_close(found, torch.stack([math.sqrt(3) * a + b, a]))


def test_queries_count_each_occurrence_with_its_weight() -> None:
    binding = Binding(D, seed=1)
    a, b = binding.of_texts(*of(["a", "b"]))
    (trigram,) = trigrams_of("b").tolist()
    binding.weights[trigram] = 4.5
    torch.testing.assert_close(binding.of_queries(*of(["a b a"])), (2 * a + 4.5 * b)[None])


def test_nothing_is_zero(binding: Binding) -> None:
    empty = torch.zeros(0, dtype=torch.long)
    assert torch.equal(binding.of_queries(empty, empty, 2), torch.zeros(2, D))
    assert torch.equal(binding.of_texts(empty, empty, 2), torch.zeros(2, D))


@pytest.mark.parametrize("text", ["Hello, world! 42 times", "a", "aa aa aa", "don't stop", "Ünïcödé 京 x"])
def test_cells_read_for_sure_are_the_text(binding: Binding, text: str) -> None:
    found = of_one(binding, *cells_of(text))
    torch.testing.assert_close(found, binding.of_texts(*of([text])), atol=1e-3, rtol=1e-4)


def test_cells_belong_to_their_picture_in_any_order(binding: Binding) -> None:
    texts = ["red roses are red", "violets", "  "]
    parts = [cells_of(text) for text in texts]
    logits = [torch.cat([part[kind] for part in parts]) for kind in range(3)]
    owners = torch.repeat_interleave(torch.arange(3), torch.tensor([len(text) for text in texts]))
    order = torch.randperm(len(owners), generator=torch.Generator().manual_seed(0))
    places = page_places([(1, len(text)) for text in texts])[order]
    found = binding.of_cells(*(part[order] for part in logits), owners[order], 3, places=places)
    torch.testing.assert_close(found, binding.of_texts(*of(texts)), atol=1e-3, rtol=1e-4)
    assert not found[2].any()


def test_a_table_of_trigrams_gives_what_a_vector_a_cell_does() -> None:
    """Many doubtful cells of one picture, alone (by a table) and beside pictures without any (by cells)."""
    small, count = Binding(96), 2 * MANY_CELLS + 7
    generator = torch.Generator().manual_seed(0)
    inputs = [3 * torch.randn(count, CLASSES, generator=generator) for _ in range(3)]
    owners = torch.zeros(count, dtype=torch.long)
    found = []
    for pictures in (1, 3):
        leaves = [part.clone().requires_grad_() for part in inputs]
        vectors = small.of_cells(*leaves, owners, pictures, places=page_places([(1, count)]))
        assert vectors.shape == (pictures, 96) and not vectors[1:].any()
        (vectors[0] * torch.linspace(-1, 1, 96)).sum().backward()
        found.append([vectors[0].detach(), *(leaf.grad for leaf in leaves)])
    for by_table, by_cells in zip(*found, strict=True):
        assert by_table is not None and by_cells is not None
        torch.testing.assert_close(by_table, by_cells, atol=1e-5 * float(by_cells.abs().max()), rtol=1e-4)


def test_a_doubtful_cell_counts_by_its_probability(binding: Binding) -> None:
    """Half a blank, a quarter each of `a` and `b`: half of the mean of both."""
    logits = torch.full((1, CLASSES), -SURE)
    logits[0, [BLANK, class_of(ord("a")), class_of(ord("b"))]] = torch.tensor([0.5, 0.25, 0.25]).log()
    sides = logits_of([BLANK])
    found = of_one(binding, logits, sides, sides)
    a, b = binding.of_texts(*of(["a", "b"]))
    torch.testing.assert_close(found[0], 0.25 * a + 0.25 * b, atol=1e-4, rtol=1e-4)


def test_blank_cells_give_zero_and_zero_gradients(binding: Binding) -> None:
    logits = logits_of([BLANK, class_of(ord("."))]).requires_grad_()
    vector = of_one(binding, logits, logits, logits)
    vector.square().sum().backward()
    assert torch.equal(vector, torch.zeros(1, D))
    assert logits.grad is not None and not logits.grad.any()


def test_gradients_are_those_of_the_formula() -> None:
    """Second formula, in double precision and without the look-up of counts: cells with different trigrams."""
    small = Binding(64).double()
    torch.manual_seed(0)
    text = "abc defg"
    inputs = [(part.double() / 10 + torch.randn(part.shape) / 5).requires_grad_() for part in cells_of(text)]
    assert max(Counter(trigrams_of(text).tolist()).values()) == 1

    def vectors(*parts: Tensor) -> Tensor:
        return of_one(small, *parts)

    assert torch.autograd.gradcheck(vectors, inputs, eps=1e-6, atol=1e-4)


def test_bfloat16_weights_work() -> None:
    half = Binding(D).bfloat16()
    assert half.signs.dtype == torch.int8
    text = "in half precision"
    found = of_one(half, *cells_of(text))
    torch.testing.assert_close(found, half.of_texts(*of([text])), atol=1e-3, rtol=1e-4)
    assert half.of_queries(*of([text])).dtype == torch.float32
