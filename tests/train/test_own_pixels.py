"""Pixels that are padded instead of resampled, their file, and hashes that don't know of them."""

import dataclasses
import json
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.train.own_pixels import load_own_policy, save_policy
from tilewright.train.pixels import PixelPolicy, load_policy, patchify, policy_tokens, synthetic_image

torch.set_num_threads(1)
PAD = PixelPolicy(1024, 2**24, fit="pad")
TWICE = dataclasses.replace(PAD, enlarge=2.0)
NONE = {"min_pixels": None, "max_pixels": None, "dimension": None}


def raster(image: Image.Image, policy: PixelPolicy) -> np.ndarray:
    """uint8 [height, width, 3]: the picture that the patches of one image show, put together by loops."""
    patches, ((_, rows, columns),) = patchify([image], policy)[0], patchify([image], policy)[1].tolist()
    p, m = policy.patch_size, policy.merge_size
    out = np.zeros((rows * p, columns * p, 3), np.uint8)
    number = 0
    for top in range(0, rows, m):
        for left in range(0, columns, m):
            for row in range(top, top + m):
                for column in range(left, left + m):
                    patch = patches[number].view(3, p, p).permute(1, 2, 0).numpy()
                    out[row * p : (row + 1) * p, column * p : (column + 1) * p] = patch
                    number += 1
    return out


@settings(deadline=None, max_examples=40)
@given(width=st.integers(1, 130), height=st.integers(1, 130))
def test_every_pixel_stays_and_the_edge_goes_on(width: int, height: int) -> None:
    image = synthetic_image(width, height)
    shown, pixels = raster(image, PAD), np.asarray(image)
    assert shown.shape == (-(-height // 32) * 32, -(-width // 32) * 32, 3)
    assert (shown[:height, :width] == pixels).all()
    assert (shown[:height, width:] == pixels[:, -1:]).all()
    assert (shown[height:] == shown[height - 1]).all()
    assert policy_tokens(width, height, PAD) * 1024 == shown.shape[0] * shown.shape[1]


def test_a_full_tile_and_a_compressed_one() -> None:
    assert policy_tokens(875, 1024, PAD) == 28 * 32
    assert policy_tokens(437, 512, TWICE) == 28 * 32
    assert policy_tokens(875, 1, PAD) == 28


@pytest.mark.parametrize("size", [(50, 37), (64, 32), (1, 1)])
def test_an_enlarged_picture_is_pillow_s_bicubic_one(size: tuple[int, int]) -> None:
    image = synthetic_image(*size)
    wanted = np.asarray(image.resize((2 * size[0], 2 * size[1]), Image.Resampling.BICUBIC))
    shown = raster(image, TWICE)
    assert (shown[: wanted.shape[0], : wanted.shape[1]] == wanted).all()
    assert policy_tokens(*size, TWICE) * 1024 == shown.shape[0] * shown.shape[1]


def test_sides_are_rounded_when_enlarged() -> None:
    policy = dataclasses.replace(PAD, enlarge=1.5)
    assert raster(synthetic_image(43, 22), policy).shape == (64, 64, 3)  # 64.5 -> 64, 33


def test_nothing_is_shrunk() -> None:
    small = dataclasses.replace(PAD, max_pixels=64 * 64)
    assert policy_tokens(64, 64, small) == 4
    with pytest.raises(InputError, match=r"65 x 64 px: 96 x 64 px with enlarge 1\.0: wanted at most 4096 px"):
        patchify([synthetic_image(65, 64)], small)
    with pytest.raises(InputError, match="at least one pixel"):
        policy_tokens(0, 5, PAD)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"fit": "crop"}, "fit and enlarge: wanted 'resize' or 'pad'"),
        ({"enlarge": 0.5}, "found 'pad' and 0.5"),
        ({"enlarge": float("inf")}, "found 'pad' and inf"),
        ({"enlarge": float("nan")}, "found 'pad' and nan"),
        ({"fit": "resize", "enlarge": 2.0}, "enlarge: wanted 1 with fit 'resize', found 2.0"),
        ({"min_pixels": 4096}, "min_pixels: wanted 1024 with fit 'pad', found 4096"),
    ],
)
def test_impossible_policies(changes: dict[str, object], message: str) -> None:
    with pytest.raises(InputError, match=message):
        dataclasses.replace(PAD, **changes)  # type: ignore[arg-type]


def test_hashes_of_resizing_policies_are_what_they_were() -> None:
    """Without the two fields; a padding policy is told apart by them."""
    plain = PixelPolicy(4096, 65536)
    assert plain.hashed().keys() == {entry.name for entry in dataclasses.fields(plain)} - {"fit", "enlarge"}
    assert PAD.hashed().keys() - plain.hashed().keys() == {"fit"}
    assert TWICE.hashed().keys() - plain.hashed().keys() == {"fit", "enlarge"}


def test_both_kinds_of_file(tmp_path: Path) -> None:
    save_policy(TWICE, tmp_path)
    assert load_own_policy(tmp_path, NONE) == TWICE
    assert load_own_policy(tmp_path, NONE | {"max_pixels": 5000}).max_pixels == 5000
    assert "image_processor_type" not in json.loads((tmp_path / "preprocessor_config.json").read_text())
    with pytest.raises(InputError, match="min_pixels: wanted 1024"):
        load_own_policy(tmp_path, NONE | {"min_pixels": 5})
    resizing = PixelPolicy(4096, 65536)
    save_policy(resizing, tmp_path)
    assert load_policy(tmp_path) == resizing
    with pytest.raises(InputError, match="wanted a JSON object with tilewright_pixel_policy"):
        load_own_policy(tmp_path, NONE)
