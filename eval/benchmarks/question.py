"""What a benchmark's entry makes of a row: a question, or the reason why there is none."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from tilewright.configs.digests import canonical_json
from tilewright.eval.benchmarks.fields import Fields


@dataclass(frozen=True)
class EvalQuestion:
    """A question of an evaluation set, whatever benchmark it is from.

    ``answer`` and ``aliases``: any of them is right. ``answer_parts``: where the answer is a list, each item with its
    spellings, all wanted. ``gold_urls``: canonical, any of which counts as found; may be none. ``kind``: the own type
    of question of the benchmark. ``image``: a query picture, relative to the JSONL file ("": none). ``options`` of a
    multiple choice, without letters; ``answer`` is one of them. ``supporting_facts``: (page title, text or number of
    the sentence).
    """

    query_id: str
    query: str
    answer: str
    aliases: tuple[str, ...]
    gold_urls: tuple[str, ...]
    benchmark: str
    kind: str = ""
    image: str = ""
    options: tuple[str, ...] = ()
    answer_parts: tuple[tuple[str, ...], ...] = ()
    supporting_facts: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Read:
    """A question as a row gave it. ``picture``: encoded bytes of the query picture, or names of its file, any of which
    will do; None without one. ``unusable_urls``: how many of its gold URLs are no addresses.
    """

    question: EvalQuestion
    picture: bytes | tuple[str, ...] | None = None
    unusable_urls: int = 0


@dataclass(frozen=True)
class Dropped:
    """A row, or a part of one, that gives no question; ``reason`` is a name to count under."""

    reason: str


@dataclass(frozen=True)
class Benchmark:
    """An entry. ``parse`` makes questions of one row of its files; it raises InputError for a row of another schema.

    ``source``: where the schema is published. ``kinds``: of the kinds it has, those that are asked by default (none:
    all).
    """

    name: str
    title: str
    source: str
    parse: Callable[[Fields], Iterable[Read | Dropped]]
    kinds: tuple[str, ...] = ()


def made_id(benchmark: str, *parts: object) -> str:
    """An id for a benchmark without ids: its name and 16 hex digits of SHA-256 of what makes the question."""
    return (
        f"{benchmark}-{hashlib.sha256(canonical_json(list(parts)).encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    )


def distinct(texts: Iterable[str]) -> tuple[str, ...]:
    """The texts without blanks around them, each once, in order, empty ones left out."""
    return tuple(dict.fromkeys(stripped for text in texts if (stripped := text.strip())))


def without_letters(options: Sequence[str]) -> tuple[str, ...]:
    """``A. Oslo`` as ``Oslo``, if each option has its own letter in front; else as they are."""
    letters = [f"{chr(ord('A') + index)}." for index in range(len(options))]
    if all(option.strip().startswith(letter) for option, letter in zip(options, letters, strict=True)):
        return tuple(option.strip()[2:].strip() for option in options)
    return tuple(option.strip() for option in options)
