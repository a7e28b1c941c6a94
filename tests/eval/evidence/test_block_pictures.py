"""How many units of a block its picture shows: as many as fit, found with few drawings."""

from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tilewright.eval.evidence.block_pictures import PROBES, _largest
from tilewright.eval.parts import Item


@given(st.integers(1, 200), st.integers(0, 250))
def test_the_largest_number_that_fits_is_found_with_few_drawings(count: int, limit: int) -> None:
    calls: list[Sequence[int]] = []

    def fitting(counts: Sequence[int]) -> dict[int, Item]:
        calls.append(counts)
        assert all(1 <= number <= count for number in counts) and 0 < len(counts) <= PROBES
        return {number: Item(str(number), "page", "block", "") for number in counts if number <= limit}

    found = _largest(fitting, count)
    assert (None if found is None else int(found.item_id)) == (min(count, limit) or None)
    asked = [number for numbers in calls for number in numbers]
    assert len(asked) == len(set(asked)) and len(calls) <= 6


def test_a_picture_that_grows_less_than_expected_is_never_above_the_budget() -> None:
    def fitting(counts: Sequence[int]) -> dict[int, Item]:
        return {number: Item(str(number), "page", "block", "") for number in counts if number in {1, 2, 7}}

    found = _largest(fitting, 9)
    assert found is not None and found.item_id in {"1", "2", "7"}
