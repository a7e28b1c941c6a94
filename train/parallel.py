"""How ranks share an update: each holds all weights and averages gradients (here), or weights are in parts."""

from collections.abc import Mapping
from typing import Protocol

import torch
from torch import Tensor, nn

from tilewright.train.distributed import average_gradients


class Parallel(Protocol):
    """What a training run asks of it.

    ``equal_passes``: every rank must make the same number of forward and backward passes in a step.
    """

    equal_passes: bool

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add the gradients of a scalar; ``last``: of the step."""

    def update(self, learning_rates: Mapping[str, float]) -> Tensor:
        """Average gradients over ranks, clip, step, drop them; return their norm before clipping.

        A norm that isn't finite leaves the weights as they are. ``learning_rates``: by optimiser group.
        """


class Replicated:
    """Every rank holds all weights; gradients are averaged once a step, bucket by bucket. Also for a single rank."""

    equal_passes = False

    def __init__(
        self, weights: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, max_grad_norm: float
    ) -> None:
        self._weights, self._optimizer, self._max_grad_norm = weights, optimizer, max_grad_norm

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add its gradients to this rank's."""
        loss.backward()  # type: ignore[no-untyped-call]

    def update(self, learning_rates: Mapping[str, float]) -> Tensor:
        """See ``Parallel``."""
        average_gradients(self._weights.values())
        norm = nn.utils.clip_grad_norm_(self._weights.values(), self._max_grad_norm)
        if torch.isfinite(norm):
            for group in self._optimizer.param_groups:
                group["lr"] = learning_rates[group["name"]]
            self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return norm
