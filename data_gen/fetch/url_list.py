"""A text file of URLs, one a line: what to fetch, each page once."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from urllib.parse import urlsplit

from tilewright.configs.errors import InputError
from tilewright.data_gen.sources.web_address import web_address
from tilewright.data_gen.urls import canonical_url


@dataclass(frozen=True)
class Target:
    """A line of the list. ``key`` is its canonical URL; ``url`` what is asked for, "" for a ``problem``."""

    key: str
    url: str
    problem: str = ""


def read_url_list(path: Path, counts: Counter[str]) -> list[Target]:
    """The targets in order of ``key``; blank lines and those that start with ``#`` are comments.

    Lines with one canonical URL are one target (the first line's); ``counts`` gets ``duplicates`` and
    ``fragments_dropped``. A line that can't be fetched is a target with a ``problem``. InputError for an empty list.
    """
    targets: dict[str, Target] = {}
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: wanted UTF-8 text, one URL a line ({error})") from error
    for number, line in enumerate(lines, start=1):
        text = line.strip()
        if not text or text.startswith("#"):
            continue
        target = _target(text, number)
        if target.key in targets:
            counts["duplicates"] += 1
        elif "#" in text and not target.problem:
            counts["fragments_dropped"] += 1
        targets.setdefault(target.key, target)
    if not targets:
        raise InputError(f"{path}: no URLs in this list; wanted at least one, one a line")
    return [targets[key] for key in sorted(targets)]


def by_turns(targets: Sequence[Target]) -> list[Target]:
    """The same targets, hosts taking turns: work goes on while one host makes us wait."""
    numbers: dict[str, count[int]] = {}
    turns = [next(numbers.setdefault(urlsplit(target.url).netloc, count())) for target in targets]
    return [target for _, target in sorted(zip(turns, targets, strict=True), key=lambda pair: (pair[0], pair[1].key))]


def _target(text: str, number: int) -> Target:
    url = web_address("", text)
    if not url:
        authority = text.partition("//")[2].partition("/")[0]
        if "@" in authority:
            return Target(f"line {number}", "", "credentials_in_url")
        return Target(f"line {number}: {text[:200]}", "", "not_a_web_address")
    return Target(canonical_url(url), url)
