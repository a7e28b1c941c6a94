"""LoRA by named group: which linear layers of a Qwen3-VL model each group means, and whether it really learns."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import nn

from tilewright.configs.errors import InputError

GROUPS: Mapping[str, str] = {
    "llm_attn": r"language_model\.layers\.\d+\.self_attn\.(q_proj|k_proj|v_proj|o_proj)",
    "llm_mlp": r"language_model\.layers\.\d+\.mlp\.(gate_proj|up_proj|down_proj)",
    "vit_attn": r"visual\.blocks\.\d+\.attn\.(qkv|proj)",
    "vit_mlp": r"visual\.blocks\.\d+\.mlp\.(linear_fc1|linear_fc2)",
    "merger": r"visual\.merger\.(linear_fc1|linear_fc2)",
    "deepstack": r"visual\.deepstack_merger_list\.\d+\.(linear_fc1|linear_fc2)",
}
"""Group name to the names of its linear layers, below any prefix."""

ADAPTER = "default"


@dataclass(frozen=True)
class LoraGroup:
    """Rank and alpha of one group's adapters: each update is scaled by alpha / rank."""

    rank: int
    alpha: float

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.alpha > 0:
            raise ValueError(f"wanted rank >= 1 and alpha > 0, found {self.rank} and {self.alpha}")


class AdapterError(InputError):
    """A LoRA group that names nothing or doesn't learn."""


def resolve(model: nn.Module, groups: Mapping[str, LoraGroup]) -> dict[str, list[str]]:
    """{group: names of its linear layers in ``model``}. Raises AdapterError for an unknown or empty group."""
    unknown = [name for name in groups if name not in GROUPS]
    if unknown or not groups:
        raise AdapterError(f"adapters: wanted one or more of {list(GROUPS)}, found {list(groups)}")
    linear = [name for name, module in model.named_modules() if isinstance(module, nn.Linear)]
    found = {group: [name for name in linear if _is_in(name, group)] for group in groups}
    empty = [group for group, names in found.items() if not names]
    if empty:
        raise AdapterError(
            f"adapters: {empty} match no linear layer of {type(model).__name__} ({len(linear)} linear layers, e.g."
            f" {linear[:3]}): leave them out, or use a Qwen3-VL model"
        )
    return found


def _is_in(name: str, group: str) -> bool:
    return re.search(rf"(^|\.){GROUPS[group]}$", name) is not None


def add_adapters(model: nn.Module, groups: Mapping[str, LoraGroup], *, seed: int = 0) -> PeftModel:
    """``model`` frozen and wrapped by PEFT, with fp32 LoRA layers in the linear layers of ``groups``.

    The initial values depend on ``seed`` only; ``lora_B`` starts at zero, so the model's output doesn't change.
    Raises AdapterError as ``resolve``.
    """
    names = resolve(model, groups)
    owner = {name: groups[group] for group, members in names.items() for name in members}
    config = LoraConfig(
        r=next(iter(groups.values())).rank,
        target_modules=list(owner),
        rank_pattern={re.escape(name): group.rank for name, group in owner.items()},
        alpha_pattern={re.escape(name): group.alpha for name, group in owner.items()},
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        wrapped = get_peft_model(model, config, adapter_name=ADAPTER)
    adapted = {name for name, _ in _lora_layers(wrapped.get_base_model())}
    if adapted != owner.keys():
        differing = sorted(adapted ^ owner.keys())
        raise AdapterError(f"adapters: wanted {len(owner)} layers, PEFT adapted {len(adapted)}; first: {differing[0]}")
    for parameter in trainable(wrapped).values():
        parameter.data = parameter.data.float()
    return wrapped


def trainable(model: nn.Module) -> dict[str, nn.Parameter]:
    """{name: parameter} of what the optimiser updates, in the model's order."""
    return {name: parameter for name, parameter in model.named_parameters() if parameter.requires_grad}


def count_by_group(model: nn.Module) -> dict[str, int]:
    """{group: trainable parameters}; what is in no group is called ``other``. Empty groups are left out."""
    counts: dict[str, int] = {}
    for name, parameter in trainable(model).items():
        group = _group_of(name)
        counts[group] = counts.get(group, 0) + parameter.numel()
    return counts


def _group_of(parameter_name: str) -> str:
    module = re.sub(r"(\.lora_[AB]\.\w+|\.base_layer)?\.(weight|bias)$", "", parameter_name)
    return next((group for group in GROUPS if _is_in(module, group)), "other")


def assert_moved(model: nn.Module) -> None:
    """Raise AdapterError for a group whose ``lora_B`` are all still zero.

    To be called after the first update with a learning rate above zero: whatever had a gradient has moved by then.
    """
    moved: dict[str, bool] = {}
    for name, layer in _lora_layers(model):
        group = _group_of(f"{name}.weight")
        moved[group] = moved.get(group, False) or bool(layer.lora_B[ADAPTER].weight.count_nonzero())
    still = [group for group, has_moved in moved.items() if not has_moved]
    if still:
        raise AdapterError(f"adapters: {still} did not move with the first update: no gradient reaches them")


def _lora_layers(model: nn.Module) -> Iterator[tuple[str, LoraLayer]]:
    return ((name, module) for name, module in model.named_modules() if isinstance(module, LoraLayer))
