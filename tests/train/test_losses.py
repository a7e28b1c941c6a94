"""info_nce against closed forms, a loop-by-loop reference, symmetries and numerical gradients."""

import math

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from tilewright.train.losses import info_nce

torch.set_num_threads(1)


def problem(seed: int, queries: int = 5, tiles: int = 9, dimension: int = 6, share: float = 0.3) -> tuple[Tensor, ...]:
    generator = torch.Generator().manual_seed(seed)
    q = F.normalize(torch.randn(queries, dimension, generator=generator, dtype=torch.float64), dim=-1)
    p = F.normalize(torch.randn(tiles, dimension, generator=generator, dtype=torch.float64), dim=-1)
    positive = torch.randint(0, tiles, (queries,), generator=generator)
    ignore = torch.rand(queries, tiles, generator=generator) < share
    return q, p, positive, ignore


def reference(q: Tensor, p: Tensor, positive: Tensor, ignore: Tensor, t: float, margin: float | None = None) -> float:
    """The definition with plain loops: every query's own softmax over the tiles that count for it."""
    losses = []
    for i in range(len(q)):
        own = float(q[i] @ p[positive[i]])
        scores = [
            float(q[i] @ p[j])
            for j in range(len(p))
            if j == positive[i] or (not ignore[i, j] and (margin is None or float(q[i] @ p[j]) <= own + margin))
        ]
        losses.append(math.log(sum(math.exp(score / t) for score in scores)) - own / t)
    return sum(losses) / len(losses)


def none_ignored(queries: int, tiles: int) -> Tensor:
    return torch.zeros(queries, tiles, dtype=torch.bool)


@pytest.mark.parametrize("count", [1, 2, 7])
def test_uniform_scores_give_log_of_the_candidates(count: int) -> None:
    zeros = torch.zeros(count, 4)
    loss, stats = info_nce(zeros, torch.zeros(count, 4), torch.arange(count), none_ignored(count, count), 0.07)
    assert loss == pytest.approx(math.log(count))
    assert stats["valid_negatives"] == count - 1


def test_one_ignored_tile_gives_log_of_one_less() -> None:
    ignore = none_ignored(3, 5)
    ignore[:, 4] = True
    loss, _ = info_nce(torch.zeros(3, 4), torch.ones(5, 4), torch.arange(3), ignore, 1.0)
    assert loss == pytest.approx(math.log(4))


def test_the_positive_is_never_ignored() -> None:
    q, p, positive, ignore = problem(0)
    marked = ignore.scatter(1, positive[:, None], True)
    unmarked = ignore.scatter(1, positive[:, None], False)
    assert torch.equal(info_nce(q, p, positive, marked, 0.1)[0], info_nce(q, p, positive, unmarked, 0.1)[0])
    everything = torch.ones_like(ignore)
    assert info_nce(q, p, positive, everything, 0.1)[0] == 0


def test_perfect_scores_leave_nothing_to_lose() -> None:
    loss, stats = info_nce(torch.eye(4), torch.eye(4), torch.arange(4), none_ignored(4, 4), 0.01)
    assert loss < 1e-6 and stats["accuracy"] == 1 and stats["margin"] == 1


@given(
    seed=st.integers(0, 10_000), share=st.floats(0, 1), t=st.floats(0.02, 2), margin=st.none() | st.floats(-0.5, 0.5)
)
@settings(max_examples=60, deadline=None)
def test_equals_the_definition(seed: int, share: float, t: float, margin: float | None) -> None:
    q, p, positive, ignore = problem(seed, share=share)
    loss, _ = info_nce(q, p, positive, ignore, t, margin=margin)
    assert float(loss) == pytest.approx(reference(q, p, positive, ignore, t, margin), abs=1e-9)


