"""How ranks share an update: each holds all weights and averages gradients (here), or weights are in parts."""

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any, Protocol, TypeVar

import torch
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from tilewright.configs.errors import InputError
from tilewright.train.adapters import trainable
from tilewright.train.contrastive_step import Objective as ObjectiveCall
from tilewright.train.distributed import average_gradients, same_everywhere
from tilewright.train.encoder import Encoder
from tilewright.train.grad_cache import Embed
from tilewright.train.launch import launched_as
from tilewright.train.objective import Objective
from tilewright.train.optimizer import set_learning_rates

OptimizerState = dict[str, dict[str, Tensor]]
"""{weight: {`exp_avg`: ..., `exp_avg_sq`: ..., `step`: updates so far}}, whole; without weights never updated."""
MOMENTS = ("exp_avg", "exp_avg_sq")
T = TypeVar("T")
OptimizerOf = Callable[[Mapping[str, nn.Parameter]], torch.optim.Optimizer]


class Parallel(Protocol):
    """What a training run asks of it. All methods are to be called on every rank, in the same order.

    ``equal_passes``: every rank must make the same number of forward and backward passes in a step.
    """

    equal_passes: bool

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """What updates the weights; its groups are named."""

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add the gradients of a scalar, none if no weight reaches it; ``last``: of the step."""

    def update(self, learning_rates: Mapping[str, float]) -> Tensor:
        """Average gradients over ranks, clip, step, drop them; return their norm before clipping.

        A norm that isn't finite leaves the weights as they are. ``learning_rates``: by optimiser group; a group
        without one keeps its weights and moments.
        """

    def weights(self) -> dict[str, Tensor]:
        """{name: whole trainable weight}, the same on every rank; not to be written to."""

    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """Put whole weights back; the names are those of ``weights``."""

    def optimizer_state(self) -> OptimizerState:
        """The optimiser's state, whole and by name, the same on every rank; not to be written to."""

    def load_optimizer_state(self, state: OptimizerState) -> None:
        """Go on from a state that ``optimizer_state`` of any Parallel gave."""

    def whole(self) -> AbstractContextManager[None]:
        """Within, the encoder's model has all its weights: one rank alone may encode with it and save it."""


class Replicated:
    """Every rank holds all weights; gradients are averaged once a step, bucket by bucket. Also for a single rank."""

    equal_passes = False

    def __init__(
        self, weights: Mapping[str, nn.Parameter], optimizer: torch.optim.Optimizer, max_grad_norm: float
    ) -> None:
        self._weights, self._optimizer, self._max_grad_norm = weights, optimizer, max_grad_norm

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """See ``Parallel``."""
        return self._optimizer

    def backward(self, loss: Tensor, last: bool) -> None:
        """Add its gradients to this rank's."""
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]

    def update(self, learning_rates: Mapping[str, float]) -> Tensor:
        """See ``Parallel``."""
        average_gradients(self._weights.values())
        norm = nn.utils.clip_grad_norm_(self._weights.values(), self._max_grad_norm)
        if torch.isfinite(norm):
            set_learning_rates(self.optimizer.param_groups, learning_rates)
            self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        return norm

    def weights(self) -> dict[str, Tensor]:
        """See ``Parallel``; shares memory with the parameters."""
        return {name: parameter.detach() for name, parameter in self._weights.items()}

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """See ``Parallel``."""
        for name, parameter in same_names(self._weights, weights).items():
            parameter.copy_(weights[name])

    def optimizer_state(self) -> OptimizerState:
        """See ``Parallel``; shares memory with the optimiser."""
        state = self.optimizer.state
        return {name: dict(state[parameter]) for name, parameter in self._weights.items() if state.get(parameter)}

    def load_optimizer_state(self, state: OptimizerState) -> None:
        """See ``Parallel``."""
        for name, values in state.items():
            parameter = self._weights[name]
            self.optimizer.state[parameter] = moments_of(values, partial(Tensor.to, device=parameter.device))

    def whole(self) -> AbstractContextManager[None]:
        """See ``Parallel``: it always has."""
        return nullcontext()


def saved_state(parallel: Parallel) -> dict[str, dict[str, Tensor]]:
    """{`weights`, `optimizer`: {name: tensor}}, to be written; an optimiser's values are called WEIGHT/VALUE."""
    optimizer = {
        f"{name}/{key}": value for name, values in parallel.optimizer_state().items() for key, value in values.items()
    }
    return {"weights": parallel.weights(), "optimizer": optimizer}


def load_saved_state(parallel: Parallel, saved: Mapping[str, Mapping[str, Tensor]]) -> None:
    """Go on from a ``saved_state``. Raises InputError if it belongs to other weights."""
    parallel.load_weights(saved["weights"])
    state: OptimizerState = {}
    for name, value in saved["optimizer"].items():
        weight, _, key = name.rpartition("/")
        state.setdefault(weight, {})[key] = value
    parallel.load_optimizer_state(state)


def moments_of(values: Mapping[str, Tensor], placed: Callable[[Tensor], Tensor]) -> dict[str, Tensor]:
    """One weight's optimiser state from stored ``values``, each moment as ``placed`` gives it; copies."""
    step = torch.as_tensor(values["step"], dtype=torch.float32).cpu().clone()
    return {"step": step} | {name: placed(values[name].clone()) for name in MOMENTS}


def same_names(weights: Mapping[str, T], stored: Mapping[str, Any]) -> Mapping[str, T]:
    """``weights``. Raises InputError unless ``stored`` has the same names."""
    if stored.keys() != weights.keys():
        differing = sorted(stored.keys() ^ weights.keys())
        raise InputError(f"weights: {len(differing)} other parameters than the run's; first: {differing[0]}")
    return weights


@dataclass(frozen=True)
class Training:
    """A model ready to be trained: what a step embeds with, its loss, and how its ranks update together."""

    embed: Embed
    objective: ObjectiveCall
    parallel: Parallel


def choose_parallel(
    encoder: Encoder,
    objective: Objective,
    optimizer_of: OptimizerOf,
    max_grad_norm: float,
    embed: Embed | None = None,
) -> Training:
    """The way of training that the launcher's environment asks for: see ``launch.launched_as``.

    Trains what has ``requires_grad`` in the encoder's model and the objective, under the names `encoder.*` and
    `objective.*`; ``optimizer_of`` makes the optimiser of them, all groups named. Every rank gets rank 0's weights.
    ``embed`` is what a step embeds with, the encoder's ``forward`` if None: autocast goes inside, since DeepSpeed
    switches off what is around it.
    Raises InputError for a model that is wrapped already, or without DeepSpeed where it is asked for.
    """
    if isinstance(encoder.model, DistributedDataParallel):
        raise InputError("wanted a bare model, found one in DistributedDataParallel: ranks are joined here")
    embed = encoder.forward if embed is None else embed
    root = nn.ModuleDict({"encoder": encoder.model, "objective": objective})
    weights = trainable(root)
    same_everywhere(weights.values())
    match launched_as():
        case "fsdp2":
            from tilewright.train.fsdp import FullySharded

            sharded = FullySharded(encoder, objective, optimizer_of, max_grad_norm)
            return Training(embed, objective, sharded)
        case "zero2" | "zero3":
            from tilewright.train.zero import Zero

            zero = Zero(encoder, embed, objective, optimizer_of, max_grad_norm)
            return Training(zero.embed, zero.objective, zero)
        case _:
            return Training(embed, objective, Replicated(weights, optimizer_of(weights), max_grad_norm))
