"""LoRA groups on the real module tree: exact counts at the true 2B shapes, and checks that they learn."""

import pytest
import torch
from torch import Tensor, nn
from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration, Qwen3VLModel

from tilewright.train.adapters import (
    GROUPS,
    VISION_GROUPS,
    AdapterError,
    LoraGroup,
    MovementCheck,
    add_adapters,
    assert_moved,
    count_by_group,
    group_of,
    is_of_vision,
    resolve,
    trainable,
)
from tilewright.train.linear_patch import linearise_patch_embedding

torch.set_num_threads(1)
QWEN_GROUPS = [group for group in GROUPS if group != "heads"]  # those are nano's
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
    found = resolve(model, {group: LoraGroup(2, 2) for group in QWEN_GROUPS})
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


def seen(model: nn.Module) -> Tensor:
    """Hidden states of one picture of four by four patches, which is four tokens."""
    config = model.config
    merged = config.vision_config.spatial_merge_size**2
    tokens = torch.tensor([[1, config.vision_start_token_id, *[config.image_token_id] * (16 // merged), 2]])
    torch.manual_seed(1)
    side = config.vision_config.patch_size**2 * config.vision_config.temporal_patch_size * 3
    outputs = model(
        input_ids=tokens,
        attention_mask=torch.ones_like(tokens),
        position_ids=torch.arange(tokens.shape[1]).expand(3, 1, -1),
        pixel_values=torch.randn(16, side),
        image_grid_thw=torch.tensor([[1, 4, 4]]),
    )
    return outputs.last_hidden_state  # type: ignore[no-any-return]


def model_seeing() -> nn.Module:
    torch.manual_seed(0)
    ids = {"image_token_id": 97, "vision_start_token_id": 98, "vision_end_token_id": 99}
    model = Qwen3VLModel(Qwen3VLConfig(text_config=TEXT_TINY, vision_config=VISION_TINY, **ids))
    linearise_patch_embedding(model)
    return model


@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("group", QWEN_GROUPS)
def test_every_group_moves_in_one_update_with_a_picture(group: str, checkpointing: bool) -> None:
    model = model_seeing()
    base = {name: value.clone() for name, value in model.state_dict().items()}
    model = add_adapters(model, {group: LoraGroup(2, 2)})
    if checkpointing:
        model.gradient_checkpointing_enable({"use_reentrant": False})
    model.train()
    check = MovementCheck([group], trainable(model))
    optimizer = torch.optim.AdamW(trainable(model).values(), lr=0.1)
    seen(model).square().sum().backward()
    optimizer.step()
    check.after_update(trainable(model), {group: 0.1})
    assert not check.waiting
    for name, parameter in trainable(model).items():
        assert group_of(name) == group
        if ".lora_B." in name:
            assert parameter.count_nonzero() > 0, name
    frozen = {name.replace(".base_layer", ""): value for name, value in model.get_base_model().state_dict().items()}
    assert all(torch.equal(frozen[name], value) for name, value in base.items())


@pytest.mark.parametrize("group", QWEN_GROUPS)
def test_text_alone_reaches_the_language_model_s_groups_alone(group: str) -> None:
    model = add_adapters(model_seeing(), {group: LoraGroup(2, 2)})
    reached = hidden(model).requires_grad
    assert reached == (group not in VISION_GROUPS) == all(not is_of_vision(name) for name in trainable(model))


def test_check_waits_for_an_update_that_exercises_a_group() -> None:
    weights = {
        "a.language_model.layers.0.self_attn.q_proj.lora_B.default.weight": torch.zeros(2, 2),
        "a.language_model.layers.1.self_attn.q_proj.lora_B.default.weight": torch.zeros(2, 2),
        "a.visual.blocks.0.attn.qkv.lora_B.default.weight": torch.zeros(2, 2),
    }
    first, _, last = weights
    check = MovementCheck(["llm_attn", "vit_attn"], weights)
    check.after_update(weights, {"llm_attn": 0.0})  # a rate of zero moves nothing
    assert check.waiting == ("llm_attn", "vit_attn")
    weights[first][1, 0] = 1e-9
    check.after_update(weights, {"llm_attn": 1e-5})  # text only
    assert check.waiting == ("vit_attn",)
    with pytest.raises(AdapterError, match=r"\['vit_attn'\] did not move"):
        check.after_update(weights, {"llm_attn": 1e-5, "vit_attn": 1e-5})
    weights[last][0, 0] = -1e-9
    check.after_update(weights, {"llm_attn": 1e-5, "vit_attn": 1e-5})
    assert check.waiting == ()


def test_a_frozen_group_is_refused_before_any_update() -> None:
    model = add_adapters(model_tiny(), {"llm_attn": LoraGroup(2, 2), "vit_mlp": LoraGroup(2, 2)})
    for name, parameter in model.named_parameters():
        if group_of(name) == "vit_mlp":
            parameter.requires_grad = False
    with pytest.raises(AdapterError, match=r"\['vit_mlp'\]: wanted trainable lora_B weights, found none"):
        MovementCheck(["llm_attn", "vit_mlp"], trainable(model))
    assert count_by_group(model).keys() == {"llm_attn"}


def test_dora_and_rslora_go_through_peft() -> None:
    plain = hidden(model_tiny())
    group = LoraGroup(4, 8)
    dora = add_adapters(model_tiny(), {"llm_attn": group}, use_dora=True)
    torch.testing.assert_close(hidden(dora), plain)
    magnitudes = [parameter for name, parameter in trainable(dora).items() if "magnitude" in name]
    lora = add_adapters(model_tiny(), {"llm_attn": group}, use_rslora=True)
    assert len(magnitudes) == 8 and all(parameter.dim() == 1 for parameter in magnitudes)
    assert count_by_group(dora)["llm_attn"] == count_by_group(lora)["llm_attn"] + sum(p.numel() for p in magnitudes)
    assert count_by_group(dora).keys() == {"llm_attn"}
    layer = lora.get_base_model().language_model.layers[0].self_attn.q_proj
    assert layer.scaling["default"] == pytest.approx(8 / 4**0.5)


def test_dropout_is_the_group_s_own() -> None:
    model = add_adapters(model_tiny(), {"llm_attn": LoraGroup(2, 2, dropout=0.5), "llm_mlp": LoraGroup(2, 2)})
    layer = model.get_base_model().language_model.layers[0]
    assert layer.self_attn.q_proj.lora_dropout["default"].p == 0.5
    assert isinstance(layer.mlp.up_proj.lora_dropout["default"], nn.Identity)
    for name, parameter in trainable(model).items():
        if ".lora_B." in name:
            nn.init.normal_(parameter)
    assert torch.equal(hidden(model.eval()), hidden(model))
    assert not torch.equal(hidden(model.train()), hidden(model))


@pytest.mark.parametrize(
    ("name", "value"), [("rank", 0), ("alpha", 0.0), ("dropout", 1.0), ("dropout", -0.1), ("learning_rate", 0.0)]
)
def test_a_group_out_of_bounds_is_an_error(name: str, value: float) -> None:
    with pytest.raises(ValueError, match="wanted"):
        LoraGroup(**({"rank": 2, "alpha": 2} | {name: value}))  # type: ignore[arg-type]


def test_unknown_and_empty_groups_are_errors() -> None:
    with pytest.raises(AdapterError, match="wanted one or more of"):
        add_adapters(model_tiny(), {"llm": LoraGroup(2, 2)})
    with pytest.raises(AdapterError, match="wanted one or more of"):
        add_adapters(model_tiny(), {})
    with pytest.raises(AdapterError, match=r"\['vit_attn'\] match no linear layer of Linear"):
        add_adapters(nn.Linear(3, 3), {"vit_attn": LoraGroup(2, 2)})
    with pytest.raises(ValueError, match="rank >= 1"):
        LoraGroup(0, 1)


@pytest.mark.parametrize("group", ["llm_attn", "llm_mlp"])
def test_a_model_that_has_adapters_is_refused(group: str) -> None:
    """The same group again, or another one."""
    model = add_adapters(model_tiny(), {"llm_attn": LoraGroup(2, 4)})
    with pytest.raises(AdapterError, match="found one with its own: export it as merged first"):
        add_adapters(model, {group: LoraGroup(2, 4)})


def test_full_training_is_counted_by_group_too() -> None:
    model = model_tiny()
    counts = count_by_group(model)
    assert counts.keys() == {*QWEN_GROUPS, "other"}
    assert sum(counts.values()) == sum(parameter.numel() for parameter in model.parameters())
