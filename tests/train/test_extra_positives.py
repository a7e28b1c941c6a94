"""Known positives as further positives: closed forms, a loop-by-loop reference, gradients, labels of a batch."""

import math
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tilewright.data_gen.records import TrainingExample
from tilewright.train.batch_plan import BatchPlan, encoded_once, labels
from tilewright.train.losses import info_nce

torch.set_num_threads(1)


def none_ignored(queries: int, tiles: int) -> Tensor:
    return torch.zeros(queries, tiles, dtype=torch.bool)


@pytest.mark.parametrize("positives", [1, 2, 4])
def test_uniform_scores_give_log_of_negatives_and_one(positives: int) -> None:
    """Each positive stands against the P - m negatives alone: log(P - m + 1), the same for each."""
    tiles = 9
    positive = torch.arange(positives).repeat(3, 1)
    loss, stats = info_nce(torch.zeros(3, 4), torch.ones(tiles, 4), positive, none_ignored(3, tiles), 0.07)
    assert loss == pytest.approx(math.log(tiles - positives + 1))
    assert stats["valid_negatives"] == tiles - positives


def test_a_query_with_fewer_positives_has_the_mean_of_its_own() -> None:
    positive = torch.tensor([[0, 1, 2], [3, -1, -1], [4, 5, -1]])
    loss, _ = info_nce(torch.zeros(3, 4), torch.ones(6, 4), positive, none_ignored(3, 6), 1.0)
    assert loss == pytest.approx((math.log(4) + math.log(6) + math.log(5)) / 3)


def test_positives_alone_cost_nothing() -> None:
    loss, _ = info_nce(torch.ones(1, 4), torch.ones(3, 4), torch.tensor([[0, 1, 2]]), none_ignored(1, 3), 0.05)
    assert loss == 0.0


def problem(seed: int) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    q = F.normalize(torch.randn(4, 6, generator=generator, dtype=torch.float64), dim=-1)
    p = F.normalize(torch.randn(9, 6, generator=generator, dtype=torch.float64), dim=-1)
    orders = torch.stack([torch.randperm(9, generator=generator) for _ in range(4)])[:, :3]
    absent = torch.rand(4, 2, generator=generator) < 0.4
    positive = torch.cat([orders[:, :1], orders[:, 1:].masked_fill(absent, -1)], dim=1)
    return q, p, positive, torch.rand(4, 9, generator=generator) < 0.3


def reference(q: Tensor, p: Tensor, positive: Tensor, ignore: Tensor, t: float) -> float:
    """The definition with plain loops."""
    total = 0.0
    for i in range(len(q)):
        mine = [int(j) for j in positive[i] if j >= 0]
        negatives = [j for j in range(len(p)) if j not in mine and not ignore[i, j]]
        each = [
            math.log(math.exp(float(q[i] @ p[j]) / t) + sum(math.exp(float(q[i] @ p[n]) / t) for n in negatives))
            - float(q[i] @ p[j]) / t
            for j in mine
        ]
        total += sum(each) / len(each)
    return total / len(q)


@given(st.integers(0, 10_000))
@settings(max_examples=40)
def test_against_loops(seed: int) -> None:
    q, p, positive, ignore = problem(seed)
    loss, _ = info_nce(q, p, positive, ignore, 0.2)
    assert float(loss) == pytest.approx(reference(q, p, positive, ignore, 0.2), rel=1e-10)


@given(st.integers(0, 10_000))
@settings(max_examples=20)
def test_without_further_positives_it_is_the_plain_loss(seed: int) -> None:
    q, p, positive, ignore = problem(seed)
    alone = torch.cat([positive[:, :1], torch.full((4, 2), -1)], dim=1)
    options: dict[str, Any] = {"margin": 0.1, "symmetric": True, "matryoshka": (3, 6)}
    for some in ({}, options):
        loss, stats = info_nce(q, p, alone, ignore, 0.2, **some)
        plain, plain_stats = info_nce(q, p, positive[:, 0], ignore, 0.2, **some)
        assert float(loss) == pytest.approx(float(plain), rel=1e-12)
        assert all(torch.equal(stats[name], plain_stats[name]) for name in stats)


