"""Nano: a small Qwen3-VL vision tower that reads the characters of a page and pools them into one vector.

A lexical reader for tests, demonstrations and small corpora on a CPU: it matches letters, not meaning, and is no
substitute for Qwen3-VL-Embedding.
"""

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from transformers import PreTrainedConfig, PreTrainedModel
from transformers.models.qwen3_vl.configuration_qwen3_vl import Qwen3VLVisionConfig
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLVisionModel
from transformers.vision_utils import get_vision_interpolation_indices_and_weights, get_vision_position_ids

from tilewright.train.linear_patch import linearise_patch_embedding
from tilewright.train.nano_binding import Binding
from tilewright.train.nano_characters import CLASSES
from tilewright.train.nano_neighbours import page_places
from tilewright.train.nano_windows import Windows, cut_windows
from tilewright.train.vision_attention import rotated

CELLS = 4
"""Cells in a patch, side by side: 4 px wide and a patch high, each with room for one character."""
PATCH_PX = 16
CACHED_PATCHES = 4200
"""Patches that a CPU sees at once: 8 of a full tile's windows."""
MEAN, STD = 1.0, 0.5
"""Of pixels from 0 to 1, in all channels: white paper is zero, so a patch's first sight is of its ink."""
VISION = {
    "depth": 5,
    "hidden_size": 192,
    "intermediate_size": 576,
    "num_heads": 3,
    "patch_size": PATCH_PX,
    "spatial_merge_size": 2,
    "temporal_patch_size": 2,
    "out_hidden_size": 192,
    "num_position_embeddings": 1024,
    "deepstack_visual_indexes": [],
    "rope_parameters": {"rope_type": "axial", "rope_theta": 100.0},
}


class NanoConfig(PreTrainedConfig):  # type: ignore[misc]  # transformers is untyped here
    """``dimension``: D of the vectors; windows of at most ``window_rows`` x ``window_columns`` patches see each other.

    ``window_overlap``: patches that neighbouring windows share at least, so that no character is seen cut.
    """

    model_type = "tilewright_nano"
    sub_configs = {"vision_config": Qwen3VLVisionConfig}  # noqa: RUF012 - as transformers declares it

    def __init__(
        self,
        vision_config: dict[str, Any] | Qwen3VLVisionConfig | None = None,
        dimension: int = 2048,
        window_rows: int = 18,
        window_columns: int = 30,
        window_overlap: int = 2,
        **rest: Any,
    ) -> None:
        if not isinstance(vision_config, Qwen3VLVisionConfig):
            vision_config = Qwen3VLVisionConfig(**(VISION if vision_config is None else vision_config))
        self.vision_config: Any = vision_config
        self.dimension = dimension
        self.window_rows, self.window_columns = window_rows, window_columns
        self.window_overlap = window_overlap
        super().__init__(**rest)


@dataclass(frozen=True)
class Reading:
    """What cells are read as: logits of the ``characters``, of those ``before`` and ``after`` in its word
    [..., CELLS, CLASSES], and of being the first of its word, ``starts`` [..., CELLS]; by patch [...]."""

    characters: Tensor
    before: Tensor
    after: Tensor
    starts: Tensor


