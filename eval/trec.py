"""TREC run and qrels files, as trec_eval and ir-measures read them."""

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Ranking

Hits = Sequence[tuple[str, float]]
_GREATEST = float(np.finfo(np.float32).max)


def write_run(path: Path, rankings: Iterable[Ranking], tag: str) -> None:
    """Write ``query_id Q0 tile_id rank score tag`` lines, ranks from 1, in the order of ``rankings``.

    Evaluation tools sort by score (as 32-bit numbers) and break ties in ways of their own. So a score that isn't
    below the one before is written as the next smaller 32-bit number: the order in the file is the only order.
    Raises InputError for an id with spaces, a score that isn't a number, and for what tools would count in ways of
    their own: a query that comes twice, an item twice in one ranking.
    """
    _check_id(tag, path)
    written: set[str] = set()
    with path.open("w", encoding="utf-8") as file:
        for ranking in rankings:
            _check_new(ranking.query_id, written, f"{path}: query")
            _check_hits(ranking, path)
            file.writelines(
                f"{_check_id(ranking.query_id, path)} Q0 {_check_id(item, path)} {rank} {score} {tag}\n"
                for rank, (item, score) in enumerate(_strictly_falling(ranking.hits), start=1)
            )


def _check_hits(ranking: Ranking, path: Path) -> None:
    seen: set[str] = set()
    for item, score in ranking.hits:
        _check_new(item, seen, f"{path}: query {ranking.query_id!r}: item")
        if not math.isfinite(score):
            raise InputError(f"{path}: query {ranking.query_id!r}: wanted a finite score for {item!r}, found {score}")


def _check_new(name: str, seen: set[str], what: str) -> None:
    if name in seen:
        raise InputError(f"{what} {name!r} comes twice: wanted it once")
    seen.add(name)


def _strictly_falling(hits: Hits) -> Iterable[tuple[str, str]]:
    last = np.float32(np.inf)
    for item, score in hits:
        last = min(np.float32(min(max(score, -_GREATEST), _GREATEST)), np.nextafter(last, np.float32(-np.inf)))
        yield item, np.format_float_positional(last, unique=True, trim="0")


def write_qrels(path: Path, relevant: Mapping[str, Collection[str]]) -> None:
    """Write ``query_id 0 item_id 1`` lines. A query without relevant items has no line: tools leave it out too."""
    with path.open("w", encoding="utf-8") as file:
        for query_id, items in relevant.items():
            file.writelines(f"{_check_id(query_id, path)} 0 {_check_id(item, path)} 1\n" for item in sorted(items))


def read_run(path: Path) -> list[Ranking]:
    """The rankings of a run file, hits best first. Raises InputError with file and line, also for an item twice."""
    found: dict[str, list[tuple[str, float]]] = {}
    seen: set[str] = set()
    for number, (query_id, _, item, _, score, _) in _lines(path, 6):
        _check_new(f"{query_id} {item}", seen, f"{path}:{number}:")
        try:
            value = float(score)
        except ValueError as error:
            raise InputError(f"{path}:{number}: wanted a score in column 5, found {score!r}") from error
        if not math.isfinite(value):
            raise InputError(f"{path}:{number}: wanted a finite score in column 5, found {score!r}")
        found.setdefault(query_id, []).append((item, value))
    return [Ranking(query_id, tuple(sorted(hits, key=lambda hit: -hit[1]))) for query_id, hits in found.items()]


def read_qrels(path: Path) -> dict[str, set[str]]:
    """{query_id: relevant items} (relevance above 0) of a qrels file. Raises InputError with file and line."""
    relevant: dict[str, set[str]] = {}
    for number, fields in _lines(path, 4):
        try:
            grade = int(fields[3])
        except ValueError as error:
            raise InputError(f"{path}:{number}: wanted a whole number in column 4, found {fields[3]!r}") from error
        relevant.setdefault(fields[0], set()).update([fields[2]] if grade > 0 else [])
    return relevant


def _lines(path: Path, columns: int) -> Iterable[tuple[int, list[str]]]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            fields = line.split()
            if len(fields) != columns:
                raise InputError(f"{path}:{number}: wanted {columns} columns, found {len(fields)}")
            yield number, fields


def _check_id(name: str, path: Path) -> str:
    if not name or name.split() != [name]:
        raise InputError(f"{path}: wanted an id without spaces, found {name!r}: TREC files separate columns by spaces")
    return name
