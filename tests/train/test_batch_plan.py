"""Batches: each example once an epoch, no shared positives, labels from ids, no dependence on order or history."""

import dataclasses
import math
import subprocess
import sys
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import TrainingExample
from tilewright.train.batch_plan import BatchPlan, choose, encoded_once, labels, same_words, share_of
from tilewright.train.example_table import ExampleTable


def example(number: int, tile: int, negatives: tuple[int, ...] = (), known: tuple[int, ...] = ()) -> TrainingExample:
    def names(tiles: tuple[int, ...]) -> tuple[str, ...]:
        return tuple(f"t{tile}" for tile in tiles)

    return TrainingExample(f"q{number}", f"question {number}", f"t{tile}", names(negatives), names(known))


@st.composite
def example_lists(draw: st.DrawFn) -> list[TrainingExample]:
    tiles = draw(st.lists(st.integers(0, 12), min_size=1, max_size=40))
    return [example(number, tile, (tile + 1, tile + 2)) for number, tile in enumerate(tiles)]


@given(example_lists(), st.integers(1, 9), st.integers(0, 3))
@settings(max_examples=80, deadline=None)
def test_epochs_are_fair(examples: list[TrainingExample], batch_size: int, epoch: int) -> None:
    plan = BatchPlan(examples, batch_size=batch_size, seed=1)
    steps = math.ceil(len(examples) / batch_size)
    assert plan.steps_per_epoch == steps
    batches = [plan.batch(epoch * steps + index) for index in range(steps)]
    for batch in batches:
        positives = [item.positive_tile_id for item in batch.examples]
        assert 1 <= len(positives) <= batch_size and len(set(positives)) == len(positives)
        assert len(set(batch.tile_ids)) == len(batch.tile_ids)
    visits = Counter(item.query_id for batch in batches for item in batch.examples)
    assert max(visits.values()) == 1
    per_tile = Counter(item.positive_tile_id for item in examples)
    assert len(visits) == sum(min(count, steps) for count in per_tile.values())
    assert len(visits) == len(examples) - plan.waiting_per_epoch
    sizes = {len(batch.examples) for batch in batches}
    assert max(sizes) - min(sizes) <= 1


def test_queries_of_a_crowded_tile_take_turns() -> None:
    examples = [example(number, 0) for number in range(7)] + [example(7, 1)]
    plan = BatchPlan(examples, batch_size=4, seed=0)
    visits = Counter(item.query_id for step in range(2 * 7) for item in plan.batch(step).examples)
    assert plan.waiting_per_epoch == 5
    assert visits == {f"q{number}": 2 for number in range(7)} | {"q7": 7}


def test_does_not_depend_on_order_or_history() -> None:
    examples = [example(number, number % 11, (number % 5,)) for number in range(30)]
    pool = [f"t{tile}" for tile in range(40)]
    one = BatchPlan(examples, batch_size=8, seed=3, random_tiles=6, pool=pool)
    other = BatchPlan(examples[::-1], batch_size=8, seed=3, random_tiles=6, pool=pool[::-1])
    forwards = [one.batch(step) for step in range(12)]
    assert [other.batch(step) for step in reversed(range(12))] == forwards[::-1]
    assert BatchPlan(examples, batch_size=8, seed=3, random_tiles=6, pool=pool).batch(11) == forwards[11]


def test_epochs_and_seeds_differ() -> None:
    examples = [example(number, number) for number in range(32)]
    plan, other = (BatchPlan(examples, batch_size=8, seed=seed) for seed in (0, 1))
    first = [plan.batch(step).examples for step in range(4)]
    assert first != [plan.batch(step).examples for step in range(4, 8)]
    assert first != [other.batch(step).examples for step in range(4)]


def test_same_batches_in_another_process_with_another_hash_seed() -> None:
    program = (
        "from tilewright.train.batch_plan import BatchPlan;"
        "from tilewright.data_gen.records import TrainingExample as E;"
        "p = BatchPlan([E(f'q{i}', '', f't{i % 7}', (f't{i % 3}',)) for i in range(20)], batch_size=6, seed=2,"
        " random_tiles=3, pool=[f't{i}' for i in range(30)]);"
        "print([p.batch(s).tile_ids for s in range(9)])"
    )
    outputs = {
        subprocess.run(
            [sys.executable, "-c", program], env={"PYTHONHASHSEED": seed}, capture_output=True, text=True, check=True
        ).stdout
        for seed in ("1", "2")
    }
    assert len(outputs) == 1


