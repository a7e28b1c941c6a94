"""LoRA by named group: which linear layers of a model each group means, and whether it really learns."""

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import torch
from peft import LoraConfig, PeftModel, get_peft_model
from peft.tuners.lora import LoraLayer
from torch import Tensor, nn

from tilewright.configs.errors import InputError

GROUPS: Mapping[str, str] = {
    "llm_attn": r"language_model\.layers\.\d+\.self_attn\.(q_proj|k_proj|v_proj|o_proj)",
    "llm_mlp": r"language_model\.layers\.\d+\.mlp\.(gate_proj|up_proj|down_proj)",
    "vit_attn": r"visual\.blocks\.\d+\.attn\.(qkv|proj)",
    "vit_mlp": r"visual\.blocks\.\d+\.mlp\.(linear_fc1|linear_fc2)",
    "merger": r"visual\.merger\.(linear_fc1|linear_fc2)",
    "deepstack": r"visual\.deepstack_merger_list\.\d+\.(linear_fc1|linear_fc2)",
    "heads": r"(character_head|context_head)",
}
"""Group name to the names of its linear layers, below any prefix. `heads` are those with which nano reads."""
VISION_GROUPS = ("vit_attn", "vit_mlp", "merger", "deepstack", "heads")
"""Groups that only pictures reach."""

ADAPTER = "default"


@dataclass(frozen=True)
class LoraGroup:
    """Adapters of one group: each update is scaled by alpha / rank (with rsLoRA: by alpha / sqrt(rank)).

    ``dropout``: of the adapters' inputs; ``learning_rate``: the group's peak (None: the run's).
    """

    rank: int
    alpha: float
    dropout: float = 0.0
    learning_rate: float | None = None

    def __post_init__(self) -> None:
        if self.rank < 1 or not self.alpha > 0:
            raise ValueError(f"wanted rank >= 1 and alpha > 0, found {self.rank} and {self.alpha}")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout: wanted 0 <= dropout < 1, found {self.dropout}")
        if self.learning_rate is not None and not self.learning_rate > 0:
            raise ValueError(f"learning_rate: wanted more than 0, or null, found {self.learning_rate}")


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
            f" {linear[:3]}): leave them out, or use a model that has them"
        )
    return found


def _is_in(name: str, group: str) -> bool:
    return re.search(rf"(^|\.){GROUPS[group]}$", name) is not None


def add_adapters(
    model: nn.Module,
    groups: Mapping[str, LoraGroup],
    *,
    seed: int = 0,
    use_dora: bool = False,
    use_rslora: bool = False,
) -> PeftModel:
    """``model`` frozen and wrapped by PEFT, with fp32 LoRA layers in the linear layers of ``groups``.

    The initial values depend on ``seed`` only; ``lora_B`` starts at zero, so the model's output doesn't change.
    ``use_dora``: the length of each output's weights is learned too (arXiv 2402.09353); ``use_rslora``: see LoraGroup
    (arXiv 2312.03732). Raises AdapterError as ``resolve``, and for a model that has adapters already.
    """
    if isinstance(model, PeftModel):
        raise AdapterError("adapters: wanted a model without any, found one with its own: export it as merged first")
    names = resolve(model, groups)
    owner = {name: groups[group] for group, members in names.items() for name in members}
    config = LoraConfig(
        r=next(iter(groups.values())).rank,
        target_modules=list(owner),
        rank_pattern={re.escape(name): group.rank for name, group in owner.items()},
        alpha_pattern={re.escape(name): group.alpha for name, group in owner.items()},
        use_dora=use_dora,
        use_rslora=use_rslora,
    )
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        wrapped = get_peft_model(model, config, adapter_name=ADAPTER)
    layers = dict(_lora_layers(wrapped.get_base_model()))
    if layers.keys() != owner.keys():
        differing = sorted(layers.keys() ^ owner.keys())
        raise AdapterError(f"adapters: wanted {len(owner)} layers, PEFT adapted {len(layers)}; first: {differing[0]}")
    for name, group in owner.items():
        if group.dropout:  # PEFT's own is one for all layers
            layers[name].lora_dropout[ADAPTER] = nn.Dropout(group.dropout)
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
        group = group_of(name)
        counts[group] = counts.get(group, 0) + parameter.numel()
    return counts


def group_of(parameter_name: str) -> str:
    """The group of a parameter by its name, adapted or not, below any prefix; ``other`` if it is in none."""
    module = re.sub(r"(\.lora_(A|B|magnitude_vector)\.\w+|\.base_layer)?\.(weight|bias)$", "", parameter_name)
    return next((group for group in GROUPS if _is_in(module, group)), "other")


def is_of_vision(parameter_name: str) -> bool:
    """Whether a parameter belongs to the vision tower or to nano's heads on it, which only pictures reach."""
    return re.search(r"(^|\.)(visual|character_head|context_head|start_head)\.", parameter_name) is not None


class MovementCheck:
    """Looks after each update whether the groups it exercised have moved, until all have.

    A group's ``lora_B`` start at zero and get a gradient before ``lora_A`` do, so one update with a learning rate above
    zero must have moved some of them. Raises AdapterError at once for a group without a trainable ``lora_B``.
    """

    def __init__(self, groups: Iterable[str], weights: Iterable[str]) -> None:
        self._names: dict[str, list[str]] = {group: [] for group in groups}
        for name in weights:
            if ".lora_B." in name and group_of(name) in self._names:
                self._names[group_of(name)].append(name)
        frozen = [group for group, names in self._names.items() if not names]
        if frozen:
            raise AdapterError(f"adapters: {frozen}: wanted trainable lora_B weights, found none: the group is frozen")

    @property
    def waiting(self) -> tuple[str, ...]:
        """Groups that haven't moved yet; empty once the check is over."""
        return tuple(self._names)

    def after_update(self, weights: Mapping[str, Tensor], learning_rates: Mapping[str, float]) -> None:
        """Look at ``weights`` after an update with ``learning_rates``; a group without a rate wasn't exercised.

        Raises AdapterError for a group that was exercised with a rate above zero and whose ``lora_B`` are all zero.
        """
        exercised = [group for group in self._names if learning_rates.get(group, 0.0) > 0]
        still = [
            group for group in exercised if not any(weights[name].detach().any().item() for name in self._names[group])
        ]
        if still:
            raise AdapterError(f"adapters: {still} did not move with the first update: no gradient reaches them")
        for group in exercised:
            del self._names[group]


def assert_moved(model: nn.Module) -> None:
    """Raise AdapterError for a group of ``model`` whose ``lora_B`` are all still zero.

    To be called after the first update with a learning rate above zero that exercises all groups.
    """
    weights = dict(model.named_parameters())
    groups = {group_of(name) for name in weights if ".lora_B." in name}
    MovementCheck(groups, weights).after_update(weights, dict.fromkeys(groups, 1.0))


def _lora_layers(model: nn.Module) -> Iterator[tuple[str, LoraLayer]]:
    return ((name, module) for name, module in model.named_modules() if isinstance(module, LoraLayer))