@given(seed=st.integers(0, 10_000), symmetric=st.booleans(), margin=st.none() | st.floats(0, 0.3))
@settings(max_examples=30, deadline=None)
def test_order_of_queries_and_tiles_does_not_matter(seed: int, symmetric: bool, margin: float | None) -> None:
    q, p, positive, ignore = problem(seed)
    generator = torch.Generator().manual_seed(seed + 1)
    rows, columns = torch.randperm(len(q), generator=generator), torch.randperm(len(p), generator=generator)
    moved = torch.argsort(columns)[positive]
    loss, stats = info_nce(q, p, positive, ignore, 0.1, symmetric=symmetric, margin=margin)
    other, other_stats = info_nce(
        q[rows], p[columns], moved[rows], ignore[rows][:, columns], 0.1, symmetric=symmetric, margin=margin
    )
    torch.testing.assert_close(loss, other)
    torch.testing.assert_close(stats, other_stats)


@pytest.mark.parametrize("filling", [0.0, 1e6, math.inf, math.nan])
def test_absent_negatives_change_nothing(filling: float) -> None:
    """Rows that are ignored by every query, whatever stands in them: same loss, statistics and gradients."""
    q, p, positive, ignore = problem(3)
    padded = torch.cat([p, torch.full((4, p.shape[1]), filling, dtype=p.dtype)])
    wide = torch.cat([ignore, torch.ones(len(q), 4, dtype=torch.bool)], dim=1)
    results = []
    for tiles, mask in ((p, ignore), (padded, wide)):
        query_leaf, tile_leaf = q.clone().requires_grad_(), tiles.clone().requires_grad_()
        loss, stats = info_nce(query_leaf, tile_leaf, positive, mask, 0.1, symmetric=True, margin=0.2)
        loss.backward()
        assert query_leaf.grad is not None and tile_leaf.grad is not None
        results.append((loss.detach(), stats, query_leaf.grad, tile_leaf.grad[: len(p)]))
    torch.testing.assert_close(results[0], results[1])


@pytest.mark.parametrize("options", [{}, {"margin": 0.1}, {"symmetric": True}, {"matryoshka": (2, 6)}])
def test_gradients_are_those_of_finite_differences(options: dict[str, object]) -> None:
    q, p, positive, ignore = (
        tensor.requires_grad_() if tensor.is_floating_point() else tensor for tensor in problem(5)
    )
    log_t = torch.tensor(math.log(0.2), dtype=torch.float64, requires_grad=True)

    def loss(q: Tensor, p: Tensor, log_t: Tensor) -> Tensor:
        return info_nce(q, p, positive, ignore, log_t.exp(), **options)[0]  # type: ignore[arg-type]

    assert torch.autograd.gradcheck(loss, (q, p, log_t))


def test_ignored_tiles_get_no_gradient() -> None:
    q, p, _, _ = problem(7, queries=2, tiles=4)
    ignore = none_ignored(2, 4)
    ignore[:, 3] = True
    p.requires_grad_()
    info_nce(q, p, torch.tensor([0, 1]), ignore, 0.1)[0].backward()
    assert p.grad is not None and p.grad[3].count_nonzero() == 0 and p.grad[2].count_nonzero() > 0


def test_margin_drops_suspicious_candidates_only() -> None:
    q = torch.tensor([[1.0, 0.0]])
    p = torch.tensor([[0.6, 0.8], [0.9, math.sqrt(0.19)], [0.65, math.sqrt(1 - 0.65**2)]])
    _, stats = info_nce(q, p, torch.tensor([0]), none_ignored(1, 3), 0.1, margin=0.1)
    assert stats["valid_negatives"] == 1
    assert float(stats["negative_similarity"]) == pytest.approx(0.65)


def test_symmetric_is_the_mean_of_both_directions() -> None:
    """Square case, no ignores: the second direction is the first with queries and tiles exchanged."""
    q, p, _, _ = problem(11, queries=4, tiles=4)
    here, nothing = torch.arange(4), none_ignored(4, 4)
    forth, back = info_nce(q, p, here, nothing, 0.1)[0], info_nce(p, q, here, nothing, 0.1)[0]
    both = info_nce(q, p, here, nothing, 0.1, symmetric=True)[0]
    torch.testing.assert_close(both, (forth + back) / 2)


