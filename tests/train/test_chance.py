"""Chance: against simulation, brute force and closed forms."""

import itertools
import math
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.train.chance import expected_reciprocal_rank, expected_success


@given(st.integers(1, 7), st.data())
def test_equals_the_mean_over_all_orders(pool: int, data: st.DataObject) -> None:
    relevant, k = data.draw(st.integers(0, pool)), data.draw(st.integers(1, 9))
    firsts = [
        next((rank for rank, item in enumerate(order, start=1) if item < relevant), None)
        for order in itertools.permutations(range(pool))
    ]
    success = sum(first is not None and first <= k for first in firsts) / len(firsts)
    reciprocal = sum(1 / first for first in firsts if first is not None and first <= k) / len(firsts)
    assert expected_success(pool, relevant, k) == pytest.approx(success)
    assert expected_reciprocal_rank(pool, relevant, k) == pytest.approx(reciprocal)


def test_simulation_at_the_size_of_a_real_pool() -> None:
    generator, pool, relevant, trials = random.Random(0), 300, 5, 20_000
    best = [min(generator.sample(range(1, pool + 1), relevant)) for _ in range(trials)]
    assert expected_success(pool, relevant, 10) == pytest.approx(sum(rank <= 10 for rank in best) / trials, abs=0.01)
    wanted = sum(1 / rank for rank in best if rank <= 100) / trials
    assert expected_reciprocal_rank(pool, relevant, 100) == pytest.approx(wanted, abs=0.004)


def test_closed_forms() -> None:
    assert expected_success(300, 1, 3) == pytest.approx(0.01)
    assert expected_success(300, 4, 10) == pytest.approx(1 - math.comb(296, 10) / math.comb(300, 10))
    assert expected_success(5, 5, 1) == expected_success(5, 1, 9) == 1.0
    assert expected_success(5, 0, 3) == expected_reciprocal_rank(5, 0, 3) == 0.0
    assert expected_reciprocal_rank(50, 1, 50) == pytest.approx(sum(1 / rank for rank in range(1, 51)) / 50)


@pytest.mark.parametrize(("pool", "relevant"), [(0, 0), (3, 4), (3, -1)])
def test_impossible_pools_are_refused(pool: int, relevant: int) -> None:
    with pytest.raises(ValueError, match="wanted pool >= 1"):
        expected_success(pool, relevant, 1)
