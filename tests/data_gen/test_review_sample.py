"""The draw of a sample of pairs: seeded, nested, whatever their order, one a page while there are pages left."""

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tilewright.configs.errors import InputError
from tilewright.data_gen.pair_outcomes import Outcome, outcome_of
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.review import sample, sample_by_outcome

PAGES = st.lists(st.integers(0, 8), max_size=40)


def pair_of(number: int, page: int) -> QAPair:
    return QAPair(f"q{number}", "Q?", "A", (), "t", f"p{page}", "", "table", "", "grounded/1")


@given(PAGES, st.integers(0, 45), st.integers(0, 3), st.randoms())
def test_a_sample_is_independent_of_order_and_nested(pages: list[int], number: int, seed: int, random: Any) -> None:
    pairs = [pair_of(index, page) for index, page in enumerate(pages)]
    drawn = sample(pairs, number, seed)
    assert len(drawn) == min(number, len(pairs)) == len({pair.query_id for pair in drawn})
    shuffled = random.sample(pairs, len(pairs))
    assert sample(shuffled, number, seed) == drawn
    assert sample(pairs, number + 7, seed)[: len(drawn)] == drawn


@given(PAGES, st.integers(0, 45))
def test_a_page_gives_another_pair_only_when_all_gave_one(pages: list[int], number: int) -> None:
    pairs = [pair_of(index, page) for index, page in enumerate(pages)]
    have, given_by = Counter(pages), Counter(int(pair.page_id[1:]) for pair in sample(pairs, number, 5))
    most = max(given_by.values(), default=0)
    for page, count in have.items():
        assert given_by[page] >= min(count, most - 1)


def test_seeds_draw_apart_and_pairs_are_equally_likely() -> None:
    pairs = [pair_of(index, index % 200) for index in range(400)]
    first, second = ({pair.query_id for pair in sample(pairs, 20, seed)} for seed in (0, 1))
    assert first != second
    uneven = [
        pair_of(index, index if index < 100 else 1000 + index // 10) for index in range(200)
    ]  # 100 alone, 100 in 10s
    drawn = Counter(int(pair.query_id[1:]) < 100 for seed in range(300) for pair in sample(uneven, 2, seed))
    assert abs(drawn[True] / drawn.total() - 0.5) < 0.08  # 600 draws: 4 standard deviations


def test_what_cannot_be_sampled() -> None:
    with pytest.raises(InputError, match="'q1' stands twice among 2 items"):
        sample([pair_of(1, 1), pair_of(1, 2)], 1, 0)
    with pytest.raises(ValueError, match="at least 0"):
        sample([], -1, 0)
    assert sample([], 5, 0) == []


def outcomes_of(**numbers: int) -> list[Outcome]:
    names = [name for name, count in numbers.items() for _ in range(count)]
    return [outcome_of(n, pair_of(n, n), name) for n, name in enumerate(names)]


def test_a_sample_of_a_stage_shows_every_outcome() -> None:
    outcomes = outcomes_of(kept=900, wrong=60, unparsed=2, error=30)
    drawn = sample_by_outcome(outcomes, 40, 3)
    assert Counter(item.outcome for item in drawn) == {"kept": 20, "wrong": 18, "unparsed": 2}
    assert sample_by_outcome(outcomes[::-1], 25, 3) == drawn[:25]
    assert len(sample_by_outcome(outcomes_of(kept=5), 9, 3)) == 5
    assert Counter(item.outcome for item in sample_by_outcome(outcomes_of(a=5, b=9), 9, 3)) == {"a": 5, "b": 4}
    assert sample_by_outcome(outcomes_of(error=5), 9, 3) == []