def test_hard_negatives_have_no_tile_to_query_term() -> None:
    q, p, _, _ = problem(12, queries=3, tiles=6)
    here = torch.arange(3)
    both = info_nce(q, p, here, none_ignored(3, 6), 0.1, symmetric=True)[0]
    forth, back = info_nce(q, p, here, none_ignored(3, 6), 0.1)[0], info_nce(p[:3], q, here, none_ignored(3, 3), 0.1)[0]
    torch.testing.assert_close(both, (forth + back) / 2)


def test_queries_that_share_a_tile_are_not_negatives_of_it() -> None:
    """Two equal queries of one tile, symmetric: nothing tells them apart, and nothing should."""
    q = torch.tensor([[1.0, 0.0], [1.0, 0.0]])
    loss, _ = info_nce(q, q[:1], torch.tensor([0, 0]), none_ignored(2, 1), 0.1, symmetric=True)
    assert loss == 0


def test_matryoshka_sums_over_dimensions_normalised_again() -> None:
    q, p, positive, ignore = problem(13)
    total = info_nce(q, p, positive, ignore, 0.1, matryoshka=(4, 2))[0]
    parts = [info_nce(F.normalize(q[:, :d]), F.normalize(p[:, :d]), positive, ignore, 0.1)[0] for d in (2, 4)]
    torch.testing.assert_close(total, parts[0] + parts[1])


def test_statistics_by_hand() -> None:
    q, p = torch.eye(2), torch.tensor([[1.0, 0.0], [0.8, 0.6], [0.0, -1.0]])
    ignore = torch.tensor([[False, False, False], [True, False, True]])
    _, stats = info_nce(q, p, torch.tensor([0, 1]), ignore, 0.5)
    wanted = {"positive_similarity": 0.8, "negative_similarity": 0.4, "margin": 0.2, "accuracy": 1.0}
    wanted |= {"valid_negatives": 1.0, "temperature": 0.5}
    assert {name: float(value) for name, value in stats.items()} == pytest.approx(wanted)
    assert not any(value.requires_grad for value in stats.values())


def test_a_tie_is_no_hit() -> None:
    _, stats = info_nce(torch.zeros(2, 3), torch.eye(3), torch.arange(2), none_ignored(2, 3), 1.0)
    assert stats["accuracy"] == 0


def test_computes_in_fp32_under_autocast() -> None:
    q, p, positive, ignore = problem(17)
    plain = info_nce(q.float(), p.float(), positive, ignore, 0.07)[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        inside = info_nce(q.float(), p.float(), positive, ignore, 0.07)[0]
    assert inside.dtype == torch.float32 and torch.equal(plain, inside)
    assert info_nce(q.bfloat16(), p.bfloat16(), positive, ignore, 0.07)[0].dtype == torch.float32


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"queries": torch.zeros(3, 5)}, "wanted queries"),
        ({"positive": torch.zeros(2, dtype=torch.int64)}, "wanted positive"),
        ({"positive": torch.zeros(3)}, "int64"),
        ({"ignore": torch.zeros(3, 3, dtype=torch.bool)}, "wanted ignore"),
        ({"ignore": torch.zeros(3, 4)}, "of bool"),
        ({"temperature": 0.0}, "above 0"),
        ({"temperature": torch.ones(1)}, "0-d temperature"),
        ({"matryoshka": (8,)}, "matryoshka"),
        ({"matryoshka": (2, 2)}, "matryoshka"),
    ],
)
def test_wrong_arguments_are_named(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "queries": torch.zeros(3, 6),
        "tiles": torch.zeros(4, 6),
        "positive": torch.arange(3),
        "ignore": none_ignored(3, 4),
        "temperature": 1.0,
    }
    with pytest.raises(ValueError, match=message):
        info_nce(**(arguments | change))  # type: ignore[arg-type]
