"""The search for similar sets: equal to the plain definition, at any threshold."""

from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.data_gen.set_similarity import SimilarSets

SETS = st.frozensets(st.sampled_from("abcdefghijkl"), max_size=9)
THRESHOLDS = st.sampled_from([0.05, 0.3, 0.55, 0.6, 0.7, 0.8, 1.0])


@settings(deadline=None, max_examples=300)
@given(st.lists(SETS, max_size=12), SETS, THRESHOLDS)
def test_best_equals_the_plain_definition(sets: list[frozenset[str]], found: frozenset[str], threshold: float) -> None:
    similarity = [Fraction(len(found & other), len(found | other) or 1) for other in sets]
    enough = [value for value in similarity if value > 0 and value >= Fraction(str(threshold))]
    best = SimilarSets(sets, threshold).best(found)
    if not enough:
        assert best is None
    else:
        assert best is not None and best[0] == similarity.index(max(enough))
        assert best[1] == pytest.approx(float(max(enough)), abs=1e-6)


def test_a_similarity_that_equals_the_threshold_is_enough() -> None:
    a, b = frozenset(range(20)), frozenset(range(11))  # 11 / 20; 0.55 * 20 is 11.000000000000002 as a float
    assert SimilarSets([a], 0.55).best(b) == (0, 0.55)
    assert SimilarSets([b], 0.55).best(a) == (0, 0.55)


@pytest.mark.parametrize("threshold", [0.0, -1.0, 1.1, float("nan")])
def test_thresholds_out_of_bounds_are_named(threshold: float) -> None:
    with pytest.raises(ValueError, match="threshold: wanted above 0 and at most 1"):
        SimilarSets([], threshold)
