"""DeepSpeed ZeRO-2 and -3: gradients and optimiser state in parts, with stage 3 the weights too."""

import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.func import functional_call

from tilewright.configs.errors import InputError
from tilewright.train.adapters import trainable
from tilewright.train.batch import Batch
from tilewright.train.distributed import ranks
from tilewright.train.encoder import Encoder
from tilewright.train.grad_cache import Embed
from tilewright.train.losses import Stats
from tilewright.train.objective import LOWEST_TEMPERATURE, Objective
from tilewright.train.optimizer import set_learning_rates
from tilewright.train.parallel import MOMENTS, OptimizerOf, OptimizerState, same_names
from tilewright.train.sharded import Twin


class _Root(nn.Module):
    """What DeepSpeed sees: a batch gives vectors, vectors and labels give the loss."""

    def __init__(self, model: nn.Module, embed: Embed, objective: Objective) -> None:
        super().__init__()
        self.encoder, self.objective = model, _Loss(objective)
        self._embed = embed

    def forward(self, first: Batch | Tensor, *others: Tensor) -> Any:
        return self._embed(first) if isinstance(first, Batch) else self.objective(first, *others)


class _Loss(nn.Module):
    """The objective, whose temperature lies in a vector of one number: DeepSpeed can't send a scalar."""

    def __init__(self, objective: Objective) -> None:
        super().__init__()
        self.log_temperature = objective.log_temperature
        self.log_temperature.data = self.log_temperature.data.view(1)
        self._call = partial(functional_call, objective)

    def forward(self, *inputs: Tensor) -> Any:
        return self._call({"log_temperature": self.log_temperature.view(())}, inputs)


class Zero:
    """See ``Parallel``. ``embed`` and ``objective`` go through DeepSpeed's engine, as its hooks demand.

    The engine's accumulation boundary is set before each backward pass: true for a step's last alone, else it would
    keep only that one's gradients.
    """

    equal_passes = True

    def __init__(
        self, encoder: Encoder, embed: Embed, objective: Objective, optimizer_of: OptimizerOf, max_grad_norm: float
    ) -> None:
        self._encoder, self._log_temperature = encoder, objective.log_temperature
        config = _config(max_grad_norm)
        self._in_parts = config["zero_optimization"]["stage"] == 3
        self._twin = Twin(encoder) if self._in_parts else None
        scalar = objective.log_temperature.shape
        root = _Root(encoder.model, embed, objective)
        self._weights = trainable(root)
        self._shapes = {name: parameter.shape for name, parameter in self._weights.items()}
        self._shapes |= {"objective.log_temperature": scalar}
        self._engine = _engine(root, optimizer_of(self._weights), config)

    @property
    def optimizer(self) -> torch.optim.Optimizer:
        """See ``Parallel``; its groups hold flat parts of weights."""
        return self._engine.optimizer.optimizer  # type: ignore[no-any-return]

    def embed(self, batch: Batch) -> Tensor:
        """Model inputs of B rows -> [B, D], with gradient where it is enabled."""
        return self._engine(batch)  # type: ignore[no-any-return]

    def objective(self, queries: Tensor, tiles: Tensor, positive: Tensor, ignore: Tensor) -> tuple[Tensor, Stats]:
        """See ``Objective``."""
        return self._engine(queries, tiles, positive, ignore)  # type: ignore[no-any-return]

    def backward(self, loss: Tensor, last: bool) -> None:
        """See ``Parallel``; averages over ranks on its way."""
        self._engine.set_gradient_accumulation_boundary(last)
        if loss.requires_grad:
            self._engine.backward(loss)

    def update(self, learning_rates: Mapping[str, float]) -> Tensor:
        """See ``Parallel``."""
        set_learning_rates(self.optimizer.param_groups, learning_rates)
        self._engine.set_gradient_accumulation_boundary(True)  # also where the last pass had no gradient
        self._engine.step()
        if self._in_parts:
            self._forget_gradients()
        if self._log_temperature.requires_grad:
            self._clamp()
        return torch.as_tensor(self._engine.get_global_grad_norm())

    def weights(self) -> dict[str, Tensor]:
        """See ``Parallel``."""
        parts = {name: self._part(parameter) for name, parameter in self._weights.items()}
        return {name: part.whole(part.flat).view(self._shapes[name]) for name, part in parts.items()}

    @torch.no_grad()
    def load_weights(self, weights: Mapping[str, Tensor]) -> None:
        """See ``Parallel``."""
        for name, parameter in same_names(self._weights, weights).items():
            part, value = self._part(parameter), weights[name].to(parameter.device)
            part.write(part.flat, value)
            if self._in_parts:
                part.write_own(parameter.ds_tensor.view(-1), value)  # type: ignore[attr-defined]
            if parameter.numel() == value.numel():
                parameter.copy_(value.view_as(parameter))

    def optimizer_state(self) -> OptimizerState:
        """See ``Parallel``."""
        parts = {name: self._part(parameter) for name, parameter in self._weights.items()}
        states = {name: self.optimizer.state.get(part.flat) for name, part in parts.items()}
        return {
            name: {"step": state["step"].clone()}
            | {key: parts[name].whole(state[key]).view(self._shapes[name]) for key in MOMENTS}
            for name, state in states.items()
            if state
        }

    @torch.no_grad()
    def load_optimizer_state(self, state: OptimizerState) -> None:
        """See ``Parallel``."""
        for name, values in state.items():
            part = self._part(self._weights[name])
            if not self.optimizer.state.get(part.flat):
                moments = {key: torch.zeros_like(part.flat) for key in MOMENTS}
                self.optimizer.state[part.flat] = {"step": torch.as_tensor(0.0)} | moments
            own = self.optimizer.state[part.flat]
            own["step"].copy_(values["step"])
            for key in MOMENTS:
                part.write(own[key], values[key].to(part.flat.device))

    def whole(self) -> AbstractContextManager[None]:
        """See ``Parallel``."""
        return nullcontext() if self._twin is None else self._twin.holding(self._gathered)

    @torch.no_grad()
    def _gathered(self) -> dict[str, Tensor]:
        """{name: whole weight} of the encoder's model, frozen ones too."""
        import deepspeed

        found = {}
        for name, parameter in self._encoder.model.named_parameters():
            with deepspeed.zero.GatheredParameters([parameter]):
                found[name] = parameter.detach().clone()
        return found

    def _forget_gradients(self) -> None:
        """Clear the parts of gradients: stage 3 overwrites those alone that a step's first backward pass reaches."""
        from deepspeed.utils import safe_set_local_grad

        for parameter in self._weights.values():
            safe_set_local_grad(parameter, torch.zeros_like(parameter.ds_tensor))  # type: ignore[attr-defined]

    @torch.no_grad()
    def _clamp(self) -> None:
        """``Objective.clamp`` for every copy of the temperature on this rank, also the one that is updated."""
        parameter = self._log_temperature
        part = self._part(parameter)
        copies = [part.flat.narrow(0, part.offset, part.count), parameter.data]
        if self._in_parts:
            copies.append(parameter.ds_tensor.data)  # type: ignore[attr-defined]
        for values in copies:
            values.clamp_(min=math.log(LOWEST_TEMPERATURE))

    def _part(self, parameter: nn.Parameter) -> "_Part":
        """Where this rank has its part of a trainable parameter."""
        zero = self._engine.optimizer
        if self._in_parts:
            group, offset, size = zero.grad_position[zero.get_param_id(parameter)]
            shape, start = parameter.ds_shape, dist.get_rank() * size  # type: ignore[attr-defined]
            count = max(0, min(size, math.prod(shape) - start))
            return _Part(zero.fp32_partitioned_groups_flat[group], shape, start, offset, count)
        group = next(i for i, members in enumerate(zero.bit16_groups) if any(other is parameter for other in members))
        flat, mapping = zero.single_partition_of_fp32_groups[group], parameter._hp_mapping  # type: ignore[attr-defined]
        if mapping is None:
            return _Part(flat, parameter.shape, 0, 0, 0)
        start, offset = mapping.lp_fragment_address.start, mapping.hp_fragment_address.start
        return _Part(flat, parameter.shape, start, offset, mapping.hp_fragment_address.numel)


