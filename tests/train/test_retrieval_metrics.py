"""Recall, success and reciprocal rank by hand and against ir-measures."""

import ir_measures
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.train.retrieval_metrics import (
    mean_reciprocal_rank,
    recall_at_k,
    recalls,
    reciprocal_ranks,
    success_at_k,
)

ITEMS = [f"tile-{i}" for i in range(8)]


def test_by_hand() -> None:
    rankings = {"a": ["x", "y", "z"], "b": ["y", "x", "z"], "c": ["z"]}
    relevant = {"a": {"x"}, "b": {"x", "z"}, "c": {"x"}}
    assert recall_at_k(rankings, relevant, 1) == pytest.approx(1 / 3)
    assert recall_at_k(rankings, relevant, 2) == pytest.approx((1 + 0.5) / 3)
    assert success_at_k(rankings, relevant, 2) == pytest.approx(2 / 3)
    assert reciprocal_ranks(rankings, relevant) == {"a": 1.0, "b": 0.5, "c": 0.0}
    assert mean_reciprocal_rank(rankings, relevant) == pytest.approx(0.5)


def test_queries_without_relevant_items_do_not_count() -> None:
    rankings = {"a": ["x"], "b": ["x"]}
    assert recall_at_k(rankings, {"a": ["x"], "b": []}, 1) == 1.0
    assert reciprocal_ranks(rankings, {"a": ["x"], "b": []}) == {"a": 1.0}
    assert recall_at_k(rankings, {}, 1) == success_at_k({}, {}, 3) == mean_reciprocal_rank({}, {}) == 0.0


def test_a_query_without_a_ranking_is_a_miss() -> None:
    assert recall_at_k({"a": ["x"]}, {"a": ["x"], "b": ["y"]}, 5) == 0.5


def test_an_item_that_stands_twice_is_one_hit() -> None:
    assert recall_at_k({"a": ["x", "x", "y"]}, {"a": ["x", "y"]}, 2) == 0.5
    assert recalls({"a": ["x", "x", "y"]}, {"a": ["x", "x"]}, 3) == {"a": 1.0}


def test_k_below_one_is_an_error() -> None:
    with pytest.raises(ValueError, match="k >= 1"):
        recall_at_k({}, {}, 0)


@st.composite
def searches(draw: st.DrawFn) -> tuple[dict[str, list[str]], dict[str, set[str]]]:
    queries = [f"q{i}" for i in range(draw(st.integers(1, 5)))]
    rankings = {query: draw(st.lists(st.sampled_from(ITEMS), min_size=1, unique=True)) for query in queries}
    relevant = {query: draw(st.sets(st.sampled_from(ITEMS), min_size=1, max_size=4)) for query in queries}
    return rankings, relevant


@given(searches(), st.integers(1, 9))
@settings(max_examples=60, deadline=None)
def test_equal_ir_measures(search: tuple[dict[str, list[str]], dict[str, set[str]]], k: int) -> None:
    rankings, relevant = search
    qrels = {query: dict.fromkeys(items, 1) for query, items in relevant.items()}
    run = {query: {item: -float(place) for place, item in enumerate(items)} for query, items in rankings.items()}
    recall, success, rank = ir_measures.R @ k, ir_measures.Success @ k, ir_measures.RR
    wanted = ir_measures.calc_aggregate([recall, success, rank], qrels, run)
    assert recall_at_k(rankings, relevant, k) == pytest.approx(wanted[recall])
    assert success_at_k(rankings, relevant, k) == pytest.approx(wanted[success])
    assert mean_reciprocal_rank(rankings, relevant) == pytest.approx(wanted[rank])
