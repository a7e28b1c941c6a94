"""Where a rank computes; gradients in buckets."""

import pytest
import torch
from torch import nn

from tilewright.configs.errors import InputError
from tilewright.train.distributed import _buckets, choose_device


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


@pytest.mark.parametrize("limit", [1, 40, 100, 10_000])
def test_buckets_hold_every_parameter_once_in_order_within_their_bound(limit: int) -> None:
    parameters = [nn.Parameter(torch.zeros(size)) for size in (3, 5, 2, 20, 1, 1, 7)]
    buckets = list(_buckets(parameters, limit))
    assert [id(parameter) for bucket in buckets for parameter in bucket] == [id(parameter) for parameter in parameters]
    sizes = [sum(4 * parameter.numel() for parameter in bucket) for bucket in buckets]
    assert all(size <= limit or len(bucket) == 1 for size, bucket in zip(sizes, buckets, strict=True))
    assert all(size + 4 * after[0].numel() > limit for size, after in zip(sizes, buckets[1:], strict=False))
