"""The learning rate of each step, by its closed form."""

import pytest

from tilewright.train.schedule import Schedule, learning_rate, learning_rates


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


@pytest.mark.parametrize("schedule", ["cosine", "linear", "constant"])
def test_every_shape_warms_up_the_same_and_starts_at_the_peak(schedule: Schedule) -> None:
    rates = [learning_rate(step, 20, 2.0, 4, 0.1, schedule) for step in range(20)]
    assert rates[:5] == pytest.approx([0.5, 1.0, 1.5, 2.0, 2.0])
    assert min(rates[4:]) >= 0.2 and all(rate > 0 for rate in rates)


def test_linear_falls_by_equal_steps_to_its_final_share() -> None:
    rates = [learning_rate(step, 12, 1.0, 2, 0.5, "linear") for step in range(2, 12)]
    assert rates == pytest.approx([1 - 0.05 * n for n in range(10)])


def test_constant_stays() -> None:
    assert {learning_rate(step, 12, 1.0, 2, 0.5, "constant") for step in range(2, 12)} == {1.0}


def test_groups_follow_one_shape_to_their_own_peaks() -> None:
    peaks = {"llm_attn": 1.0, "temperature": 0.25}
    for step in range(9):
        rates = learning_rates(step, 9, peaks, 3, 0.1, "linear")
        assert rates == {name: learning_rate(step, 9, peak, 3, 0.1, "linear") for name, peak in peaks.items()}


def test_an_unknown_shape_and_a_share_beyond_one_are_errors() -> None:
    with pytest.raises(ValueError, match="wanted cosine, linear or constant, found 'step'"):
        learning_rate(5, 10, 1.0, 0, schedule="step")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="final_share"):
        learning_rate(5, 10, 1.0, 0, 1.5)
