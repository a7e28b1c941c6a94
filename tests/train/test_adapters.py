"""LoRA groups on the real module tree: exact counts at the true 2B shapes, and checks that they learn."""

import pytest
import torch
from torch import Tensor, nn
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLModel

from tilewright.train.adapters import (
    GROUPS,
    AdapterError,
    LoraGroup,
    add_adapters,
    assert_moved,
    count_by_group,
    resolve,
    trainable,
)

torch.set_num_threads(1)
TEXT_2B = {"hidden_size": 2048, "num_hidden_layers": 28, "num_attention_heads": 16, "num_key_value_heads": 8}
TEXT_2B |= {"head_dim": 128, "intermediate_size": 6144, "vocab_size": 151_936}
VISION_2B = {"hidden_size": 1024, "depth": 24, "intermediate_size": 4096, "out_hidden_size": 2048, "num_heads": 16}
TEXT_TINY = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2}
TEXT_TINY |= {"head_dim": 8, "intermediate_size": 48, "vocab_size": 100}
VISION_TINY = {"hidden_size": 24, "depth": 3, "intermediate_size": 40, "out_hidden_size": 32, "num_heads": 2}
VISION_TINY |= {"deepstack_visual_indexes": [1]}


def model_2b() -> nn.Module:
    config = Qwen3VLConfig(text_config=TEXT_2B, vision_config=VISION_2B | {"deepstack_visual_indexes": [5, 11, 17]})
    with torch.device("meta"):
        return Qwen3VLModel(config)


def model_tiny(kind: type[nn.Module] = Qwen3VLModel) -> nn.Module:
    torch.manual_seed(0)
    return kind(Qwen3VLConfig(text_config=TEXT_TINY, vision_config=VISION_TINY)).eval()


def hidden(model: nn.Module) -> Tensor:
    tokens = torch.arange(12).view(2, 6)
    return model(input_ids=tokens, attention_mask=torch.ones_like(tokens)).last_hidden_state  # type: ignore[no-any-return]


@pytest.mark.parametrize(("vit_rank", "vit_parameters"), [(32, 12_582_912), (64, 25_165_824)])
def test_paper_preset_at_the_true_2b_shapes(vit_rank: int, vit_parameters: int) -> None:
    model = model_2b()
    vit = LoraGroup(vit_rank, 2.0 * vit_rank)
    model = add_adapters(model, {"llm_attn": LoraGroup(32, 64), "vit_attn": vit, "vit_mlp": vit})
    counts = count_by_group(model)
    assert counts["llm_attn"] == 12_845_056
    assert counts["vit_attn"] + counts["vit_mlp"] == vit_parameters
    assert sum(counts.values()) == sum(parameter.numel() for parameter in trainable(model).values())
    assert sum(counts.values()) == {32: 25_427_968, 64: 38_010_880}[vit_rank]


def test_groups_cover_every_linear_layer_once() -> None:
    model = model_tiny()
    found = resolve(model, {group: LoraGroup(2, 2) for group in GROUPS})
    names = [name for members in found.values() for name in members]
    assert sorted(names) == sorted(name for name, module in model.named_modules() if isinstance(module, nn.Linear))
    assert {group: len(members) for group, members in found.items()} == {
        "llm_attn": 8,
        "llm_mlp": 6,
        "vit_attn": 6,
        "vit_mlp": 6,
        "merger": 2,
        "deepstack": 2,
    }


def test_each_group_has_its_rank_and_alpha() -> None:
    model = model_tiny(Qwen3VLForConditionalGeneration)
    model = add_adapters(model, {"llm_attn": LoraGroup(4, 12), "merger": LoraGroup(2, 1)})
    layers = dict(model.get_base_model().named_modules())
    attention = layers["model.language_model.layers.1.self_attn.q_proj"]
    merger = layers["model.visual.merger.linear_fc2"]
    assert attention.lora_A["default"].weight.shape[0] == 4 and attention.scaling["default"] == 3
    assert merger.lora_A["default"].weight.shape[0] == 2 and merger.scaling["default"] == 0.5


def test_adding_changes_no_output_and_depends_on_the_seed_alone() -> None:
    plain = hidden(model_tiny())
    starts = []
    for seed, noise in ((5, 0), (5, 1), (6, 0)):
        model = model_tiny()
        torch.manual_seed(noise)
        model = add_adapters(model, {"llm_mlp": LoraGroup(3, 3)}, seed=seed)
        assert torch.equal(hidden(model), plain)
        starts.append(model.get_base_model().state_dict()["language_model.layers.0.mlp.up_proj.lora_A.default.weight"])
    assert torch.equal(starts[0], starts[1]) and not torch.equal(starts[0], starts[2])


def test_adapters_of_a_bf16_model_are_fp32() -> None:
    model = add_adapters(model_tiny().bfloat16(), {"vit_attn": LoraGroup(2, 2)})
    assert {parameter.dtype for parameter in trainable(model).values()} == {torch.float32}
    assert model.get_base_model().language_model.embed_tokens.weight.dtype == torch.bfloat16


def train_once(model: nn.Module) -> None:
    optimizer = torch.optim.AdamW(trainable(model).values(), lr=0.1)
    hidden(model).square().sum().backward()
    optimizer.step()


def test_a_group_without_gradient_is_an_error() -> None:
    model = add_adapters(model_tiny(), {"llm_attn": LoraGroup(2, 2), "vit_mlp": LoraGroup(2, 2)})
    train_once(model)  # text only: nothing reaches the vision tower
    with pytest.raises(AdapterError, match=r"\['vit_mlp'\] did not move"):
        assert_moved(model)


def test_groups_that_moved_pass() -> None:
    model = add_adapters(model_tiny(), {"llm_attn": LoraGroup(2, 2)})
    train_once(model)
    assert_moved(model)


def test_unknown_and_empty_groups_are_errors() -> None:
    with pytest.raises(AdapterError, match="wanted one or more of"):
        add_adapters(model_tiny(), {"llm": LoraGroup(2, 2)})
    with pytest.raises(AdapterError, match="wanted one or more of"):
        add_adapters(model_tiny(), {})
    with pytest.raises(AdapterError, match=r"\['vit_attn'\] match no linear layer of Linear"):
        add_adapters(nn.Linear(3, 3), {"vit_attn": LoraGroup(2, 2)})
    with pytest.raises(ValueError, match="rank >= 1"):
        LoraGroup(0, 1)


def test_full_training_is_counted_by_group_too() -> None:
    model = model_tiny()
    counts = count_by_group(model)
    assert counts.keys() == {*GROUPS, "other"}
    assert sum(counts.values()) == sum(parameter.numel() for parameter in model.parameters())
