"""Where a rank computes."""

import pytest
import torch

from tilewright.configs.errors import InputError
from tilewright.train.distributed import choose_device


@pytest.mark.parametrize(
    ("gpus", "environment", "wanted"),
    [
        (True, {}, "cuda:0"),
        (True, {"LOCAL_RANK": "3"}, "cuda:3"),
        (True, {"LOCAL_RANK": "3", "ACCELERATE_USE_CPU": "true"}, "cpu"),
        (False, {"LOCAL_RANK": "3"}, "cpu"),
    ],
)
def test_auto_heeds_the_launcher(
    gpus: bool, environment: dict[str, str], wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: gpus)
    for name in ("LOCAL_RANK", "ACCELERATE_USE_CPU"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert choose_device() == choose_device("auto") == torch.device(wanted)
    assert choose_device("cuda:1") == torch.device("cuda:1")


def test_an_unknown_device_is_refused() -> None:
    with pytest.raises(InputError, match="found 'gpu'"):
        choose_device("gpu")
