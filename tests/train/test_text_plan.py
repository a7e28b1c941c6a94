"""The text warm-up: each pair once an epoch, no passage twice in a batch, then the pictures from their start."""

import math
from collections import Counter

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import TextPair, TrainingExample, to_json
from tilewright.train.batch_plan import BatchPlan, PlannedBatch
from tilewright.train.text_plan import PlannedTexts, TextPlan, WarmupPlan


def pair(number: int, passage: int, page: int = 0) -> TextPair:
    blanks = " " * (number % 2)  # the tokeniser's prompt has none: the same passage
    return TextPair(f"p{number}", f"query {number}", f"passage {passage}{blanks}", f"page {page}", "heading")


def table(pairs: list[TextPair]) -> pa.Table:
    return pa.Table.from_pylist([to_json(pair) for pair in pairs])


@given(st.lists(st.integers(0, 12), min_size=1, max_size=40), st.integers(1, 9), st.integers(0, 2))
@settings(max_examples=60, deadline=None)
def test_epochs_are_fair_and_passages_differ(passages: list[int], batch_size: int, epoch: int) -> None:
    pairs = [pair(number, passage) for number, passage in enumerate(passages)]
    plan = TextPlan(table(pairs), batch_size=batch_size, seed=1)
    steps = math.ceil(len(pairs) / batch_size)
    assert plan.steps_per_epoch == steps
    batches = [plan.batch(epoch * steps + index) for index in range(steps)]
    for batch in batches:
        found = [item.passage.strip() for item in batch.pairs]
        assert len(set(found)) == len(found) <= batch_size and batch.epoch == epoch
    visits = Counter(item.pair_id for batch in batches for item in batch.pairs)
    assert set(visits.values()) == {1}
    assert len(visits) == sum(min(count, steps) for count in Counter(passages).values())
    other = TextPlan(table(pairs[::-1]), batch_size=batch_size, seed=1)
    assert [other.batch(epoch * steps + index) for index in range(steps)] == batches


def test_pairs_of_one_page_may_meet() -> None:
    plan = TextPlan(table([pair(number, number, page=1) for number in range(6)]), batch_size=6, seed=0)
    assert len(plan.batch(0).pairs) == 6


def test_pictures_follow_texts() -> None:
    examples = [TrainingExample(f"q{number}", "?", f"t{number}", ()) for number in range(6)]
    images = BatchPlan(examples, batch_size=2, seed=0)
    plan = WarmupPlan(TextPlan(table([pair(n, n) for n in range(5)]), batch_size=2, seed=0), 4, images)
    batches = [plan.batch(step) for step in range(8)]
    assert [type(batch) for batch in batches] == [PlannedTexts] * 4 + [PlannedBatch] * 4
    assert batches[4:] == [images.batch(step) for step in range(4)]
    assert plan.batch(1) == batches[1] and batches[0] != batches[3]


def test_unusable_pairs_are_named() -> None:
    with pytest.raises(InputError, match="no text pairs"):
        TextPlan(table([pair(0, 0)]).slice(1), batch_size=2, seed=0)
    with pytest.raises(InputError, match="1 pair ids occur more than once"):
        TextPlan(table([pair(0, 0), pair(0, 1)]), batch_size=2, seed=0)
