"""``shard: i/n``: the part of a stage's items that one of n machines does; merged, the parts equal one run."""

import re

_SHARD = re.compile(r"([0-9]+)/([1-9][0-9]*)")


def part_of(shard: str | None) -> tuple[int, int]:
    """(i, n) of "i/n"; (0, 1) for None. Raises ValueError unless 0 <= i < n."""
    match = _SHARD.fullmatch(shard) if shard is not None else None
    number, count = (int(match[1]), int(match[2])) if match else (0, 1)
    if (shard is not None and match is None) or number >= count:
        raise ValueError(f"shard: wanted i/n with 0 <= i < n, such as 0/8, found {shard!r}")
    return number, count


def in_part(hex_id: str, part: tuple[int, int]) -> bool:
    """Whether an item belongs to part i of n: by its id in hexadecimal, so that other items don't matter."""
    return int(hex_id, 16) % part[1] == part[0]
