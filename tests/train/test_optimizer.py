"""Groups of the optimiser: who is in which, what is decayed, what an idle group does."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from tilewright.train.adapters import GROUPS, LoraGroup
from tilewright.train.optimizer import exercised, make_optimizer, optimizer_group, peak_rates, set_learning_rates

torch.set_num_threads(1)
BASE = "encoder.base_model.model."
NAMES = {
    BASE + "language_model.layers.3.self_attn.q_proj.lora_A.default.weight": ((2, 4), "llm_attn"),
    BASE + "language_model.layers.3.self_attn.q_proj.lora_magnitude_vector.default.weight": ((4,), "llm_attn.no_decay"),
    BASE + "visual.blocks.1.attn.qkv.lora_B.default.weight": ((4, 2), "vit_attn"),
    BASE + "visual.merger.linear_fc1.lora_B.default.weight": ((4, 2), "vit_other"),
    BASE + "language_model.layers.3.mlp.up_proj.weight": ((4, 4), "other"),
    BASE + "language_model.norm.weight": ((4,), "other.no_decay"),
    BASE + "visual.pos_embed.weight": ((4, 4), "vit_other"),
    BASE + "visual.blocks.1.norm1.bias": ((4,), "vit_other.no_decay"),
    "objective.log_temperature": ((), "temperature"),
}
ADAPTERS = {"llm_attn": LoraGroup(2, 2, learning_rate=0.5), "vit_attn": LoraGroup(2, 2)}


def weights() -> dict[str, nn.Parameter]:
    return {name: nn.Parameter(torch.ones(shape)) for name, (shape, _) in NAMES.items()}


def test_every_weight_is_in_the_group_of_its_name_and_only_matrices_decay() -> None:
    found = weights()
    optimizer = make_optimizer(found, ADAPTERS, weight_decay=0.25)
    where = {id(p): group for group in optimizer.param_groups for p in group["params"]}
    assert len(where) == len(found)
    for name, (shape, group) in NAMES.items():
        assert where[id(found[name])]["name"] == group == optimizer_group(name, found[name], ADAPTERS)
        assert where[id(found[name])]["weight_decay"] == (0.25 if len(shape) >= 2 else 0.0)


def test_decay_shrinks_matrices_alone() -> None:
    """Without gradients' direction: a zero gradient leaves the decay's factor, 1 - rate * decay."""
    found = weights()
    optimizer = make_optimizer(found, ADAPTERS, weight_decay=0.25)
    set_learning_rates(optimizer.param_groups, peak_rates(optimizer, ADAPTERS, 0.1))
    for parameter in found.values():
        parameter.grad = torch.zeros_like(parameter)
    optimizer.step()
    for name, (shape, group) in NAMES.items():
        rate = 0.5 if group == "llm_attn" else 0.1
        wanted = 1 - rate * 0.25 if len(shape) >= 2 else 1.0
        torch.testing.assert_close(found[name].detach(), torch.full(shape, wanted))


def test_peaks_are_the_group_s_own_the_temperature_s_own_or_the_run_s() -> None:
    optimizer = make_optimizer(weights(), ADAPTERS, weight_decay=0.0)
    peaks = peak_rates(optimizer, ADAPTERS, 0.1, 0.003)
    assert peaks["llm_attn"] == peaks["llm_attn.no_decay"] == 0.5
    assert peaks["temperature"] == 0.003 and peak_rates(optimizer, ADAPTERS, 0.1)["temperature"] == 0.1
    assert {peaks[name] for name in peaks if "llm_attn" not in name and name != "temperature"} == {0.1}


def test_a_batch_without_pictures_exercises_nothing_of_the_vision_tower() -> None:
    rates = {name: 1.0 for group in (*GROUPS, "other", "vit_other") for name in (group, group + ".no_decay")}
    rates |= {"temperature": 1.0}
    text = {"llm_attn", "llm_mlp", "other"}
    assert exercised(rates, with_images=True) == rates
    assert exercised(rates, with_images=False).keys() == {*text, *(f"{name}.no_decay" for name in text), "temperature"}


def test_an_idle_group_keeps_weights_and_moments_whatever_its_gradient() -> None:
    found = weights()
    optimizer = make_optimizer(found, ADAPTERS, weight_decay=0.25)
    names = [group["name"] for group in optimizer.param_groups]
    for idle in ("vit_attn", None, "vit_attn"):
        set_learning_rates(optimizer.param_groups, {name: 0.1 for name in names if name != idle})
        for parameter in found.values():
            parameter.grad = torch.zeros_like(parameter)  # as in a flat buffer
        optimizer.step()
    steps = {name: optimizer.state[found[name]]["step"].item() for name in NAMES}
    assert {steps[name] for name, (_, group) in NAMES.items() if group != "vit_attn"} == {3}
    assert {steps[name] for name, (_, group) in NAMES.items() if group == "vit_attn"} == {1}
    assert [group["name"] for group in optimizer.param_groups] == names


@given(st.integers(0, 2**31), st.integers(1, 6), st.floats(0, 0.5))
def test_is_adamw(seed: int, updates: int, weight_decay: float) -> None:
    """Torch's own AdamW, one for matrices and one for the rest, gives the same weights."""
    torch.manual_seed(seed)
    ours, theirs = weights(), weights()
    optimizer = make_optimizer(ours, {}, weight_decay=weight_decay, betas=(0.8, 0.9), eps=1e-6)
    matrices = [p for p in theirs.values() if p.dim() >= 2]
    others = [p for p in theirs.values() if p.dim() < 2]
    references = [
        torch.optim.AdamW(members, lr=0.01, betas=(0.8, 0.9), eps=1e-6, weight_decay=decay)
        for members, decay in ((matrices, weight_decay), (others, 0.0))
    ]
    set_learning_rates(optimizer.param_groups, {group["name"]: 0.01 for group in optimizer.param_groups})
    for _ in range(updates):
        for name in ours:
            ours[name].grad = torch.randn_like(ours[name])
            theirs[name].grad = ours[name].grad.clone()  # type: ignore[union-attr]
        optimizer.step()
        for reference in references:
            reference.step()
    assert all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_nothing_to_train_and_rates_for_nobody_are_errors() -> None:
    with pytest.raises(ValueError, match="no trainable weights"):
        make_optimizer({}, {}, weight_decay=0.0)
    with pytest.raises(ValueError, match="wanted a rate for one of"):
        set_learning_rates(make_optimizer(weights(), {}, weight_decay=0.0).param_groups, {"llm": 0.1})
