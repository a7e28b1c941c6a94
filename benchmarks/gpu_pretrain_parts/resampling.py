"""Pillow's Lanczos and bicubic resizing as matrix products, for pictures on a device."""

import math
from functools import lru_cache

import torch
from torch import Tensor

LANCZOS, BICUBIC = 3, 2
"""Filters, by how far they reach."""


def shown_at(pictures: Tensor, compression: float) -> Tensor:
    """float32 [W, 3, height, width] whole numbers from 0 to 255 -> uint8 [W, height, width, 3].

    As ``nano_data.shown_at`` compresses (Lanczos) and enlarges (bicubic), but always back to the very same size.
    """
    height, width = pictures.shape[2:]
    if compression > 1:
        small = [max(1, round(side / math.sqrt(compression))) for side in (height, width)]
        pictures = resized(pictures, small[0], small[1], LANCZOS)
        pictures = resized(pictures, height, width, BICUBIC)
    return pictures.to(torch.uint8).permute(0, 2, 3, 1).contiguous()


def resized(pictures: Tensor, height: int, width: int, reach: int) -> Tensor:
    """[W, 3, h, w] -> [W, 3, height, width], rounded after each axis and held to 0..255 as Pillow does."""
    across = resize_matrix(pictures.shape[3], width, reach).to(pictures.device)
    pictures = (pictures @ across.T).round().clamp(0, 255)
    down = resize_matrix(pictures.shape[2], height, reach).to(pictures.device)
    return (down @ pictures).round().clamp(0, 255)


@lru_cache(maxsize=64)
def resize_matrix(before: int, after: int, reach: int) -> Tensor:
    """float32 [after, before]: what each pixel of a resized line is a mean of."""
    scale = before / after
    stretch = max(scale, 1.0)
    centres = (torch.arange(after, dtype=torch.float64)[:, None] + 0.5) * scale
    distance = (torch.arange(before, dtype=torch.float64) + 0.5 - centres) / stretch
    weights = (_lanczos if reach == LANCZOS else _bicubic)(distance.abs()) * (distance.abs() < reach)
    return (weights / weights.sum(1, keepdim=True)).float()


def _lanczos(distance: Tensor) -> Tensor:
    return torch.sinc(distance) * torch.sinc(distance / LANCZOS)


def _bicubic(distance: Tensor, a: float = -0.5) -> Tensor:
    near = ((a + 2) * distance - (a + 3)) * distance**2 + 1
    far = (((distance - 5) * distance + 8) * distance - 4) * a
    return torch.where(distance < 1, near, far)
