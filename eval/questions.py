"""The questions of an evaluation: where they come from, what counts as right for each, and the pool of tiles."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.data_gen.urls import canonical_url, page_id
from tilewright.eval.parts import Question

KINDS = ("infobox", "table", "list", "paragraph")  # ties go to the first
OTHER = "other"


@dataclass(frozen=True)
class Pool:
    """The P tiles that every row searches: ``page_of`` {tile_id: page_id}, ``tiles_of`` {page_id: its tile_ids}."""

    page_of: dict[str, str]
    tiles_of: dict[str, tuple[str, ...]]

    @classmethod
    def of(cls, store: TileStore) -> "Pool":
        """The tiles of ``store``. Raises InputError if it is empty."""
        pages = {tile_id: page_of(tile_id) for tile_id in store.tile_ids}
        if not pages:
            raise InputError(f"{store.folder}: holds no tiles: there is nothing to search")
        tiles_of: dict[str, list[str]] = {}
        for tile_id, page in pages.items():
            tiles_of.setdefault(page, []).append(tile_id)
        return cls(pages, {page: tuple(tiles) for page, tiles in tiles_of.items()})

    def __len__(self) -> int:
        return len(self.page_of)


class Redirects:
    """Addresses that mean the same page, from a JSON object {address: address it leads to}; chains are followed.

    They widen what counts as found; page ids stay what they are.
    """

    def __init__(self, table: Mapping[str, str]) -> None:
        """Raises InputError for an address that isn't one, or a circle."""
        self._target = {canonical_url(source): canonical_url(target) for source, target in table.items()}
        groups: dict[str, set[str]] = {}
        for source in self._target:
            end = self._end(source)
            groups.setdefault(end, {end}).add(source)
        self._same = {page_id(url): frozenset(map(page_id, group)) for group in groups.values() for url in group}

    @classmethod
    def read(cls, path: Path | None) -> "Redirects":
        """The table of a file; an empty one for None. Raises InputError for a file that holds none."""
        if path is None:
            return cls({})
        try:
            table = json.loads(path.read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise InputError(f"{path}: wanted a JSON object of addresses, found none ({error})") from error
        if not isinstance(table, dict) or not all(isinstance(value, str) for value in table.values()):
            raise InputError(f"{path}: wanted a JSON object {{address: address}}, found {str(table)[:80]}")
        return cls(table)

    def _end(self, url: str) -> str:
        seen = {url}
        while url in self._target:
            url = self._target[url]
            if url in seen:
                raise InputError(f"redirects: {url} leads back to itself")
            seen.add(url)
        return url

    def widen(self, question: Question) -> Question:
        """The question with every page that means one of its gold pages, and pages of its gold URLs."""
        pages = question.gold_pages | {page_id(url) for url in question.gold_urls}
        return replace(question, gold_pages=pages.union(*[self._same.get(page, frozenset()) for page in pages]))


def pair_questions(pairs: Iterable[QAPair], redirects: Redirects) -> list[Question]:
    """The questions of pairs, whose gold are page and tile."""
    return [redirects.widen(Question.of(pair)) for pair in pairs]


def with_kinds(questions: Iterable[Question], kinds_of: Mapping[str, Mapping[str, int]]) -> list[Question]:
    """The questions with the kind of evidence of each of their gold tiles; ``kinds_of``: {tile_id: {kind: px²}}."""
    return [
        replace(
            question,
            kinds=tuple(sorted({evidence_kind(kinds_of[tile]) for tile in question.gold_tiles if tile in kinds_of})),
        )
        for question in questions
    ]


def evidence_kind(covered_px: Mapping[str, int]) -> str:
    """The kind of evidence that covers most of a tile, ties to the first of KINDS; ``other`` where none covers any."""
    best = max(KINDS, key=lambda kind: covered_px.get(kind, 0))
    return best if covered_px.get(best, 0) > 0 else OTHER


def clusters(questions: Sequence[Question]) -> list[str]:
    """What the bootstrap resamples: each question's gold page, or the question itself where it names none."""
    return [question.cluster or f"question {question.query_id}" for question in questions]


def gold_outside(questions: Sequence[Question], pool: Pool) -> list[str]:
    """query_ids whose gold tiles or pages aren't in the pool: they can only be missed. InputError if that is all."""
    outside = [
        question.query_id
        for question in questions
        if (question.gold_tiles and not question.gold_tiles & pool.page_of.keys())
        or (question.gold_pages and not question.gold_pages & pool.tiles_of.keys())
    ]
    if len(outside) == len(questions):
        first = questions[0]
        raise InputError(
            f"none of the {len(questions)} questions has its gold tile among the {len(pool)} tiles (first:"
            f" {first.query_id!r} wants {sorted(first.gold_tiles or first.gold_pages)}): do `pairs` and `tiles` come"
            " from the same run?"
        )
    return outside


def subset(questions: Sequence[Question], count: int, seed: int, purpose: str) -> list[Question]:
    """``count`` of the questions (all if there are fewer), chosen by digest of their ids, in their own order."""

    def digest(question: Question) -> bytes:
        return hashlib.sha256(f"{purpose}/{seed}/{question.query_id}".encode("utf-8", "surrogatepass")).digest()

    chosen = {question.query_id for question in sorted(questions, key=digest)[:count]}
    return [question for question in questions if question.query_id in chosen]
