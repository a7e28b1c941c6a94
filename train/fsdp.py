"""FSDP2: each rank holds a part of every weight, whole layers come together while they are used."""

import os
from collections.abc import Mapping
from contextlib import AbstractContextManager
from functools import partial

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor import DTensor, distribute_tensor

from tilewright.configs.errors import InputError
from tilewright.train.adapters import trainable
from tilewright.train.distributed import average_gradients
from tilewright.train.encoder import Encoder
from tilewright.train.objective import Objective
from tilewright.train.optimizer import set_learning_rates
from tilewright.train.parallel import OptimizerOf, OptimizerState, moments_of, same_names
from tilewright.train.sharded import Twin


class FullySharded:
    """See ``Parallel``. Layers called FSDP_TRANSFORMER_CLS_TO_WRAP come together one by one; the rest, all at once.

    Every backward pass adds to the parts of gradients on each rank, so memory stays divided. The temperature, a scalar,
    is on every rank.
    """

    equal_passes = True

    def __init__(self, encoder: Encoder, objective: Objective, optimizer_of: OptimizerOf, max_grad_norm: float) -> None:
        self._encoder, self._max_grad_norm = encoder, max_grad_norm
        self._twin = Twin(encoder)
        _shard(encoder.model, encoder.device)
        self._weights = trainable(nn.ModuleDict({"encoder": encoder.model, "objective": objective}))
        self._optimizer = optimizer_of(self._weights)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """See ``Parallel``."""
        return self._optimizer

    def backward(self, loss: Tensor, last: bool) -> None:
        """See ``Parallel``; averages over ranks on its way."""
        if loss.requires_grad:
            loss.backward()  # type: ignore[no-untyped-call]

    def update(self, learning_rates: Mapping[str, float]) -> Tensor:
        """See ``Parallel``."""
        divided = [parameter for parameter in self._weights.values() if isinstance(parameter, DTensor)]
        replicated = [parameter for parameter in self._weights.values() if not isinstance(parameter, DTensor)]
        average_gradients(replicated)
        norms = []
        for parameters in (divided, replicated):
            norm = nn.utils.get_total_norm([p.grad for p in parameters if p.grad is not None])
            norms.append(norm.full_tensor() if isinstance(norm, DTensor) else norm)
        total: Tensor = torch.stack([norm.to(self._encoder.device) for norm in norms]).norm()
        for parameters in (divided, replicated):
            nn.utils.clip_grads_with_norm_(parameters, self._max_grad_norm, total)
        if torch.isfinite(total):
            set_learning_rates(self._optimizer.param_groups, learning_rates)
            self._optimizer.step()
        self._optimizer.zero_grad(set_to_none=True)
        return total

    def weights(self) -> dict[str, Tensor]:
        """See ``Parallel``."""
        return {name: _whole(parameter.detach()) for name, parameter in self._weights.items()}

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """See ``Parallel``."""
        for name, parameter in same_names(self._weights, weights).items():
            parameter.copy_(_placed_like(parameter, weights[name]))

    def optimizer_state(self) -> OptimizerState:
        """See ``Parallel``."""
        return {
            name: {key: _whole(value) for key, value in self._optimizer.state[parameter].items()}
            for name, parameter in self._weights.items()
            if self._optimizer.state.get(parameter)
        }

    def load_optimizer_state(self, state: OptimizerState) -> None:
        """See ``Parallel``."""
        for name, values in state.items():
            parameter = self._weights[name]
            self._optimizer.state[parameter] = moments_of(values, partial(_placed_like, parameter))

    def whole(self) -> AbstractContextManager[None]:
        """See ``Parallel``."""
        model = self._encoder.model
        return self._twin.holding(
            lambda: {name: _whole(parameter.detach()) for name, parameter in model.named_parameters()}
        )


def _shard(model: nn.Module, device: torch.device) -> None:
    mesh = init_device_mesh(device.type, (dist.get_world_size(),))
    wanted = [name for name in os.environ.get("FSDP_TRANSFORMER_CLS_TO_WRAP", "").split(",") if name]
    layers = [module for module in model.modules() if type(module).__name__ in wanted]
    if not layers:
        raise InputError(
            "accelerate's fsdp_config: fsdp_transformer_layer_cls_to_wrap: wanted names of the model's layers (e.g."
            f" {getattr(model, '_no_split_modules', None)}), found {wanted}"
        )
    reshard = os.environ.get("FSDP_RESHARD_AFTER_FORWARD", "true").lower() == "true"
    for module in [*layers, model]:
        fully_shard(module, mesh=mesh, reshard_after_forward=reshard)


def _whole(tensor: Tensor) -> Tensor:
    found: Tensor = tensor.full_tensor() if isinstance(tensor, DTensor) else tensor
    return found


def _placed_like(parameter: Tensor, value: Tensor) -> Tensor:
    """``value``, which every rank has, as parts where ``parameter`` lies in parts."""
    value = value.to(device=parameter.device, dtype=parameter.dtype)
    if not isinstance(parameter, DTensor):
        return value
    return distribute_tensor(value, parameter.device_mesh, parameter.placements, src_data_rank=None)
