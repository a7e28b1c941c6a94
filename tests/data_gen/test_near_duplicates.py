"""Copies of a tile are found, other text of the same layout isn't; groups are those of comparing all pairs."""

import io
import itertools
import random
import time
from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw, ImageFont
from scipy.fft import dctn

from tilewright.data_gen.near_duplicates import HASH_BITS, hash_distance, near_duplicates, perceptual_hash

SIZE = (875, 1024)
BITS = 12  # as in configs/data_gen/make_queries


def text_tile(seed: int) -> Image.Image:
    """Lines of random words over the whole tile: other words, the same layout."""
    letters = random.Random(seed)
    image = Image.new("RGB", SIZE, "white")
    font = ImageFont.load_default(16)
    for y in range(8, 1000, 24):
        words = ["".join(letters.choices("abcdefghijklmnopqrstuvwxyz", k=letters.randint(1, 9))) for _ in range(19)]
        ImageDraw.Draw(image).text((8, y), " ".join(words)[:104], fill="black", font=font)
    return image


def jpeg(image: Image.Image, quality: int) -> Image.Image:
    buffer = io.BytesIO()
    image.save(buffer, "JPEG", quality=quality)
    return Image.open(io.BytesIO(buffer.getvalue()))


def test_the_hash_is_that_of_a_cosine_transform() -> None:
    image = text_tile(0)
    grey = np.asarray(image.convert("L").resize((64, 64), Image.Resampling.BOX), dtype=np.float64)
    weights = np.round(dctn(grey, norm="ortho")[:16, :16], 3)
    assert perceptual_hash(image) == np.packbits(weights > np.median(weights)).tobytes().hex()
    assert len(perceptual_hash(image)) == HASH_BITS // 4
    assert hash_distance("0" * 64, "0" * 62 + "a1") == 3


def test_other_text_of_the_same_layout_is_another_tile() -> None:
    hashes = [perceptual_hash(text_tile(seed)) for seed in range(20)]
    nearest = min(hash_distance(a, b) for a, b in itertools.combinations(hashes, 2))
    assert nearest > 3 * BITS
    assert not near_duplicates([str(i) for i in range(20)], hashes, [SIZE] * 20, BITS)


def test_a_copy_is_the_same_tile() -> None:
    for seed in range(8):
        image = text_tile(seed)
        for copy in (jpeg(image, 80), image.resize((874, 1023)), Image.blend(image, Image.new("RGB", SIZE), 0.1)):
            assert hash_distance(perceptual_hash(image), perceptual_hash(copy)) <= BITS


def test_blank_tiles_are_one_if_of_one_shape() -> None:
    blank = [Image.new("RGB", size, colour) for size in (SIZE, (875, 100)) for colour in ("white", "black", "#eee")]
    hashes = [perceptual_hash(image) for image in [*blank, jpeg(blank[0], 80)]]
    sizes = [image.size for image in blank] + [SIZE]
    assert near_duplicates(list("gfedcba"), hashes, sizes, 1) == {"f": "a", "g": "a", "e": "a", "d": "b", "c": "b"}


def naive(
    tile_ids: Sequence[str], hashes: Sequence[str], sizes: Sequence[tuple[int, int]], most: int
) -> dict[str, str]:
    """Connected components by comparing all pairs again and again."""
    group = {tile_id: {tile_id} for tile_id in tile_ids}
    for i, j in itertools.combinations(range(len(tile_ids)), 2):
        shapes = sizes[i][0] / sizes[i][1] / (sizes[j][0] / sizes[j][1])
        if hash_distance(hashes[i], hashes[j]) <= most and 1 / 1.02 <= shapes <= 1.02:
            joined = group[tile_ids[i]] | group[tile_ids[j]]
            for member in joined:
                group[member] = joined
    return {tile_id: min(members) for tile_id, members in group.items() if tile_id != min(members)}


def flipped(value: int, bits: Sequence[int]) -> int:
    for bit in bits:
        value ^= 1 << bit
    return value


@settings(deadline=None, max_examples=60)
@given(st.data(), st.integers(0, 31))
def test_groups_are_those_of_all_pairs_in_any_order(data: st.DataObject, most: int) -> None:
    bit_lists = st.lists(st.integers(0, 255), max_size=most + 3, unique=True)
    seeds = [random.Random(seed).getrandbits(256) for seed in range(3)]
    values: list[int] = []
    for _ in range(data.draw(st.integers(0, 12))):  # chains of neighbours, some of them just too far
        values.append(flipped(data.draw(st.sampled_from([*values, *seeds])), data.draw(bit_lists)))
    hashes = [f"{value:064x}" for value in values]
    sizes = [data.draw(st.sampled_from([(875, 1024), (875, 1025), (875, 512)])) for _ in values]
    ids = data.draw(st.permutations([f"{i:02d}" for i in range(len(values))]))
    assert near_duplicates(ids, hashes, sizes, most) == naive(ids, hashes, sizes, most)


def test_large_buckets() -> None:
    """More tiles than are compared at once share bands: copies, chains of copies, and strangers that look like them."""
    chance = random.Random(1)
    values = [chance.getrandbits(256)]
    for _ in range(150):
        values.append(flipped(values[-1], chance.sample(range(256), 9)))
    values += [flipped(values[0], chance.sample(range(256), 14)) for _ in range(150)]
    hashes, ids = [f"{value:064x}" for value in values], [f"{i:03d}" for i in range(len(values))]
    chance.shuffle(ids)
    sizes = [SIZE] * len(values)
    for most in (0, 8, 9, 14):
        assert near_duplicates(ids, hashes, sizes, most) == naive(ids, hashes, sizes, most)


def test_a_hundred_thousand_tiles() -> None:
    count = 100_000
    bits = np.random.default_rng(0).integers(0, 256, (count, 32), dtype=np.uint8)
    bits[-40_000:-100] = 0  # blank
    bits[-100:] = bits[:100]
    bits[-100:, 7] ^= 0b101
    hashes, ids = [row.tobytes().hex() for row in bits], [f"{i:06d}" for i in range(count)]
    started = time.perf_counter()
    found = near_duplicates(ids, hashes, [SIZE] * count, BITS)
    assert time.perf_counter() - started < 15  # all pairs would be 5e9
    expected = {f"{count - 100 + i:06d}": f"{i:06d}" for i in range(100)}
    assert found == expected | {f"{i:06d}": f"{count - 40_000:06d}" for i in range(count - 39_999, count - 100)}


def test_impossible_distances() -> None:
    for most in (-1, 32):
        with pytest.raises(ValueError, match="wanted 0 to 31 of 256 bits"):
            near_duplicates([], [], [], most)
    assert near_duplicates([], [], [], 3) == {}