def test_gradients_are_numerical_and_pull_every_positive() -> None:
    q, p, positive, ignore = problem(3)
    q.requires_grad_(), p.requires_grad_()
    assert torch.autograd.gradcheck(lambda a, b: info_nce(a, b, positive, ignore, 0.3)[0], (q, p))
    one = torch.tensor([[0, 1]])
    tiles = torch.eye(3, dtype=torch.float64).requires_grad_()
    query = torch.full((1, 3), 3**-0.5, dtype=torch.float64)
    info_nce(query, tiles, one, none_ignored(1, 3), 0.5)[0].backward()  # type: ignore[no-untyped-call]
    assert tiles.grad is not None and (tiles.grad[:2] @ query[0] < 0).all() and tiles.grad[2] @ query[0] > 0


def test_a_tile_that_is_a_further_positive_only_reaches_the_gradient() -> None:
    """Every query ignores it, one as a positive: it isn't taken for an unused row."""
    ignore = none_ignored(2, 3)
    ignore[:, 2] = True
    tiles = torch.eye(3, dtype=torch.float64).requires_grad_()
    query = torch.full((2, 3), 3**-0.5, dtype=torch.float64)
    info_nce(query, tiles, torch.tensor([[0, 2], [1, -1]]), ignore, 0.5)[0].backward()  # type: ignore[no-untyped-call]
    assert tiles.grad is not None and float(tiles.grad[2].abs().sum()) > 0


@pytest.mark.parametrize("wrong", [[[0, 0]], [[0, 3]], [[0, -2]]])
def test_positives_that_are_none_are_refused(wrong: list[list[int]]) -> None:
    with pytest.raises(ValueError, match="further positives"):
        info_nce(torch.ones(1, 2), torch.ones(3, 2), torch.tensor(wrong), none_ignored(1, 3), 0.1)


EXAMPLES = [
    TrainingExample("a", "A?", "t0", ("t8",), ("t5", "t6", "t7")),
    TrainingExample("b", "B?", "t1", ("t8",), ()),
    TrainingExample("c", "C?", "t2", ("t9",), ("t1", "t3")),
]


def test_known_positives_join_the_batch_and_its_labels() -> None:
    plain = BatchPlan(EXAMPLES, batch_size=3, seed=0).batch(0)
    assert not {"t5", "t6", "t3"} & set(plain.tile_ids) and labels(plain)[0].shape == (3,)
    batch = BatchPlan(EXAMPLES, batch_size=3, seed=0, extra_positives=2).batch(0)
    assert {"t5", "t6", "t3"} <= set(batch.tile_ids) and "t7" not in batch.tile_ids
    positive, ignore = labels(batch)
    assert positive.shape == (3, 3) and torch.equal(positive[:, 0], labels(plain)[0])
    named = {
        example.query_id: [batch.tile_ids[place] for place in row if place >= 0]
        for example, row in zip(batch.examples, positive.tolist(), strict=True)
    }
    assert named == {"a": ["t0", "t5", "t6"], "b": ["t1"], "c": ["t2", "t1", "t3"]}
    for example, row in zip(batch.examples, ignore, strict=True):
        marked = {tile_id for tile_id, on in zip(batch.tile_ids, row.tolist(), strict=True) if on}
        assert marked == set(example.known_positive_tile_ids) & set(batch.tile_ids)


def test_a_copy_of_the_positive_is_no_further_positive() -> None:
    batch = BatchPlan(EXAMPLES[:1], batch_size=1, seed=0, extra_positives=2).batch(0)
    images = {tile_id: "same" if tile_id in ("t0", "t5") else tile_id for tile_id in batch.tile_ids}
    positive, _ = labels(encoded_once(batch, images))
    assert positive.tolist() == [[0, 1, -1]]
