"""The questions of an evaluation: where they come from, what counts as right for each, and the pool of tiles."""

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.find_positives import Positives
from tilewright.data_gen.records import QAPair, read_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of
from tilewright.data_gen.urls import page_id
from tilewright.eval.benchmarks.question import EvalQuestion
from tilewright.eval.gold_coverage import Redirects, gold_coverage
from tilewright.eval.parts import Question

KINDS = ("infobox", "table", "list", "paragraph")  # ties go to the first
OTHER = "other"
QUESTIONS = "questions.jsonl"


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


def pair_questions(pairs: Iterable[QAPair]) -> list[Question]:
    """The questions of pairs, whose gold are page and tile."""
    return [Question.of(pair) for pair in pairs]


def benchmark_questions(path: Path) -> list[Question]:
    """The questions of a folder of make_questions, or of its questions.jsonl.

    Raises InputError for none, an id that stands twice, or a picture that isn't there.
    """
    file = path / QUESTIONS if path.is_dir() else path
    found = read_jsonl(file, EvalQuestion, unique="query_id")
    if not found:
        raise InputError(f"{file}: holds no questions")
    return [_of_benchmark(question, _picture(file, question)) for question in found]


def _of_benchmark(question: EvalQuestion, picture: bytes) -> Question:
    pages = tuple(map(page_id, question.gold_urls))
    return Question(
        query_id=question.query_id,
        query=question.query,
        answers=(question.answer, *question.aliases),
        gold_pages=frozenset(pages),
        gold_urls=question.gold_urls,
        options=question.options,
        answer_parts=question.answer_parts,
        picture=picture,
        cluster=min(pages, default=f"question {question.query_id}"),
    )


def _picture(file: Path, question: EvalQuestion) -> bytes:
    if not question.image:
        return b""
    folder = file.parent.resolve()
    place = (folder / question.image).resolve()
    if not place.is_relative_to(folder) or not place.is_file():
        raise InputError(f"{file}: {question.query_id}: wanted a picture beside the file, found {question.image!r}")
    return place.read_bytes()


def widened(
    questions: Sequence[Question], urls: Mapping[str, str], redirects: Path | None, positives: Path | None = None
) -> list[Question]:
    """The questions with every page of the corpus that ``redirects`` (a JSON table) says is one of their gold pages,
    and with the further tiles and pages of ``positives`` (of find_positives).

    ``urls``: {page_id: URL} of the corpus. Page ids stay what they are.
    """
    asked = {
        question.query_id: question.gold_urls or [urls[page] for page in question.gold_pages if page in urls]
        for question in questions
    }
    table = Redirects() if redirects is None else Redirects.read(redirects)
    found = gold_coverage(asked, urls, table).gold_pages
    known = [replace(question, gold_pages=question.gold_pages | found[question.query_id]) for question in questions]
    return known if positives is None else with_positives(known, positives)


def with_positives(questions: Sequence[Question], path: Path) -> list[Question]:
    """The questions with the further tiles that answer them, and these tiles' pages, by a file of find_positives.

    Raises InputError for a question that the file doesn't know: it was made for other pairs.
    """
    known = {one.query_id: sorted(one.tile_ids) for one in read_jsonl(path, Positives, unique="query_id")}
    unknown = next((question.query_id for question in questions if question.query_id not in known), None)
    if unknown is not None:
        raise InputError(f"{path}: {unknown}: wanted the known positives of every question, found no such query")
    return [
        replace(
            question,
            gold_tiles=question.gold_tiles.union(known[question.query_id]),
            gold_pages=question.gold_pages.union(map(page_of, known[question.query_id])),
        )
        for question in questions
    ]


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