class NanoModel(PreTrainedModel):  # type: ignore[misc]
    """Vision tower, reading heads, binding. ``visual`` is Qwen3-VL's own module without its merger."""

    config_class = NanoConfig
    config: NanoConfig
    base_model_prefix = ""
    supports_gradient_checkpointing = True

    def __init__(self, config: NanoConfig) -> None:
        super().__init__(config)
        self.visual = Qwen3VLVisionModel._from_config(config.vision_config)
        self.visual.merger = nn.Identity()  # tokens for a language model: there is none
        linearise_patch_embedding(self)
        width = config.vision_config.hidden_size
        self.character_head = nn.Linear(width, CELLS * CLASSES)
        self.context_head = nn.Linear(width, CELLS * 2 * CLASSES)
        self.start_head = nn.Linear(width, CELLS)
        self.binding = Binding(config.dimension)
        self.post_init()

    def _init_weights(self, module: nn.Module) -> None:
        if isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.Embedding):
            nn.init.normal_(module.weight, std=0.02)

    def states(self, windows: Tensor) -> Tensor:
        """[W, rows, columns, 3, frames, p, p] pixels, normalised -> [W, rows, columns, width], before the heads."""
        count, rows, columns = windows.shape[:3]
        visual: Any = self.visual
        places, weights, ids = _positions(rows, columns, visual.num_grid_per_side)
        positions = (visual.pos_embed(places.to(windows.device)) * weights.to(windows.device)[:, :, None]).sum(1)
        patches = visual.patch_embed.proj(windows.flatten(0, 2)).view(count, rows * columns, -1)
        hidden = patches + positions.to(patches.dtype)
        cosine, sine = visual.rotary_pos_emb(hidden, ids.to(windows.device))
        for block in visual.blocks:
            if block.gradient_checkpointing and self.training and torch.is_grad_enabled():
                hidden = block._gradient_checkpointing_func(_through, block, hidden, cosine, sine)
            else:
                hidden = _through(block, hidden, cosine, sine)
        return hidden.view(count, rows, columns, -1)  # type: ignore[no-any-return]

    def read(self, states: Tensor) -> Reading:
        """The heads' logits for states [..., width]."""
        shape = states.shape[:-1]
        context = self.context_head(states).float().view(*shape, CELLS, 2, CLASSES)
        return Reading(
            characters=self.character_head(states).float().view(*shape, CELLS, CLASSES),
            before=context[..., 0, :],
            after=context[..., 1, :],
            starts=self.start_head(states).float(),
        )

    def page_states(self, pages: list[Tensor]) -> list[Tensor]:
        """[rows, columns, 3, frames, p, p] of each page -> [rows, columns, width]; windows of a size go together.

        Pages that are views of one repeated frame stay so: see ``LinearPatchProjection``.
        """
        frames = pages[0].shape[3]
        if all(page.stride(3) == 0 for page in pages):
            pages = [page[:, :, :, :1] for page in pages]
        plans = [self.windows(*page.shape[:2]) for page in pages]
        groups: dict[tuple[int, int], list[int]] = {}
        for number, plan in enumerate(plans):
            groups.setdefault((plan.down.size, plan.across.size), []).append(number)
        found: dict[int, Tensor] = {}
        for members in groups.values():
            windows = torch.cat([plans[number].cut(pages[number]) for number in members])
            states = self._states_in_cache(windows.expand(-1, -1, -1, -1, frames, -1, -1))
            parts = torch.split(states, [plans[number].count for number in members])
            found |= {number: plans[number].join(part) for number, part in zip(members, parts, strict=True)}
        return [found[number] for number in range(len(pages))]

    def _states_in_cache(self, windows: Tensor) -> Tensor:
        """``states``; on a CPU of few windows at once, whose values then stay near it."""
        if windows.device.type != "cpu":
            return self.states(windows)
        at_once = max(1, CACHED_PATCHES // (windows.shape[1] * windows.shape[2]))
        return torch.cat([self.states(part) for part in torch.split(windows, at_once)])

    def windows(self, rows: int, columns: int) -> Windows:
        """How a page of so many patches is cut."""
        largest = (self.config.window_rows, self.config.window_columns)
        return cut_windows(rows, columns, largest=largest, overlap=self.config.window_overlap)

    def forward(self, pages: list[Tensor]) -> Tensor:
        """See ``page_vectors``."""
        return self.page_vectors(pages)

    def page_vectors(self, pages: list[Tensor]) -> Tensor:
        """[pages, D] sums of what is read on each page (as ``page_states`` takes them), not normalised."""
        states = [page.flatten(0, 1) for page in self.page_states(pages)]
        reading = self.read(torch.cat(states))
        owners = torch.repeat_interleave(torch.tensor([len(part) * CELLS for part in states]))
        places = page_places([(page.shape[0], page.shape[1] * CELLS) for page in pages])
        device = reading.starts.device
        with torch.autocast(device.type, enabled=False):
            return self.binding.of_cells(
                reading.characters.flatten(0, 1),
                reading.before.flatten(0, 1),
                reading.after.flatten(0, 1),
                owners.to(device),
                len(pages),
                places=places.to(device),
            )


def _through(block: Any, hidden: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    hidden = hidden + _attend(block.attn, block.norm1(hidden), cosine, sine)
    return hidden + block.mlp(block.norm2(hidden))  # type: ignore[no-any-return]


def _attend(attention: Any, hidden: Tensor, cosine: Tensor, sine: Tensor) -> Tensor:
    """Qwen3-VL's vision attention for windows [W, N, width] of one size: each sees itself."""
    count, length, width = hidden.shape
    pair, value = torch.split(attention.qkv(hidden).view(count, length, 3, attention.num_heads, -1), [2, 1], 2)
    query, key = rotated(pair, cosine, sine).transpose(1, 3).unbind(2)  # [W, heads, N, d]
    value = value[:, :, 0].transpose(1, 2)
    if torch.is_grad_enabled() and hidden.device.type == "cpu" and query.dtype == torch.bfloat16:
        mixed = (query * query.shape[-1] ** -0.5 @ key.transpose(-1, -2)).softmax(-1) @ value
    else:  # faster but for its backward pass in bfloat16, which takes thrice as long
        mixed = F.scaled_dot_product_attention(query, key, value)
    return attention.proj(mixed.transpose(1, 2).reshape(count, length, width))  # type: ignore[no-any-return]


@lru_cache(maxsize=256)
def _positions(rows: int, columns: int, side: int) -> tuple[Tensor, Tensor, Tensor]:
    """Where a window's patches lie, in raster order: places and weights of the learned positions, and ids of rotary."""
    grid = torch.tensor([[1, rows, columns]])
    places, weights = get_vision_interpolation_indices_and_weights(
        grid, num_grid_per_side=side, align_corners=True, spatial_merge_size=1
    )
    return places, weights, get_vision_position_ids(grid, 1)
