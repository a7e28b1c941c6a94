"""Ranks found once give the figures that are defined one cut-off at a time."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.first_ranks import NO_GOLD, NOT_FOUND, first_ranks, reciprocal_at, success_at
from tilewright.train.retrieval_metrics import mean_reciprocal_rank, success_at_k

ITEMS = st.sampled_from([f"t{number}" for number in range(9)])
WORLDS = st.dictionaries(
    st.sampled_from([f"q{number}" for number in range(6)]),
    st.tuples(st.lists(ITEMS, unique=True), st.frozensets(ITEMS, max_size=3)),
    min_size=1,
)


@given(WORLDS, st.integers(1, 10))
def test_equal_the_definitions(world: dict[str, tuple[list[str], frozenset[str]]], k: int) -> None:
    order = {query: items for query, (items, _) in world.items()}
    relevant = {query: gold for query, (_, gold) in world.items()}
    ranks = first_ranks(
        list(world), {query: [(item, 0.0) for item in items] for query, items in order.items()}, relevant
    )
    success = success_at(ranks, k)
    assert [np.isnan(value) for value in success] == [not gold for gold in relevant.values()]
    if any(relevant.values()):
        assert np.nanmean(success) == pytest.approx(success_at_k(order, relevant, k))
        cut = {query: items[:k] for query, items in order.items()}
        assert np.nanmean(reciprocal_at(ranks, k)) == pytest.approx(mean_reciprocal_rank(cut, relevant))


def test_marks() -> None:
    hits = {"a": (("x", 1.0), ("y", 0.5)), "b": (), "c": (("x", 1.0),)}
    ranks = first_ranks(["a", "b", "c", "d"], hits, {"a": ["y"], "b": {"x"}, "c": (), "d": {"x"}})
    assert list(ranks) == [2, NOT_FOUND, NO_GOLD, NOT_FOUND]
    assert list(success_at(ranks, 1)[[0, 1, 3]]) == [0, 0, 0] and list(reciprocal_at(ranks, 2)[[0, 1]]) == [0.5, 0]
    with pytest.raises(ValueError, match="k >= 1, found 0"):
        success_at(ranks, 0)
