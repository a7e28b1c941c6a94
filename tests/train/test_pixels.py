"""Our pixels against transformers' Pillow image processor, which is the reference."""

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.train.encoder import visual_tokens
from tilewright.train.pixels import (
    MAX_PIXELS,
    MIN_PIXELS,
    PixelPolicy,
    check_policy,
    image_processor_of,
    load_policy,
    normalise,
    patchify,
    policy_tokens,
    resized_size,
    synthetic_image,
)

SMALL = PixelPolicy(4096, 65536)
NOMINAL = PixelPolicy(MIN_PIXELS, MAX_PIXELS)


@pytest.mark.parametrize(
    ("width", "height", "tokens"),
    [
        (875, 1024, 864),  # a full tile
        (875, 300, 243),
        (875, 1055, 27 * 33),  # with the longest rest that joins
        (906, 1055, 28 * 33),
        (875, 32, 27),
        (48, 80, 2 * 2),  # 1.5 and 2.5 units: halves go to the even number
        (1, 1, 4),  # up to the minimum
        (5, 900, 27),  # a side of 0 units is scaled up with the other
        (4000, 3000, 48 * 36),  # down to the maximum: 48.98 x 36.7 units, rounded down
    ],
)
def test_token_counts(width: int, height: int, tokens: int) -> None:
    patches = image_processor_of(NOMINAL).get_number_of_image_patches(height, width)
    assert patches // 4 == visual_tokens(width, height)
    assert visual_tokens(width, height) == tokens


@given(st.integers(1, 3000), st.integers(1, 3000), st.integers(12, 17), st.integers(0, 5))
def test_every_size_as_the_processor_counts_it(width: int, height: int, low: int, span: int) -> None:
    policy = PixelPolicy(2**low, 2 ** (low + span))
    processor = image_processor_of(policy)
    if max(width, height) / min(width, height) > 200:
        with pytest.raises(InputError, match="aspect ratio"):
            policy_tokens(width, height, policy)
        with pytest.raises(ValueError, match="aspect ratio"):
            processor.get_number_of_image_patches(height, width)
    else:
        assert policy_tokens(width, height, policy) * 4 == processor.get_number_of_image_patches(height, width)


@pytest.mark.parametrize("size", [(875, 1024), (875, 300), (33, 47), (7, 900), (300, 300), (64, 64)])
@pytest.mark.parametrize("policy", [SMALL, NOMINAL], ids=["small", "nominal"])
def test_pixels_equal_the_processor(size: tuple[int, int], policy: PixelPolicy) -> None:
    images = [synthetic_image(*size), synthetic_image(70, 50, seed=1)]
    patches, grids = patchify(images, policy)
    wanted = image_processor_of(policy)(images, return_tensors="pt")
    assert patches.dtype == torch.uint8
    assert torch.equal(grids, wanted["image_grid_thw"])
    torch.testing.assert_close(normalise(patches, policy), wanted["pixel_values"], atol=1e-6, rtol=0)
    assert len(patches) == sum(4 * policy_tokens(*image.size, policy) for image in images)


def test_transparency_shows_white() -> None:
    clear = Image.new("RGBA", (64, 64), (0, 0, 0, 0))
    assert patchify([clear], NOMINAL)[0].min() == 255


@pytest.mark.parametrize(("width", "height"), [(0, 10), (10, 0), (-3, 10)])
def test_no_pixels(width: int, height: int) -> None:
    with pytest.raises(InputError, match="at least one pixel"):
        visual_tokens(width, height)


def test_extreme_aspect_ratio() -> None:
    with pytest.raises(InputError, match=r"aspect ratio 201\.0 is above 200"):
        visual_tokens(201, 1)


@pytest.mark.parametrize(("low", "high"), [(0, 4096), (8192, 4096), (1, 1023)])
def test_impossible_limits(low: int, high: int) -> None:
    with pytest.raises(InputError, match="pixel limits"):
        PixelPolicy(low, high)


def test_limits_hold() -> None:
    width, height = resized_size(4000, 3000, min_pixels=MIN_PIXELS, max_pixels=102400)
    assert width * height <= 102400
    assert visual_tokens(875, 1024, max_pixels=102400) == 90


class _Deaf:
    """A processor that ignores one limit, as some versions did."""

    def __init__(self, policy: PixelPolicy) -> None:
        self.processor = image_processor_of(policy)

    def __call__(self, images: list[Image.Image], return_tensors: str) -> Any:
        return self.processor(images, return_tensors=return_tensors)


@pytest.mark.parametrize("ignored", [PixelPolicy(4096, 262144), PixelPolicy(16384, 65536)])
def test_an_ignored_limit_is_found_at_start_up(ignored: PixelPolicy) -> None:
    check_policy(_Deaf(SMALL), SMALL)
    with pytest.raises(InputError, match="limits aren't the contract's"):
        check_policy(_Deaf(ignored), SMALL)


def test_other_values_are_found_at_start_up() -> None:
    other = PixelPolicy(4096, 65536, mean=(0.48, 0.46, 0.41))
    with pytest.raises(InputError, match="other values"):
        check_policy(_Deaf(other), SMALL)


def test_policy_of_a_folder(tmp_path: Any) -> None:
    image_processor_of(SMALL).save_pretrained(tmp_path)
    assert load_policy(tmp_path) == SMALL
    assert load_policy(tmp_path, max_pixels=102400).max_pixels == 102400
    (tmp_path / "preprocessor_config.json").write_text(
        '{"do_resize": false, "size": {"shortest_edge": 1, "longest_edge": 9999}}'
    )
    with pytest.raises(InputError, match="do_resize"):
        load_policy(tmp_path)
    (tmp_path / "preprocessor_config.json").unlink()
    with pytest.raises(InputError, match=r"no preprocessor_config\.json"):
        load_policy(tmp_path)


def test_probe_pictures_differ() -> None:
    one, two = np.asarray(synthetic_image(40, 30)), np.asarray(synthetic_image(40, 30, seed=1))
    assert (one != two).mean() > 0.3
