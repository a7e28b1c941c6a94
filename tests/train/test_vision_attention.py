"""Images of one size seen together give what transformers' own loop over images gives, gradients too."""

import copy
import pickle
from typing import Any

import pytest
import torch
from peft import LoraConfig, inject_adapter_in_model
from torch import Tensor, nn
from transformers.models.qwen3_5.configuration_qwen3_5 import Qwen3_5VisionConfig
from transformers.models.qwen3_5.modeling_qwen3_5 import Qwen3_5VisionModel
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

from tilewright.train.vision_attention import BatchedVisionAttention, attend, batch_vision_attention, lengths_of

torch.set_num_threads(1)

SIZES = {"depth": 2, "hidden_size": 32, "intermediate_size": 48, "num_heads": 2, "out_hidden_size": 24}
GRIDS = {
    "one": [[1, 4, 6]],
    "equal": [[1, 4, 6], [1, 4, 6], [1, 4, 6]],
    "equal lengths, other shapes": [[1, 4, 6], [1, 6, 4], [1, 2, 12]],
    "mixed": [[1, 4, 6], [1, 2, 2], [1, 6, 4], [1, 8, 2], [1, 2, 2], [1, 10, 4]],
    "frames": [[3, 4, 6], [1, 2, 2]],
}


def tower(kind: str = "qwen3_vl", attention: str = "sdpa") -> Any:
    torch.manual_seed(0)
    if kind == "qwen3_5":
        config: Any = Qwen3_5VisionConfig(**SIZES, num_position_embeddings=64)
        config._attn_implementation = attention
        return Qwen3_5VisionModel._from_config(config, attn_implementation=attention)
    config = Qwen3VLVisionConfig(**SIZES, num_position_embeddings=64, deepstack_visual_indexes=[0])
    return Qwen3VLVisionModel._from_config(config, attn_implementation=attention)


def pixels(grids: Tensor) -> Tensor:
    generator = torch.Generator().manual_seed(int(grids.sum()))
    return torch.randn(int(grids.prod(1).sum()), 3 * 2 * 16 * 16, generator=generator)


def outputs(model: Any, grids: list[list[int]]) -> Tensor:
    found = model(pixels(torch.tensor(grids)), torch.tensor(grids))
    deep = getattr(found, "deepstack_features", None) or []
    return torch.cat([part.flatten() for part in (found.last_hidden_state, found.pooler_output, *deep)])


def both(kind: str = "qwen3_vl") -> tuple[Any, Any]:
    theirs = tower(kind)
    ours = copy.deepcopy(theirs)
    assert batch_vision_attention(ours) == SIZES["depth"]
    return theirs, ours


@pytest.mark.parametrize("kind", ["qwen3_vl", "qwen3_5"])
@pytest.mark.parametrize("case", GRIDS)
def test_values_and_gradients_are_those_of_the_loop(kind: str, case: str) -> None:
    theirs, ours = both(kind)
    wanted, found = outputs(theirs, GRIDS[case]), outputs(ours, GRIDS[case])
    torch.testing.assert_close(found, wanted, atol=1e-6, rtol=0)
    weights = torch.linspace(-1, 1, len(wanted))
    (wanted * weights).sum().backward()
    (found * weights).sum().backward()
    for (name, other), own in zip(theirs.named_parameters(), ours.parameters(), strict=True):
        if other.grad is not None:
            largest = max(1.0, float(other.grad.abs().max()))
            torch.testing.assert_close(own.grad / largest, other.grad / largest, atol=1e-6, rtol=0, msg=name)


def test_names_and_weights_stay() -> None:
    theirs, ours = both()
    before, after = theirs.state_dict(), ours.state_dict()
    assert list(before) == list(after)
    assert all(torch.equal(before[name], after[name]) for name in before)
    assert batch_vision_attention(ours) == 0, "a second time there's nothing to do"
    assert isinstance(copy.deepcopy(ours).blocks[0].attn, BatchedVisionAttention)
    assert isinstance(pickle.loads(pickle.dumps(ours)).blocks[0].attn, BatchedVisionAttention)


def test_in_bfloat16_autocast_as_the_loop() -> None:
    theirs, ours = both()
    with torch.no_grad(), torch.autocast("cpu", torch.bfloat16):
        wanted, found = outputs(theirs, GRIDS["mixed"]), outputs(ours, GRIDS["mixed"])
    torch.testing.assert_close(found, wanted, atol=0.02, rtol=0.02)


def test_lora_and_gradient_checkpointing() -> None:
    """Adapters find `attn.qkv` and `attn.proj`; a checkpointed pass has the same gradients."""
    config = LoraConfig(r=2, target_modules=["qkv", "proj"], init_lora_weights=False)
    found: dict[str, dict[str, Tensor]] = {}
    for name in ("theirs", "ours", "checkpointed"):
        model = tower()
        if name != "theirs":
            batch_vision_attention(model)
        torch.manual_seed(1)
        inject_adapter_in_model(config, model)
        model.train()
        if name == "checkpointed":
            model.gradient_checkpointing_enable({"use_reentrant": False})
        outputs(model, GRIDS["mixed"]).square().sum().backward()
        found[name] = {key: weight.grad for key, weight in model.named_parameters() if weight.grad is not None}
    assert any("attn.qkv.lora_A" in key for key in found["ours"])
    assert found["theirs"].keys() == found["ours"].keys() == found["checkpointed"].keys()
    for key, wanted in found["theirs"].items():
        for name in ("ours", "checkpointed"):
            torch.testing.assert_close(found[name][key], wanted, rtol=1e-4, atol=1e-4 * float(wanted.abs().max()))


def test_another_kernel_is_left_alone_and_a_later_one_refused() -> None:
    assert batch_vision_attention(tower(attention="eager")) == 0
    _, ours = both()
    ours.config._attn_implementation = "eager"
    with pytest.raises(RuntimeError, match=r"wanted 'sdpa'.*found 'eager'"):
        outputs(ours, GRIDS["one"])


def test_attention_is_the_formula() -> None:
    """Second formula, in float64: softmax of scaled products within each length, in the order given."""
    lengths = [3, 5, 3, 1]
    generator = torch.Generator().manual_seed(3)
    query, key, value = (torch.randn(sum(lengths), 2, 4, generator=generator, dtype=torch.float64) for _ in range(3))
    start, rows = 0, []
    for length in lengths:
        part = slice(start, start + length)
        for row in range(length):
            scores = torch.einsum("hd,nhd->hn", query[part][row], key[part]) * 0.3
            rows.append(torch.einsum("hn,nhd->hd", scores.softmax(-1), value[part]))
        start += length
    torch.testing.assert_close(attend(query, key, value, lengths, 0.3), torch.stack(rows))


def test_lengths_are_read_once_a_tensor() -> None:
    ends = torch.tensor([0, 4, 9], dtype=torch.int32)
    assert lengths_of(ends) == (4, 5)
    assert lengths_of(ends) is lengths_of(ends)
    assert lengths_of(torch.tensor([0, 2, 9])) == (2, 7)


def test_a_module_of_another_kind_stays() -> None:
    model = nn.Sequential(nn.MultiheadAttention(8, 2))
    assert batch_vision_attention(model) == 0
    assert isinstance(model[0], nn.MultiheadAttention)
