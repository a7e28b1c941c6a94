"""Sizes and filter of compression c."""

from decimal import Decimal, getcontext

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.train.compress import compress, size
from tilewright.train.encoder import visual_tokens
from tilewright.train.pixels import synthetic_image

SIDES = st.integers(1, 20_000)


@pytest.mark.parametrize(
    ("compression", "wanted", "tokens"),
    [
        (1, (875, 1024), 864),
        (2, (618, 724), 437),
        (3, (505, 591), 288),
        (4, (437, 512), 224),
        (5, (391, 457), 168),
        (9, (291, 341), 99),
    ],
)
def test_figures_of_a_full_tile(compression: float, wanted: tuple[int, int], tokens: int) -> None:
    assert size(875, 1024, compression) == wanted
    assert visual_tokens(*wanted) == tokens


@given(SIDES, SIDES, st.floats(1, 1e6))
def test_equals_the_definition_in_many_digits(width: int, height: int, compression: float) -> None:
    getcontext().prec = 60
    factor = 1 / Decimal(compression).sqrt()
    assert size(width, height, compression) == tuple(max(1, int(side * factor)) for side in (width, height))


@given(SIDES, st.integers(1, 200))
def test_perfect_squares_are_exact(side: int, root: int) -> None:
    assert size(side, side, root * root) == (max(1, side // root),) * 2


@given(SIDES, SIDES, st.floats(1, 100), st.floats(1, 100))
def test_more_compression_is_never_larger(width: int, height: int, one: float, two: float) -> None:
    less, more = sorted((one, two))
    assert all(a <= b for a, b in zip(size(width, height, more), size(width, height, less), strict=True))
    assert all(a <= b for a, b in zip(size(width, height, less), (width, height), strict=True))


@pytest.mark.parametrize("compression", [0.99, 0, -2, float("nan"), float("inf"), float("-inf")])
def test_impossible_compressions(compression: float) -> None:
    with pytest.raises(ValueError, match="compression: wanted a finite number of at least 1"):
        size(875, 1024, compression)


def test_no_pixels() -> None:
    with pytest.raises(ValueError, match="at least one pixel"):
        size(0, 1024, 2)


def test_images() -> None:
    image = synthetic_image(120, 80)
    assert compress(image, 1) is image
    assert compress(image, 4).size == (60, 40)
    assert compress(image, 1e9).size == (1, 1)


def test_a_flat_image_stays_flat() -> None:
    flat = synthetic_image(90, 70).point(lambda value: 200)
    assert compress(flat, 3).getcolors() == [(51 * 40, (200, 200, 200))]