def test_random_tiles_are_new_ones_from_the_pool() -> None:
    pool = [f"t{tile}" for tile in range(20)]
    plan = BatchPlan([example(0, 0, (1, 2)), example(1, 3)], batch_size=2, seed=0, random_tiles=5, pool=pool)
    drawn = [plan.batch(step).tile_ids[4:] for step in range(40)]
    assert all(len(tiles) == 5 and not {"t0", "t1", "t2", "t3"} & set(tiles) for tiles in drawn)
    assert {tile for tiles in drawn for tile in tiles} == set(pool) - {"t0", "t1", "t2", "t3"}
    everything = BatchPlan([example(0, 0)], batch_size=2, seed=0, random_tiles=99, pool=pool).batch(0)
    assert sorted(everything.tile_ids) == sorted(pool)


def test_hard_negatives_are_taken_hardest_first() -> None:
    examples = [example(0, 0, (5, 6, 7)), example(1, 1, (8,))]
    taken = {
        count: BatchPlan(examples, batch_size=2, seed=0, hard_negatives=count).batch(0).tile_ids for count in (0, 2)
    }
    assert set(taken[0]) == {"t0", "t1"} and set(taken[2]) == {"t0", "t1", "t5", "t6", "t8"}


def test_labels_come_from_ids() -> None:
    """Ragged negatives, one shared with another's positive: the positives' columns stay right."""
    examples = [example(0, 0, (5, 1)), example(1, 1), example(2, 2, (0,), known=(5, 9)), example(3, 3, (6, 7))]
    batch = BatchPlan(examples, batch_size=4, seed=0).batch(0)
    positive, ignore = labels(batch)
    assert [batch.tile_ids[column] for column in positive.tolist()] == [e.positive_tile_id for e in batch.examples]
    marked = {(batch.examples[row].query_id, batch.tile_ids[column]) for row, column in ignore.nonzero().tolist()}
    assert marked == {("q2", "t5")}
    assert len(batch.tile_ids) == 7


def test_known_positives_are_ignored_but_never_the_positive() -> None:
    batch = BatchPlan([example(0, 0, (1, 2), known=(0, 2)), example(1, 3)], batch_size=2, seed=0).batch(0)
    _, ignore = labels(batch)
    marked = {(batch.examples[row].query_id, batch.tile_ids[column]) for row, column in ignore.nonzero().tolist()}
    assert marked == {("q0", "t2")} and ignore.dtype == torch.bool


def test_what_is_right_for_the_same_words_is_no_negative() -> None:
    """As in data sets with a row for each right tile of a question."""
    rows = [example(0, 0, (7,)), example(1, 1, (0, 8), known=(5,)), example(2, 2, (5,))]
    examples = [dataclasses.replace(row, query="same") if row.query_id != "q2" else row for row in rows]
    batch = BatchPlan(examples, batch_size=3, seed=0).batch(0)
    positive, ignore = labels(batch)
    marked = {(batch.examples[row].query_id, batch.tile_ids[column]) for row, column in ignore.nonzero().tolist()}
    assert marked == {("q0", "t1"), ("q0", "t5"), ("q1", "t0"), ("q1", "t5")}
    assert [batch.tile_ids[column] for column in positive.tolist()] == [e.positive_tile_id for e in batch.examples]


def test_same_words_by_hand() -> None:
    wanted = [[False, False, True], [False, False, False], [True, False, False]]
    assert same_words(["a", "b", "a"]).tolist() == wanted and same_words(["a"]).tolist() == [[False]]


def test_tiles_with_the_same_picture_are_encoded_once() -> None:
    """A copy of a positive counts as it, for both queries; one of a known positive is ignored, in the batch or not."""
    examples = [example(0, 0, (1, 2, 5), known=(9,)), example(1, 3, (4,)), example(2, 1)]
    plan = BatchPlan(examples, batch_size=3, seed=0)
    images = {"t0": "a", "t1": "a", "t2": "b", "t3": "c", "t4": "b", "t5": "e", "t9": "e"}
    batch = encoded_once(plan.batch(0), images)
    shown = [images[tile_id] for tile_id in batch.tile_ids]
    assert sorted(shown) == ["a", "b", "c", "e"] and set(batch.tile_ids) <= set(plan.batch(0).tile_ids)
    positive, ignore = labels(batch)
    wanted = {"q0": "a", "q1": "c", "q2": "a"}
    for row, item in enumerate(batch.examples):
        assert shown[int(positive[row])] == wanted[item.query_id]
        ignored = {shown[column] for column in ignore[row].nonzero().flatten().tolist()}
        assert ignored == ({"e"} if item.query_id == "q0" else set())


