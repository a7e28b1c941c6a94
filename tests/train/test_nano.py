"""The nano model: its tower against transformers' own, windows and pages, a page whose reading is known exactly."""

import copy
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional as F
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel

from tilewright.train.nano import CACHED_PATCHES, CELLS, NanoConfig, NanoModel
from tilewright.train.nano_characters import CLASSES
from tilewright.train.pretrained import cast_weights

torch.set_num_threads(1)


def frames_of(rows: int, columns: int, seed: int = 0) -> Tensor:
    """[rows, columns, 3, 2, 16, 16]: noise, one frame repeated as a view."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randn(rows, columns, 3, 1, 16, 16, generator=generator).expand(-1, -1, -1, 2, -1, -1)


def in_merge_order(grid: Tensor) -> Tensor:
    """[rows, columns, ...] -> [patches, ...] as Qwen's image processor orders them: 2 x 2 at a time."""
    rows, columns = grid.shape[:2]
    blocks = grid.reshape(rows // 2, 2, columns // 2, 2, *grid.shape[2:])
    return blocks.transpose(1, 2).flatten(0, 3)


def test_the_tower_is_transformers_own(random_nano: NanoModel) -> None:
    """Its forward pass in merge order, with the convolution and its own positions."""
    theirs: Any = Qwen3VLVisionModel._from_config(random_nano.config.vision_config).eval()
    missing = theirs.load_state_dict(random_nano.visual.state_dict(), strict=False).missing_keys
    assert all(name.startswith("merger.") for name in missing)
    for rows, columns in ((4, 6), (18, 30), (2, 2)):
        page = frames_of(rows, columns, rows)
        with torch.no_grad():
            wanted = theirs(in_merge_order(page).flatten(1), torch.tensor([[1, rows, columns]])).last_hidden_state
            found = in_merge_order(random_nano.states(page[None])[0])
        torch.testing.assert_close(found, wanted, atol=2e-5, rtol=1e-4)


def test_windows_of_one_call_dont_see_each_other(random_nano: NanoModel) -> None:
    one, two = frames_of(4, 6, 1)[None], frames_of(4, 6, 2)[None]
    with torch.no_grad():
        together = random_nano.states(torch.cat([one, two]))
        torch.testing.assert_close(together, torch.cat([random_nano.states(one), random_nano.states(two)]))


def test_a_large_page_is_its_windows(random_nano: NanoModel) -> None:
    page = frames_of(24, 34)
    plan = random_nano.windows(24, 34)
    assert plan.count == 4
    with torch.no_grad():
        wanted = plan.join(random_nano.states(plan.cut(page)))
        found = random_nano.page_states([page, frames_of(4, 4, 5)])
    torch.testing.assert_close(found[0], wanted)
    assert found[1].shape == (4, 4, random_nano.config.vision_config.hidden_size)


def test_many_windows_are_seen_few_at_a_time(random_nano: NanoModel) -> None:
    """Two full tiles have more windows than a CPU sees at once."""
    pages = [frames_of(64, 56, seed) for seed in (1, 2)]
    plan = random_nano.windows(64, 56)
    assert 2 * plan.count * plan.down.size * plan.across.size > CACHED_PATCHES
    with torch.no_grad():
        found = random_nano.page_states(pages)[1]
        torch.testing.assert_close(found, plan.join(random_nano.states(plan.cut(pages[1]))), atol=1e-5, rtol=1e-4)


def test_pages_together_and_alone_give_the_same(random_nano: NanoModel) -> None:
    pages = [frames_of(4, 6, 1), frames_of(20, 8, 2), frames_of(4, 6, 3), frames_of(2, 40, 4)]
    with torch.no_grad():
        together = random_nano(pages)
        alone = torch.cat([random_nano([page]) for page in pages])
    assert F.cosine_similarity(together, alone).min() >= 0.99999
    assert together.dtype == torch.float32 and together.shape == (4, 256)


def test_one_repeated_frame_is_read_once(random_nano: NanoModel) -> None:
    """The patch embedding gets the view, of pages in windows too; two equal frames give the same states."""
    seen: list[Tensor] = []
    hook = random_nano.visual.patch_embed.proj.register_forward_pre_hook(lambda _, inputs: seen.extend(inputs))
    page = frames_of(24, 8)
    try:
        with torch.no_grad():
            (viewed,), (copied,) = random_nano.page_states([page]), random_nano.page_states([page.clone().contiguous()])
    finally:
        hook.remove()
    assert seen[0].shape[2] == seen[1].shape[2] == 2
    assert seen[0].stride(2) == 0 and seen[1].stride(2) != 0
    torch.testing.assert_close(viewed, copied, atol=1e-5, rtol=1e-4)


def test_heads_have_their_places(random_nano: NanoModel) -> None:
    states = torch.randn(2, 3, random_nano.config.vision_config.hidden_size)
    reading = random_nano.read(states)
    for logits in (reading.characters, reading.before, reading.after):
        assert logits.shape == (2, 3, CELLS, CLASSES) and logits.dtype == torch.float32
    assert reading.starts.shape == (2, 3, CELLS)
    context = random_nano.context_head(states).view(2, 3, CELLS, 2, CLASSES)
    assert torch.equal(reading.before, context[..., 0, :]) and torch.equal(reading.after, context[..., 1, :])


def gradients(model: NanoModel, pages: Sequence[Tensor]) -> dict[str, Tensor | None]:
    model.zero_grad(set_to_none=True)
    F.normalize(model(list(pages)), dim=-1).pow(3).sum().backward()
    return {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()}


def test_gradient_checkpointing_changes_no_gradient(random_nano: NanoModel) -> None:
    model = copy.deepcopy(random_nano).train()
    pages = [frames_of(4, 6, 1), frames_of(6, 4, 2)]
    plain = gradients(model, pages)
    model.gradient_checkpointing_enable({"use_reentrant": False})
    calls: list[Any] = []
    block: Any = model.visual.blocks[0]
    checkpoint = block._gradient_checkpointing_func
    block._gradient_checkpointing_func = lambda *arguments: calls.append(1) or checkpoint(*arguments)
    again = gradients(model, pages)
    assert len(calls) == 2  # sizes of windows
    unused = {name for name, gradient in plain.items() if gradient is None}
    assert unused == {"start_head.weight", "start_head.bias"}
    for name in plain.keys() - unused:
        torch.testing.assert_close(again[name], plain[name])


def test_a_blank_page_has_finite_gradients(random_nano: NanoModel) -> None:
    """A bias makes every cell blank: no vector, gradients of zero, none of them NaN."""
    model = copy.deepcopy(random_nano).train()
    with torch.no_grad():
        model.character_head.bias.view(CELLS, CLASSES)[:, -1] = 100
    vectors = model([frames_of(4, 4)])
    assert not vectors.any()
    found = [gradient for gradient in gradients(model, [frames_of(4, 4)]).values() if gradient is not None]
    assert found and all(not gradient.any() for gradient in found)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_save_and_load_round_trip(random_nano: NanoModel, tmp_path: Path, dtype: torch.dtype) -> None:
    """Buffers too: those that are stored, and those that are made again."""
    model = copy.deepcopy(random_nano)
    cast_weights(model, dtype)
    model.save_pretrained(tmp_path)
    loaded = NanoModel.from_pretrained(tmp_path, dtype=dtype)
    for (name, one), (other_name, other) in zip(model.named_buffers(), loaded.named_buffers(), strict=True):
        assert name == other_name and torch.equal(one.float(), other.float()), name
    assert loaded.binding.signs.dtype == torch.int8
    page = frames_of(4, 6).to(dtype)
    with torch.no_grad():
        torch.testing.assert_close(loaded([page]), model([page]))


def test_a_config_keeps_its_values(tmp_path: Path) -> None:
    NanoConfig(dimension=512, window_rows=7, window_columns=9, window_overlap=3).save_pretrained(tmp_path)
    found = NanoConfig.from_pretrained(tmp_path)
    assert (found.dimension, found.window_rows, found.window_columns, found.window_overlap) == (512, 7, 9, 3)
    assert (found.vision_config.depth, found.vision_config.hidden_size) == (5, 192)
