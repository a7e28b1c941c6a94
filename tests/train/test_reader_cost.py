"""Tokens of images and rows, from sizes alone: what the processor and a batch then really have."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.data_gen.records import ReaderExample
from tilewright.train.compress import compress, size
from tilewright.train.pixels import MIN_PIXELS, PixelPolicy, image_processor_of, synthetic_image
from tilewright.train.reader import Reader
from tilewright.train.reader_batch import ReaderCollator
from tilewright.train.reader_cost import ContextError, check_context, image_cost, mean, row_cost

POLICY = PixelPolicy(MIN_PIXELS, 1800 * 1024)
SIDES = st.integers(1, 400)


@pytest.fixture(scope="module")
def reader(reader_parts: Any) -> Reader:
    loaded: Reader = reader_parts.load()
    return loaded


@pytest.mark.parametrize(("compression", "tokens"), [(1, 864), (2, 437), (3, 288), (4, 224), (5, 168), (9, 99)])
def test_a_full_tile_costs_what_the_recipe_says(compression: float, tokens: int) -> None:
    cost = image_cost(875, 1024, compression, POLICY)
    assert (cost.width_px, cost.height_px) == size(875, 1024, compression)
    assert cost.visual_tokens == tokens and not cost.enlarged


@given(SIDES, SIDES, st.floats(1, 30))
@settings(max_examples=30, deadline=None)
def test_tokens_are_those_of_transformers_own_processor(width: int, height: int, compression: float) -> None:
    small = compress(synthetic_image(width, height), compression)
    if max(small.size) > 200 * min(small.size):
        return
    grid = image_processor_of(POLICY)([small], return_tensors="pt")["image_grid_thw"]
    cost = image_cost(width, height, compression, POLICY)
    assert cost.visual_tokens == int(grid.prod()) // 4
    shown_px = cost.visual_tokens * 1024
    assert not cost.enlarged or shown_px >= max(MIN_PIXELS, small.width * small.height), "enlarged means more pixels"
    if not cost.enlarged:  # rounding to whole tokens alone: a side grows by less than half of one
        assert shown_px <= (small.width + 16) * (small.height + 16)


def test_a_tiny_image_is_known_to_be_blown_up() -> None:
    """20 × 30 px would be one token; min_pixels makes it four, or more where the aspect asks for it."""
    cost = image_cost(20, 30, 1, POLICY)
    assert cost.enlarged and cost.visual_tokens == 6
    assert image_cost(875, 1024, 400, POLICY).enlarged
    assert not image_cost(64, 64, 1, POLICY).enlarged and image_cost(64, 64, 1, POLICY).visual_tokens == 4


def test_a_row_costs_what_its_batch_has(reader: Reader, reader_parts: Any) -> None:
    store, ids = reader_parts.store(), reader_parts.tile_ids
    rows = [ReaderExample(f"q{k}", "Which <|im_end|> city?", "Oslo", ids[:k], 0, 1.0 + k) for k in (1, 3, 6)]
    collator = ReaderCollator(store, reader.prompt, reader.policy)
    for row in rows:
        cost, batch = row_cost(row, store.size_px, reader.prompt, reader.policy), collator([row])
        assert cost.tokens == batch["input_ids"].shape[1]
        assert cost.visual_tokens == int(batch["mm_token_type_ids"].sum())
        assert cost.answer_tokens == int((batch["labels"] >= 0).sum())


def test_the_longest_row_is_named() -> None:
    rows = [ReaderExample(f"q{n}", "?", "a", ("t",) * n, 0, 2.0) for n in (1, 3, 2)]
    check_context([(row, 10 * len(row.tile_ids)) for row in rows], 30, "train.jsonl")
    with pytest.raises(ContextError, match=r"train\.jsonl: 2 rows .* 19 tokens; the longest, q3, has 3 tiles .* 30:"):
        check_context([(row, 10 * len(row.tile_ids)) for row in rows], 19, "train.jsonl")


def test_mean() -> None:
    assert mean([]) == 0 and mean([1, 2, 4]) == 2.3
