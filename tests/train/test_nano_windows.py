"""Windows put together again are the page, and every patch is seen with room around it."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from tilewright.train.nano_windows import axis, cut_windows

torch.set_num_threads(1)
sizes = st.integers(1, 90)


@st.composite
def limits(draw: st.DrawFn) -> tuple[int, int]:
    """(largest window, overlap): an overlap is smaller than half a window."""
    largest = draw(st.integers(3, 30))
    return largest, draw(st.integers(0, (largest - 1) // 2))


@given(sizes, sizes, limits(), limits())
def test_join_undoes_cut(rows: int, columns: int, down: tuple[int, int], across: tuple[int, int]) -> None:
    page = torch.arange(rows * columns * 2).view(rows, columns, 2)
    overlap = min(down[1], across[1])
    windows = cut_windows(rows, columns, largest=(down[0], across[0]), overlap=overlap)
    parts = windows.cut(page)
    assert parts.shape[:3] == (windows.count, windows.down.size, windows.across.size)
    assert parts.shape[1] <= down[0] and parts.shape[2] <= across[0]
    assert torch.equal(windows.join(parts), page)


@given(st.integers(1, 400), limits())
def test_every_patch_has_half_an_overlap_around_it(length: int, limit: tuple[int, int]) -> None:
    largest, overlap = limit
    found = axis(length, largest, overlap)
    assert found.size <= largest
    assert found.starts[0] == 0 and found.starts[-1] + found.size == length
    assert list(found.starts) == sorted(found.starts)
    starts = torch.tensor(found.starts)[found.owner]
    places = torch.arange(length)
    assert torch.equal(found.inside, places - starts)
    before, after = found.inside, found.size - 1 - found.inside
    assert bool((before >= 0).all()) and bool((after >= 0).all())
    inner_left, inner_right = starts > 0, starts + found.size < length
    assert bool((before[inner_left] >= overlap // 2).all())
    assert bool((after[inner_right] >= overlap // 2).all())


@given(st.integers(1, 400), limits())
def test_windows_are_few_and_overlap_enough(length: int, limit: tuple[int, int]) -> None:
    largest, overlap = limit
    found = axis(length, largest, overlap)
    count = len(found.starts)
    assert all(one + found.size - other >= overlap for one, other in zip(found.starts, found.starts[1:], strict=False))
    fewer = (count - 1) * largest - (count - 2) * overlap  # the most that one window less would cover
    assert count == 1 or fewer < length


def test_a_full_tile() -> None:
    windows = cut_windows(64, 56, largest=(18, 30), overlap=2)
    assert (windows.count, windows.down.size, windows.across.size) == (8, 18, 29)
    assert windows.down.starts == (0, 15, 31, 46) and windows.across.starts == (0, 27)


def test_what_a_window_doesnt_own_isnt_heard() -> None:
    windows = cut_windows(5, 40, largest=(8, 12), overlap=2)
    parts = windows.cut(torch.zeros(5, 40))
    parts += torch.arange(windows.count)[:, None, None]
    assert torch.equal(windows.join(parts), windows.across.owner.expand(5, -1).float())