@given(example_lists(), st.data())
@settings(max_examples=60, deadline=None)
def test_labels_after_merging_are_those_of_pictures(examples: list[TrainingExample], data: st.DataObject) -> None:
    """Second formula: a column is a negative of a query if its picture is that of none of the query's positives."""
    examples = [
        dataclasses.replace(item, known_positive_tile_ids=data.draw(st.sampled_from([(), ("t1",), ("t2", "t99")])))
        for item in examples
    ]
    names = sorted({name for item in examples for name in (item.positive_tile_id, *item.negative_tile_ids)})
    images = {name: str(data.draw(st.integers(0, 5))) for name in [*names, "t1", "t2", "t99"]}
    plain = BatchPlan(examples, batch_size=5, seed=0).batch(0)
    batch = encoded_once(plain, images)
    shown = [images[name] for name in batch.tile_ids]
    assert sorted(shown) == sorted({images[name] for name in plain.tile_ids})
    positive, ignore = labels(batch)
    for row, item in enumerate(plain.examples):
        own = images[item.positive_tile_id]
        assert shown[int(positive[row])] == own and batch.examples[row].query_id == item.query_id
        right = {own} | {images[name] for name in item.known_positive_tile_ids}
        negatives = {shown[column] for column in range(len(shown)) if not ignore[row, column]} - {own}
        assert negatives == set(shown) - right


@given(st.lists(st.integers()), st.integers(1, 7))
def test_shares_are_contiguous_and_even(items: list[int], world: int) -> None:
    shares = [share_of(items, rank, world) for rank in range(world)]
    assert [item for share in shares for item in share] == items
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_choice_is_by_digest() -> None:
    examples = [example(number, number) for number in range(50)]
    chosen = choose(examples, 10, seed=0)
    assert len(chosen) == 10 and chosen == choose(examples[::-1], 10, seed=0) != choose(examples, 10, seed=1)
    assert set(choose(examples, 5, seed=0)) < set(chosen) and choose(examples, 99, 0) == choose(examples, 50, 0)


def test_a_table_and_a_list_give_the_same_batches() -> None:
    """Also when the table knows more tiles, and holds its rows in another order."""
    examples = [example(number, number % 7, (number % 3, 8), known=(number % 5,)) for number in range(30)]
    more = ExampleTable.of([*examples[::-1], example(99, 77, (55, -4))]).take(np.arange(30))
    listed, table = (BatchPlan(items, batch_size=8, seed=1) for items in (examples, more))
    assert [listed.batch(step) for step in range(9)] == [table.batch(step) for step in range(9)]


def test_members_of_a_tile_come_in_another_order_each_epoch() -> None:
    plan = BatchPlan([example(number, 0) for number in range(12)], batch_size=1, seed=0)
    orders = {tuple(plan.batch(epoch * 12 + step).examples[0].query_id for step in range(12)) for epoch in range(8)}
    assert len(orders) == 8 and all(len(set(order)) == 12 for order in orders)


def test_every_place_is_as_likely() -> None:
    """Over 400 epochs, each example in each of four steps: a hundred times, give or take (4.5 sigma of binomial)."""
    plan = BatchPlan([example(number, number) for number in range(16)], batch_size=4, seed=5)
    counts = np.zeros((16, 4))
    for step in range(1600):
        for item in plan.batch(step).examples:
            counts[int(item.query_id[1:]), step % 4] += 1
    assert counts.sum(1).tolist() == [400.0] * 16
    assert np.abs(counts - 100).max() < 4.5 * math.sqrt(400 * 0.25 * 0.75)


def test_bad_input_is_named() -> None:
    with pytest.raises(InputError, match="no training examples"):
        BatchPlan([], batch_size=4, seed=0)
    with pytest.raises(InputError, match="1 query ids occur more than once"):
        BatchPlan([example(0, 0), example(0, 1)], batch_size=4, seed=0)
    with pytest.raises(ValueError, match="batch_size"):
        BatchPlan([example(0, 0)], batch_size=0, seed=0)


def test_a_table_chooses_by_id_whatever_its_order() -> None:
    examples = [example(number, number) for number in range(50)]
    table, other = ExampleTable.of(examples), ExampleTable.of(examples[::-1])
    chosen = list(table.choose(10, seed=0))
    assert len(chosen) == 10 and chosen == list(other.choose(10, seed=0)) != list(table.choose(10, seed=1))
    assert chosen[:5] == list(table.choose(5, seed=0)) and len(table.choose(99, seed=0)) == 50
    assert chosen == list(table.choose(50, seed=0))[:10]
