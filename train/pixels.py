"""Pixels to patches: Qwen's resizing rule, visual token counts without decoding, and uint8 patches.

Patches travel as uint8 without the doubled frame that the vision tower expects (an eighth of its float32 input) and are
normalised where the model runs. ``check_policy`` compares this with transformers' Pillow image processor at start-up.
"""

import dataclasses
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import to_rgb

FACTOR_PX = 32  # patch 16 px × merge 2: one visual token
MIN_PIXELS = 4 * FACTOR_PX**2  # the limits published with Qwen3-VL-Embedding; the reader's minimum is pinned to it too
MAX_PIXELS = 1800 * FACTOR_PX**2
MAX_ASPECT = 200
_CHECK_TOLERANCE = 1e-5
_LATER = ("fit", "enlarge")  # fields that joined the policy when hashes of it were stored
_PROCESSOR_KEYS = ("patch_size", "merge_size", "temporal_patch_size", "resample", "rescale_factor")


@dataclass(frozen=True)
class PixelPolicy:
    """How an image becomes patches. ``mean`` and ``std`` are per RGB channel; ``resample`` is Pillow's number.

    ``fit``: `resize` by Qwen's rule, or `pad`: sides are multiplied by ``enlarge`` and made up to whole visual tokens
    on the right and at the bottom by repeating the last pixels. Then nothing is shrunk, so that letters stay as they
    are: more than ``max_pixels`` is an error, and ``min_pixels`` is one token.
    """

    min_pixels: int
    max_pixels: int
    patch_size: int = 16
    merge_size: int = 2
    temporal_patch_size: int = 2
    resample: int = 3
    rescale_factor: float = 1 / 255
    mean: tuple[float, ...] = (0.5, 0.5, 0.5)
    std: tuple[float, ...] = (0.5, 0.5, 0.5)
    backend: str = "pillow"
    fit: str = "resize"
    enlarge: float = 1.0

    def __post_init__(self) -> None:
        if not 0 < self.min_pixels <= self.max_pixels or self.max_pixels < self.factor_px**2:
            raise InputError(
                f"pixel limits: wanted 0 < min_pixels <= max_pixels and at least {self.factor_px**2} max_pixels,"
                f" found {self.min_pixels} and {self.max_pixels}"
            )
        if self.fit not in ("resize", "pad") or not 1 <= self.enlarge < math.inf:
            raise InputError(
                f"pixels: fit and enlarge: wanted 'resize' or 'pad', and at least 1, found {self.fit!r} and"
                f" {self.enlarge}"
            )
        if self.fit == "resize" and self.enlarge != 1:
            raise InputError(f"pixels: enlarge: wanted 1 with fit 'resize', found {self.enlarge}")
        if self.fit == "pad" and self.min_pixels != self.factor_px**2:
            raise InputError(f"pixels: min_pixels: wanted {self.factor_px**2} with fit 'pad', found {self.min_pixels}")

    @property
    def factor_px(self) -> int:
        """Side of one visual token in (resized) pixels."""
        return self.patch_size * self.merge_size

    def hashed(self) -> dict[str, Any]:
        """Its values for a hash: a field that joined later counts only where it isn't at its default."""
        defaults = {entry.name: entry.default for entry in dataclasses.fields(self)}
        values = dataclasses.asdict(self)
        return {name: value for name, value in values.items() if name not in _LATER or value != defaults[name]}


def resized_size(
    width_px: int, height_px: int, *, min_pixels: int, max_pixels: int, factor_px: int = FACTOR_PX
) -> tuple[int, int]:
    """(width, height) after Qwen's rule: each side to the nearest multiple of ``factor_px``, then into the limits.

    Halves round to even, as Python's ``round`` does in transformers' ``smart_resize``. Raises InputError for a side
    below one pixel or an aspect ratio above 200.
    """
    short, long = sorted((width_px, height_px))
    if short < 1:
        raise InputError(f"image of {width_px} x {height_px} px: wanted at least one pixel on each side")
    if long / short > MAX_ASPECT:
        raise InputError(
            f"image of {width_px} x {height_px} px: aspect ratio {long / short:.1f} is above {MAX_ASPECT}, which the"
            " image processor refuses: crop the image"
        )
    height = round(height_px / factor_px) * factor_px
    width = round(width_px / factor_px) * factor_px
    if height * width > max_pixels:
        scale = math.sqrt((height_px * width_px) / max_pixels)
        height = max(factor_px, math.floor(height_px / scale / factor_px) * factor_px)
        width = max(factor_px, math.floor(width_px / scale / factor_px) * factor_px)
    elif height * width < min_pixels:
        scale = math.sqrt(min_pixels / (height_px * width_px))
        height = math.ceil(height_px * scale / factor_px) * factor_px
        width = math.ceil(width_px * scale / factor_px) * factor_px
    return width, height


