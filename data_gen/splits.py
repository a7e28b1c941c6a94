"""Which split a page belongs to: a function of its id alone, so that no page ever stands in two splits."""

import hashlib
import math
from collections.abc import Mapping

SPLITS = ("train", "validation", "test")


def check_shares(shares: Mapping[str, float]) -> None:
    """Raise ValueError unless ``shares`` names the three SPLITS with shares >= 0 that add up to 1."""
    if set(shares) != set(SPLITS):
        raise ValueError(f"shares: wanted the keys {list(SPLITS)}, found {sorted(shares)}")
    if min(shares.values()) < 0 or not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-9):
        raise ValueError(f"shares: wanted numbers >= 0 that add up to 1, found {dict(shares)}")


def split_of(page_id: str, shares: Mapping[str, float], seed: int) -> str:
    """The split of a page: SHA-256 of seed and id as a number in [0, 1), laid on train, validation and test in turn.

    Depends on nothing else: other pages coming or going never move it. Raises ValueError as ``check_shares``.
    """
    check_shares(shares)
    digest = hashlib.sha256(f"{seed}:{page_id}".encode()).digest()
    position = int.from_bytes(digest[:8], "big") / 2**64
    edge = 0.0
    for name in SPLITS:
        edge += shares[name]
        if position < edge:
            return name
    return max(SPLITS, key=lambda name: shares[name] > 0)
