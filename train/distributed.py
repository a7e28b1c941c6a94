"""Ranks: start and stop the process group, gather vectors with their gradient, average parameter gradients.

Every rank computes the loss of the whole global batch from the gathered vectors, so loss and gradients are those of
one rank whatever their number. Without ``torchrun`` or ``accelerate launch`` all of this is the identity.
"""

import datetime
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn

from tilewright.configs.errors import InputError
from tilewright.configs.stage import rank_and_world

TIMEOUT = datetime.timedelta(minutes=30)
BUCKET_BYTES = 64 << 20


def choose_device(name: str = "auto") -> torch.device:
    """The device called ``name``; ``auto``: this rank's GPU if there is one and ``accelerate launch --cpu`` didn't
    forbid it, else the CPU. Raises InputError for a name that torch doesn't know."""
    if name != "auto":
        try:
            device = torch.device(name)
        except RuntimeError as error:
            raise InputError(f"device: wanted auto, cpu, cuda or cuda:N, found {name!r}") from error
        if device.type == "meta":
            raise InputError("device: wanted auto, cpu, cuda or cuda:N, found 'meta', which holds no values")
        return device
    if torch.cuda.is_available() and os.environ.get("ACCELERATE_USE_CPU", "").lower() not in ("1", "true", "yes"):
        return torch.device("cuda", int(os.environ.get("LOCAL_RANK", "0")))
    return torch.device("cpu")


@contextmanager
def process_group(device: torch.device) -> Iterator[tuple[int, int]]:
    """(rank, number of ranks), with the process group up where there are several ranks; closed if we opened it."""
    rank, world = rank_and_world()
    if world == 1 or dist.is_initialized():
        yield rank, world
        return
    if device.type == "cuda":
        torch.cuda.set_device(device)
    dist.init_process_group("nccl" if device.type == "cuda" else "gloo", timeout=TIMEOUT)
    try:
        yield rank, world
    finally:
        dist.destroy_process_group()


def ranks() -> int:
    """The number of ranks in the process group, 1 without one."""
    return dist.get_world_size() if dist.is_initialized() else 1


def gather(vectors: Tensor, counts: list[int]) -> Tensor:
    """All ranks' rows in rank order: [n_r, D] on rank r -> [sum of n_r, D]; ``counts`` holds every n_r.

    Differentiable: a row's gradient is the sum over ranks of what their losses send back, so with every rank computing
    the same loss it is (number of ranks) times the plain one; averaging parameter gradients over ranks undoes that.
    """
    if len(counts) != ranks() or counts[dist.get_rank() if dist.is_initialized() else 0] != len(vectors):
        raise ValueError(f"wanted one count per rank ({ranks()}), this rank's {len(vectors)}; found {counts}")
    return _Gather.apply(vectors, counts) if len(counts) > 1 else vectors  # type: ignore[no-any-return,no-untyped-call]


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(context: Any, vectors: Tensor, counts: list[int]) -> Tensor:
        context.counts = counts
        padded = vectors.new_zeros(max(counts), *vectors.shape[1:])
        padded[: len(vectors)] = vectors
        parts = [torch.empty_like(padded) for _ in counts]
        dist.all_gather(parts, padded)
        return torch.cat([part[:count] for part, count in zip(parts, counts, strict=True)])

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[Tensor, None]:
        total = gradients[0].contiguous().clone()
        dist.all_reduce(total)
        return torch.split(total, context.counts)[dist.get_rank()], None


def average_gradients(parameters: Iterable[nn.Parameter], bucket_bytes: int = BUCKET_BYTES) -> None:
    """Average gradients over ranks, bucket by bucket; a parameter without one on some rank counts as zero there.

    A parameter that has no gradient on any rank keeps none, as on one rank.
    """
    parameters = list(parameters)
    if ranks() == 1 or not parameters:
        return
    present = torch.tensor([float(parameter.grad is not None) for parameter in parameters])
    present = present.to(parameters[0].device)
    dist.all_reduce(present)
    used = [parameter for parameter, count in zip(parameters, present.tolist(), strict=True) if count]
    reducing = [_reduce(bucket) for bucket in _buckets(used, bucket_bytes)]
    for bucket, flat, work in reducing:
        work.wait()
        flat /= ranks()
        sizes = [parameter.numel() for parameter in bucket]
        for parameter, average in zip(bucket, torch.split(flat, sizes), strict=True):
            parameter.grad = average.view_as(parameter).to(parameter.dtype)


def _buckets(parameters: list[nn.Parameter], bucket_bytes: int) -> Iterator[list[nn.Parameter]]:
    """Runs of parameters of at most ``bucket_bytes`` together in float32, or of one."""
    bucket: list[nn.Parameter] = []
    size = 0
    for parameter in parameters:
        if bucket and size + 4 * parameter.numel() > bucket_bytes:
            yield bucket
            bucket, size = [], 0
        bucket.append(parameter)
        size += 4 * parameter.numel()
    if bucket:
        yield bucket


def _reduce(bucket: list[nn.Parameter]) -> tuple[list[nn.Parameter], Tensor, Any]:
    """(bucket, its summed gradients once the work is done, the work)."""
    gradients = [
        torch.zeros_like(parameter).flatten() if parameter.grad is None else parameter.grad.flatten()
        for parameter in bucket
    ]
    flat = torch.cat([gradient.float() for gradient in gradients])
    return bucket, flat, dist.all_reduce(flat, async_op=True)


def highest(number: int, device: torch.device) -> int:
    """The largest ``number`` of all ranks."""
    if ranks() == 1:
        return number
    value = torch.tensor([number], device=device)
    dist.all_reduce(value, dist.ReduceOp.MAX)
    return int(value.item())


def same_everywhere(parameters: Iterable[nn.Parameter]) -> None:
    """Give every rank the values of rank 0."""
    for parameter in parameters if ranks() > 1 else ():
        dist.broadcast(parameter.data, 0)


def on_any_rank(flag: bool, device: torch.device) -> bool:
    """Whether ``flag`` is set on at least one rank."""
    if ranks() == 1:
        return flag
    value = torch.tensor([float(flag)], device=device)
    dist.all_reduce(value)
    return bool(value.item())
