"""Qwen's vision attention with images of one size together: transformers calls its kernel for one image after another.

Same weights, same names, same numbers; queries and keys are rotated at once.
"""

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.weak import WeakIdKeyDictionary

KINDS = ("Qwen3VLVisionAttention", "Qwen3_5VisionAttention")
KERNEL = "sdpa"  # torch's own; flash attention takes images of any sizes at once by itself
_LENGTHS: Any = WeakIdKeyDictionary()


class BatchedVisionAttention(nn.Module):
    """One of KINDS that hands its kernel all images of a length at once. Parameters and config are that one's own."""

    def __init__(self, attention: Any) -> None:
        super().__init__()
        self.qkv, self.proj = attention.qkv, attention.proj
        self.num_heads, self.scaling = attention.num_heads, attention.scaling
        self.attention_dropout, self.config = attention.attention_dropout, attention.config

    def forward(
        self, hidden_states: Tensor, cu_seqlens: Tensor, position_embeddings: tuple[Tensor, Tensor], **_: Any
    ) -> Tensor:
        """[N, width] of images one after another -> the same: each attends to itself.

        ``cu_seqlens`` [images + 1]: where each starts and the last ends; ``position_embeddings``: cosines and sines
        [N, d]. Raises RuntimeError if the attention implementation was changed after loading.
        """
        if self.config._attn_implementation != KERNEL:
            found = self.config._attn_implementation
            raise RuntimeError(f"vision attention: wanted {KERNEL!r}, as the model was loaded, found {found!r}")
        parts = self.qkv(hidden_states).unflatten(-1, (3, self.num_heads, -1))
        pair, value = parts.split((2, 1), 1)  # [N, 2, heads, d], [N, 1, heads, d]
        query, key = rotated(pair, *position_embeddings).unbind(1)
        dropout = self.attention_dropout if self.training else 0.0
        mixed = attend(query, key, value[:, 0], lengths_of(cu_seqlens), self.scaling, dropout)
        return self.proj(mixed.flatten(1))  # type: ignore[no-any-return]


def batch_vision_attention(model: nn.Module) -> int:
    """Put a ``BatchedVisionAttention`` in the place of each vision attention in ``model``; return how many there were.

    Those that run another kernel than torch's are left alone.
    """
    found = [
        (parent, name, child)
        for parent in model.modules()
        for name, child in parent.named_children()
        if type(child).__name__ in KINDS and child.config._attn_implementation == KERNEL  # type: ignore[union-attr]
    ]
    for parent, name, child in found:
        setattr(parent, name, BatchedVisionAttention(child))
    return len(found)


def rotated(values: Tensor, cosines: Tensor, sines: Tensor) -> Tensor:
    """values [..., N, 2, heads, d], cosines and sines [N, d] -> rotary positions applied, computed in float32.

    The halves of ``values`` change places, and the sine takes the sign: half of the passes over memory.
    """
    half = values.shape[-1] // 2
    signed = torch.cat((-sines[:, :half], sines[:, half:]), -1).float()[:, None, None]
    exact = values.float()
    turned = torch.addcmul(exact * cosines.float()[:, None, None], exact.roll(half, -1), signed)
    return turned.to(values.dtype)


def attend(
    query: Tensor, key: Tensor, value: Tensor, lengths: Sequence[int], scaling: float, dropout: float = 0.0
) -> Tensor:
    """[N, heads, d] each, N being the sum of ``lengths`` -> [N, heads, d]: softmax attention within each length."""

    def together(images: list[Tensor]) -> Tensor:
        """Query, key and value [images, L, heads, d] -> the same."""
        parts = [part.transpose(1, 2) for part in images]
        mixed = F.scaled_dot_product_attention(parts[0], parts[1], parts[2], dropout_p=dropout, scale=scaling)
        return mixed.transpose(1, 2)

    if len(set(lengths)) == 1:
        return together([part.view(len(lengths), -1, *part.shape[1:]) for part in (query, key, value)]).flatten(0, 1)
    split = [torch.split(part, list(lengths)) for part in (query, key, value)]
    found: dict[int, Tensor] = {}
    for length in dict.fromkeys(lengths):
        members = [number for number, other in enumerate(lengths) if other == length]
        mixed = together([torch.stack([part[number] for number in members]) for part in split])
        found |= zip(members, mixed.unbind(0), strict=True)
    return torch.cat([found[number] for number in range(len(lengths))])


def lengths_of(cu_seqlens: Tensor) -> tuple[int, ...]:
    """Differences of ``cu_seqlens``, read from its device once: all layers of a forward pass get one tensor."""
    if cu_seqlens not in _LENGTHS:
        _LENGTHS[cu_seqlens] = tuple(cu_seqlens.diff().tolist())
    lengths: tuple[int, ...] = _LENGTHS[cu_seqlens]
    return lengths
