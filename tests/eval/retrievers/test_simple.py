"""Reciprocal-rank fusion by its formula; the gold tile; no retrieval."""

from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.retrievers.simple import fused


def test_fusion_by_hand() -> None:
    found = dict(fused([[("a", 9.0), ("b", 1.0)], [("b", 0.3), ("c", 0.2)]], constant=60))
    assert found == {"a": 1 / 61, "b": 1 / 62 + 1 / 61, "c": 1 / 62}
    assert [item for item, _ in fused([[("a", 9.0), ("b", 1.0)], [("b", 0.3), ("c", 0.2)]], 60)] == ["b", "a", "c"]


@given(st.lists(st.lists(st.sampled_from("abcdef"), unique=True), min_size=1, max_size=3), st.integers(0, 100))
def test_fusion_depends_on_ranks_alone_and_not_on_the_order_of_rankings(
    rankings: list[list[str]], constant: int
) -> None:
    scored = [[(item, float(-place)) for place, item in enumerate(ranking)] for ranking in rankings]
    other = [[(item, 100.0 - place**2) for place, item in enumerate(ranking)] for ranking in rankings]
    found = fused(scored, constant)
    assert found == fused(other, constant)
    assert [item for item, _ in found] == [item for item, _ in sorted(found, key=lambda hit: (-hit[1], hit[0]))]
    again = dict(fused(scored[::-1], constant))
    assert again.keys() == dict(found).keys()
    assert all(abs(again[item] - score) < 1e-12 for item, score in found)


def test_one_ranking_keeps_its_order() -> None:
    assert [item for item, _ in fused([[("z", 1.0), ("a", 0.5), ("m", 0.1)]], 60)] == ["z", "a", "m"]