def visual_tokens(width_px: int, height_px: int, min_pixels: int = MIN_PIXELS, max_pixels: int = MAX_PIXELS) -> int:
    """How many visual tokens an image of this size takes: 875 × 1024 px -> 864 × 1024 -> 864; nothing is decoded."""
    width, height = resized_size(width_px, height_px, min_pixels=min_pixels, max_pixels=max_pixels)
    return (width // FACTOR_PX) * (height // FACTOR_PX)


def policy_tokens(width_px: int, height_px: int, policy: PixelPolicy) -> int:
    """``visual_tokens`` under ``policy``."""
    width, height = _policy_size(width_px, height_px, policy)
    return (width // policy.factor_px) * (height // policy.factor_px)


def _policy_size(width_px: int, height_px: int, policy: PixelPolicy) -> tuple[int, int]:
    if policy.fit == "pad":
        return _padded_size(width_px, height_px, policy)
    return resized_size(
        width_px,
        height_px,
        min_pixels=policy.min_pixels,
        max_pixels=policy.max_pixels,
        factor_px=policy.factor_px,
    )


def _padded_size(width_px: int, height_px: int, policy: PixelPolicy) -> tuple[int, int]:
    if min(width_px, height_px) < 1:
        raise InputError(f"image of {width_px} x {height_px} px: wanted at least one pixel on each side")
    factor = policy.factor_px
    width, height = (-(-_enlarged(side, policy) // factor) * factor for side in (width_px, height_px))
    if width * height > policy.max_pixels:
        raise InputError(
            f"image of {width_px} x {height_px} px: {width} x {height} px with enlarge {policy.enlarge}: wanted at most"
            f" {policy.max_pixels} px (max_pixels), since nothing is shrunk here: crop the image"
        )
    return width, height


def _enlarged(side_px: int, policy: PixelPolicy) -> int:
    return round(side_px * policy.enlarge)


def _fitted(image: Image.Image, policy: PixelPolicy) -> np.ndarray:
    """uint8 [height, width, 3]: sides in whole visual tokens."""
    width, height = _policy_size(*image.size, policy)
    rgb, resample = to_rgb(image), Image.Resampling(policy.resample)
    if policy.fit == "resize":
        return np.asarray(rgb.resize((width, height), resample))
    inner = (_enlarged(rgb.width, policy), _enlarged(rgb.height, policy))
    pixels = np.asarray(rgb if inner == rgb.size else rgb.resize(inner, resample))
    return np.pad(pixels, ((0, height - inner[1]), (0, width - inner[0]), (0, 0)), mode="edge")


def patchify(images: Sequence[Image.Image], policy: PixelPolicy) -> tuple[Tensor, Tensor]:
    """uint8 patches [sum of patches, 3·p·p] in the tower's order, and the grids [images, 3] as (1, rows, columns)."""
    p, m = policy.patch_size, policy.merge_size
    patches, grids = [], []
    for image in images:
        pixels = _fitted(image, policy)
        rows, columns = pixels.shape[0] // p, pixels.shape[1] // p
        blocks = pixels.reshape(rows // m, m, p, columns // m, m, p, 3)
        patches.append(blocks.transpose(0, 3, 1, 4, 6, 2, 5).reshape(rows * columns, 3 * p * p))
        grids.append((1, rows, columns))
    return torch.from_numpy(np.concatenate(patches)), torch.tensor(grids)


def normalised_frames(patches: Tensor, policy: PixelPolicy, dtype: torch.dtype = torch.float32) -> Tensor:
    """uint8 patches [N, 3·p·p] -> [N, 3, frames, p, p], rescaled and normalised; a view that repeats one frame.

    The vision tower's linear patch embedding knows such a view and reads one frame only.
    """
    side = policy.patch_size
    mean = torch.tensor(policy.mean, device=patches.device).view(1, 3, 1)
    std = torch.tensor(policy.std, device=patches.device).view(1, 3, 1)
    values = patches.view(-1, 3, side**2).float().mul_(policy.rescale_factor).sub_(mean).div_(std)  # in one buffer
    return values.to(dtype).view(-1, 3, 1, side, side).expand(-1, 3, policy.temporal_patch_size, side, side)


def normalise(patches: Tensor, policy: PixelPolicy, dtype: torch.dtype = torch.float32) -> Tensor:
    """uint8 patches [N, 3·p·p] -> [N, 3·frames·p·p] as the image processor gives them: one frame repeated."""
    return normalised_frames(patches, policy, dtype).reshape(len(patches), -1)


def load_policy(folder: Path, min_pixels: int | None = None, max_pixels: int | None = None) -> PixelPolicy:
    """The pixel policy of a ``save_pretrained`` folder; limits given here replace the folder's.

    Raises InputError if the folder has no image processor or one that we can't reproduce.
    """
    processor = load_image_processor(folder, min_pixels, max_pixels)
    wanted = {"do_resize": True, "do_rescale": True, "do_normalize": True, "do_convert_rgb": True}
    found = {name: getattr(processor, name) for name in wanted}
    if found != wanted:
        raise InputError(f"{folder / 'preprocessor_config.json'}: wanted {wanted}, found {found}")
    values: dict[str, Any] = {name: getattr(processor, name) for name in _PROCESSOR_KEYS}
    values |= {"mean": tuple(processor.image_mean), "std": tuple(processor.image_std)}
    values["resample"] = int(values["resample"])
    size = processor.size
    return PixelPolicy(min_pixels=int(size["shortest_edge"]), max_pixels=int(size["longest_edge"]), **values)


def load_image_processor(folder: Path, min_pixels: int | None = None, max_pixels: int | None = None) -> Any:
    """transformers' Pillow image processor of a folder (with or without torchvision installed), limits set by size."""
    from transformers import Qwen2VLImageProcessorPil

    if not (folder / "preprocessor_config.json").is_file() and not (folder / "processor_config.json").is_file():
        raise InputError(f"{folder}: no preprocessor_config.json: not a vision-language model folder")
    try:
        processor = Qwen2VLImageProcessorPil.from_pretrained(folder)
        size = dict(processor.size)
    except (OSError, ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError(f"{folder / 'preprocessor_config.json'}: not a readable image processor ({error})") from error
    low = size.get("shortest_edge") if min_pixels is None else min_pixels
    high = size.get("longest_edge") if max_pixels is None else max_pixels
    if low is None or high is None:
        raise InputError(f"{folder}: the image processor's size has no shortest_edge and longest_edge, found {size}")
    return Qwen2VLImageProcessorPil.from_pretrained(folder, size={"shortest_edge": low, "longest_edge": high})


def image_processor_of(policy: PixelPolicy) -> Any:
    """transformers' Pillow image processor that follows ``policy``."""
    from transformers import Qwen2VLImageProcessorPil

    values = {name: getattr(policy, name) for name in _PROCESSOR_KEYS}
    size = {"shortest_edge": policy.min_pixels, "longest_edge": policy.max_pixels}
    return Qwen2VLImageProcessorPil(size=size, image_mean=list(policy.mean), image_std=list(policy.std), **values)


def check_policy(processor: Any, policy: PixelPolicy) -> None:
    """Measure synthetic images with ``processor``: raise InputError unless grids and values are ours.

    One image lies between the limits, one below, one above: some versions of the processor ignore a limit in silence.
    """
    side = math.isqrt(policy.max_pixels) + 3 * policy.factor_px
    small = max(1, math.isqrt(policy.min_pixels) // 2)
    middle = math.isqrt(min(4 * policy.min_pixels, policy.max_pixels))
    for width, height in ((small, small + 5), (middle + 7, middle), (side, side)):
        image = synthetic_image(width, height)
        ours, grid = patchify([image], policy)
        theirs = processor([image], return_tensors="pt")
        same = torch.equal(theirs["image_grid_thw"], grid)
        if not same or (theirs["pixel_values"] - normalise(ours, policy)).abs().max() > _CHECK_TOLERANCE:
            raise InputError(
                f"image processor {type(processor).__name__}: an image of {width} x {height} px under"
                f" {dataclasses.asdict(policy)} gives grid {theirs['image_grid_thw'].tolist()},"
                f" wanted {grid.tolist()}{' with other values' if same else ''}: its limits aren't the contract's"
            )


def synthetic_image(width_px: int, height_px: int, seed: int = 0) -> Image.Image:
    """A deterministic RGB picture of gradients and bars, for checks and probes; no random numbers."""
    x = np.arange(width_px)[None, :]
    y = np.arange(height_px)[:, None]
    red = (x * (3 + seed) + y) % 256
    green = ((x // (5 + seed)) % 2 * 200 + y * 2) % 256
    blue = ((y // (7 + 2 * seed)) % 2 * 160 + x * y // 64) % 256
    return Image.fromarray(np.stack([red, green, blue], axis=-1).astype(np.uint8))
