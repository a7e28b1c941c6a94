"""AdamW over named groups of weights: each adapter group its own rate, decay on matrices alone, idle groups left alone.

An update exercises a group or it doesn't (a batch without pictures: nothing of the vision tower). One that isn't
exercised keeps weights and moments as they are, also where gradients lie in flat buffers full of zeros.
"""

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch import nn

from tilewright.train.adapters import VISION_GROUPS, LoraGroup, group_of, is_of_vision

OTHER, VISION_OTHER, TEMPERATURE, NO_DECAY = "other", "vit_other", "temperature", ".no_decay"
_VISION = (*VISION_GROUPS, VISION_OTHER)


class GroupedAdamW(torch.optim.AdamW):
    """AdamW that leaves groups with a true ``idle`` as they are."""

    def step(self, closure: Any = None) -> Any:
        """One update of the groups that aren't idle."""
        groups = self.param_groups
        self.param_groups = [group for group in groups if not group["idle"]]
        try:
            return super().step(closure)
        finally:
            self.param_groups = groups


def set_learning_rates(param_groups: Iterable[dict[str, Any]], learning_rates: Mapping[str, float]) -> None:
    """Give each of an optimiser's groups its rate by name; a group without one is idle. ValueError if none matches."""
    groups = list(param_groups)
    for group in groups:
        group["idle"] = group["name"] not in learning_rates
        group["lr"] = learning_rates.get(group["name"], 0.0)
    if all(group["idle"] for group in groups):
        raise ValueError(f"wanted a rate for one of {[group['name'] for group in groups]}, found {learning_rates}")


def optimizer_group(name: str, parameter: nn.Parameter, groups: Iterable[str]) -> str:
    """The optimiser group of a parameter called ``name``, by its adapter group if that is one of ``groups``.

    ``temperature`` for the objective's; ``vit_other`` and ``other`` for what no group claims; ``.no_decay`` is added
    for vectors and scalars (norms, biases, DoRA magnitudes).
    """
    if name.split(".")[-1] == "log_temperature":
        return TEMPERATURE
    group = group_of(name)
    if group not in groups:
        group = VISION_OTHER if is_of_vision(name) else OTHER
    return group if parameter.dim() >= 2 else group + NO_DECAY


def make_optimizer(
    weights: Mapping[str, nn.Parameter],
    groups: Mapping[str, LoraGroup],
    *,
    weight_decay: float,
    betas: tuple[float, float] = (0.9, 0.999),
    eps: float = 1e-8,
) -> GroupedAdamW:
    """AdamW over ``weights`` in groups named as ``optimizer_group`` says; only matrices are decayed.

    All rates are zero until ``set_learning_rates``. Raises ValueError without weights.
    """
    members: dict[str, list[nn.Parameter]] = {}
    for name, parameter in weights.items():
        members.setdefault(optimizer_group(name, parameter, groups), []).append(parameter)
    if not members:
        raise ValueError("no trainable weights: wanted at least one")
    decayed = {name: not name.endswith(NO_DECAY) and name != TEMPERATURE for name in members}
    listed = [
        {"name": name, "params": members[name], "weight_decay": weight_decay * decayed[name], "idle": True}
        for name in members
    ]
    return GroupedAdamW(listed, lr=0.0, betas=betas, eps=eps)


def peak_rates(
    optimizer: torch.optim.Optimizer,
    groups: Mapping[str, LoraGroup],
    learning_rate: float,
    temperature_learning_rate: float | None = None,
) -> dict[str, float]:
    """{optimiser group: its highest learning rate}: an adapter group's own, the temperature's own, else the run's."""
    rates = {}
    for group in optimizer.param_groups:
        name = group["name"]
        own = groups.get(name.removesuffix(NO_DECAY))
        rate = temperature_learning_rate if name == TEMPERATURE else own.learning_rate if own else None
        rates[name] = learning_rate if rate is None else rate
    return rates


def exercised(rates: Mapping[str, float], with_images: bool) -> dict[str, float]:
    """``rates`` of the groups that a batch exercises: without pictures none of the vision tower's."""
    return {name: rate for name, rate in rates.items() if with_images or name.removesuffix(NO_DECAY) not in _VISION}