@dataclass(frozen=True)
class _Part:
    """``count`` values of a weight of ``shape``, from its ``start`` on, lie in ``flat`` from ``offset`` on."""

    flat: Tensor
    shape: torch.Size
    start: int
    offset: int
    count: int

    def whole(self, flat: Tensor) -> Tensor:
        """The whole weight (or moment, with another ``flat``) from all ranks' parts."""
        found = torch.zeros(math.prod(self.shape), dtype=flat.dtype, device=flat.device)
        found.narrow(0, self.start if self.count else 0, self.count).copy_(flat.narrow(0, self.offset, self.count))
        dist.all_reduce(found)
        return found.view(self.shape)

    def write(self, flat: Tensor, value: Tensor) -> None:
        """Take this rank's part of a whole ``value`` into ``flat``."""
        self.write_own(flat.narrow(0, self.offset, self.count), value)

    def write_own(self, part: Tensor, value: Tensor) -> None:
        """Take this rank's part of a whole ``value`` into the front of ``part``."""
        part[: self.count].copy_(value.reshape(-1)[self.start : self.start + self.count])


def _config(max_grad_norm: float) -> dict[str, Any]:
    """DeepSpeed's configuration: what accelerate's launcher asked for, and what the run decides."""
    from accelerate.utils import DeepSpeedPlugin

    own = {
        "train_micro_batch_size_per_gpu": 1,  # DeepSpeed only counts with these three
        "train_batch_size": ranks(),
        "gradient_accumulation_steps": 1,
        "gradient_clipping": max_grad_norm,
        "zero_allow_untested_optimizer": True,  # AdamW, told which groups are idle
    }
    asked: dict[str, Any] = DeepSpeedPlugin().deepspeed_config
    return asked | own


def _engine(root: nn.Module, optimizer: torch.optim.Optimizer, config: dict[str, Any]) -> Any:
    try:
        import deepspeed
    except ImportError as error:
        raise InputError("DeepSpeed was asked for, but isn't installed: pip install 'tilewright[deepspeed]'") from error
    deepspeed.init_distributed(dist_init_required=False, verbose=False)
    engine, *_ = deepspeed.initialize(model=root, optimizer=optimizer, config=config, dist_init_required=False)
    return engine
