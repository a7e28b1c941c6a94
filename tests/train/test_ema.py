"""The moving average: its recursion written out, and weights that always come back."""

import pytest
import torch
from torch import nn

from tilewright.configs.errors import InputError
from tilewright.train.ema import Ema

torch.set_num_threads(1)


def weights_of(value: float, dtype: torch.dtype = torch.float32) -> dict[str, nn.Parameter]:
    return {"a": nn.Parameter(torch.full((2, 3), value, dtype=dtype)), "b": nn.Parameter(torch.tensor(-value))}


def move(weights: dict[str, nn.Parameter], step: float) -> None:
    with torch.no_grad():
        for weight in weights.values():
            weight += step


def test_average_follows_its_recursion() -> None:
    weights = weights_of(1.0)
    ema = Ema(weights, 0.5)
    average, value = 1.0, 1.0
    for n in range(1, 21):
        move(weights, 0.25)
        ema.update()
        value += 0.25
        decay = min(0.5, (1 + n) / (10 + n))
        average = decay * average + (1 - decay) * value
    with ema.averaged():
        assert weights["a"][1, 2].item() == pytest.approx(average, rel=1e-6)


def test_weights_that_stay_are_their_own_average() -> None:
    weights = weights_of(3.0)
    ema = Ema(weights, 0.999)
    for _ in range(5):
        ema.update()
    with ema.averaged():
        assert torch.equal(weights["a"], torch.full((2, 3), 3.0))


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, ValueError])
def test_training_weights_come_back_bit_for_bit(error: type[BaseException] | None) -> None:
    weights = weights_of(0.1, torch.bfloat16)
    ema = Ema(weights, 0.9)
    move(weights, 0.7)
    ema.update()
    before = {name: weight.detach().clone() for name, weight in weights.items()}
    try:
        with ema.averaged():
            assert not torch.equal(weights["a"], before["a"])
            if error:
                raise error
    except (KeyboardInterrupt, ValueError):
        assert error
    assert all(torch.equal(weights[name], before[name]) for name in before)
    ema.update()  # not refused any more


def test_averages_are_kept_in_float32() -> None:
    weights = weights_of(1.0, torch.bfloat16)
    ema = Ema(weights, 0.9999)
    for _ in range(3):
        move(weights, 0.0625)
        ema.update()
    assert ema.state()["a"].dtype == torch.float32
    assert ema.state()["a"][0, 0] != ema.state()["a"][0, 0].bfloat16().float()


def test_no_update_and_no_second_swap_while_averaged() -> None:
    ema = Ema(weights_of(1.0), 0.9)
    with ema.averaged():
        with pytest.raises(RuntimeError, match="in place"):
            ema.update()
        with pytest.raises(RuntimeError, match="already"), ema.averaged():
            pass


def test_a_resumed_average_goes_on_as_if_never_stopped() -> None:
    states = []
    for stop_at in (None, 4):
        weights = weights_of(1.0)
        ema = Ema(weights, 0.9)
        for n in range(8):
            if n == stop_at:
                stored = {name: value.clone() for name, value in ema.state().items()}
                ema = Ema(weights, 0.9)
                ema.load(stored)
            move(weights, 0.1 * n)
            ema.update()
        states.append(ema.state())
    assert states[0].keys() == states[1].keys()
    assert all(torch.equal(states[0][name], states[1][name]) for name in states[0])


def test_another_run_s_average_is_refused() -> None:
    ema = Ema(weights_of(1.0), 0.9)
    with pytest.raises(InputError, match="found others"):
        ema.load({"a": torch.zeros(2, 3), "updates": torch.tensor(1)})
    with pytest.raises(InputError, match="found others: shapes"):
        ema.load({"a": torch.zeros(3, 2), "b": torch.zeros(()), "updates": torch.tensor(1)})
    with pytest.raises(ValueError, match="decay"):
        Ema({}, 1.0)
