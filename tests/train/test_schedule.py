"""The learning rate of each step, by its closed form."""

import pytest

from tilewright.train.schedule import learning_rate


def test_warm_up_rises_to_the_peak_and_never_is_zero() -> None:
    rates = [learning_rate(step, 100, 2.0, 4) for step in range(5)]
    assert rates == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])


def test_cosine_is_halfway_down_in_the_middle() -> None:
    assert learning_rate(60, 110, 1.0, 10) == pytest.approx(0.5)
    assert learning_rate(60, 110, 1.0, 10, final_share=0.2) == pytest.approx(0.6)


def test_falls_all_the_way_but_not_to_zero() -> None:
    rates = [learning_rate(step, 50, 1.0, 5) for step in range(5, 50)]
    assert rates == sorted(rates, reverse=True) and 0 < rates[-1] < 0.01


@pytest.mark.parametrize("arguments", [(-1, 10, 1.0, 0), (10, 10, 1.0, 0), (0, 10, 1.0, 11)])
def test_outside_the_run_is_an_error(arguments: tuple[int, int, float, int]) -> None:
    with pytest.raises(ValueError, match="wanted"):
        learning_rate(*arguments)
