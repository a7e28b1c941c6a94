"""Which split a page belongs to: by digest of its id, alone or among the pages of its kind; never two splits."""

import hashlib
import json
import math
from collections import defaultdict
from collections.abc import Mapping
from pathlib import Path

from tilewright.configs.errors import InputError

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
    return _split_at(_number(page_id, seed), shares)


def stratified(strata: Mapping[str, str], shares: Mapping[str, float], seed: int) -> dict[str, str]:
    """{page_id: split} for ``strata`` {page_id: stratum}: each stratum is laid out by ``shares``, to a page.

    Within a stratum pages stand in the order of the number that ``split_of`` goes by, evenly spaced from a start that
    seed and stratum decide, so that also a stratum of one page may come to any split. A page that comes or goes moves
    no page of another stratum, and in its own only pages beside the two cuts. Raises ValueError as ``check_shares``.
    """
    check_shares(shares)
    members: dict[str, list[str]] = defaultdict(list)
    for page, stratum in strata.items():
        members[stratum].append(page)
    places = {}
    for stratum, pages in members.items():
        start = _number(f"stratum:{stratum}", seed)
        for i, page in enumerate(sorted(pages, key=lambda page: (_number(page, seed), page))):
            places[page] = _split_at((i + start) / len(pages), shares)
    return places


def pages_of_split(path: Path, split: str) -> frozenset[str]:
    """The page_ids of one split of split_pairs' ``pages.json``. Raises InputError if there's no such split."""
    try:
        pages = json.loads(path.read_text(encoding="utf-8"))[split]
        if not isinstance(pages, list) or not all(isinstance(page_id, str) for page_id in pages):
            raise TypeError(f"{split} holds {pages!r:.60}")
        return frozenset(pages)
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise InputError(
            f"{path}: wanted {{split: [page_id, ...]}} with {split!r} as split_pairs writes it: {error!r}"
        ) from error


def _number(key: str, seed: int) -> float:
    """SHA-256 of seed and key as a number in [0, 1)."""
    digest = hashlib.sha256(f"{seed}:{key}".encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def _split_at(position: float, shares: Mapping[str, float]) -> str:
    edge = 0.0
    for name in SPLITS:
        edge += shares[name]
        if position < edge:
            return name
    return max(SPLITS, key=lambda name: shares[name] > 0)
