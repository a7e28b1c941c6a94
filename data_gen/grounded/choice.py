"""Choices that depend on what is chosen for, not on a random state: by SHA-256."""

import hashlib
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


def digest_number(key: str) -> int:
    """A 64-bit number that ``key`` alone decides."""
    return int.from_bytes(hashlib.sha256(key.encode("utf-8", "surrogatepass")).digest()[:8], "big")


def choose(options: Sequence[T], key: str) -> T:
    """One of ``options``, which ``key`` alone decides. Raises ValueError if there are none."""
    if not options:
        raise ValueError(f"no options to choose from for {key!r}")
    return options[digest_number(key) % len(options)]
