"""Pairs that an evaluation set must not meet in training: about its gold pages, or (nearly) its own questions."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.data_gen.pair_files import is_unicode
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.set_similarity import SimilarSets
from tilewright.data_gen.shingles import shingles
from tilewright.data_gen.urls import canonical_url, page_id

GOLD_PAGE, NEAR_DUPLICATE = "gold_page", "near_duplicate_question"
_QUESTION_KEYS, _URL_KEYS = ("query", "question"), ("gold_urls", "url", "urls")


@dataclass(frozen=True)
class EvaluationSet:
    """Questions in the order of their file; ``gold`` maps a gold page's id to its canonical URL."""

    name: str
    questions: tuple[str, ...]
    gold: Mapping[str, str]


@dataclass(frozen=True)
class Contamination:
    """Why a pair isn't kept: ``matched`` is a gold URL (similarity 1) or the most similar question of the set."""

    query_id: str
    query: str
    page_id: str
    source_type: str
    reason: str
    evaluation_set: str
    matched: str
    similarity: float


def read_evaluation_sets(paths: Sequence[Path]) -> list[EvaluationSet]:
    """One set a JSONL file, called after the file (as much of its path as tells the files apart).

    A line holds a question as ``query`` or ``question``; gold pages as ``gold_urls``, ``url`` or ``urls`` (one or a
    list, or none). A byte-order mark and blank lines are skipped. Raises InputError, with file and line, for
    anything else, and for a file without a question.
    """
    return [_read(path, name) for path, name in zip(paths, _names(paths), strict=True)]


def contaminations(
    pairs: Sequence[QAPair], sets: Iterable[EvaluationSet], urls: Mapping[str, str], *, width: int, threshold: float
) -> Iterator[Contamination]:
    """Every reason why one of ``sets`` forbids a pair, in the order of sets, then of pairs, gold pages first.

    ``urls``: {page_id: address} of the pages known. Questions match whose ``width``-shingles have a Jaccard
    similarity of ``threshold`` or more.
    """
    shingled = [shingles(pair.query, width) for pair in pairs]
    places = {page: page_place(gold_address(url)) for page, url in urls.items()}
    for found in sets:
        gold = {page_place(address): address for address in found.gold.values()}
        similar = SimilarSets([shingles(question, width) for question in found.questions], threshold)
        for pair, own in zip(pairs, shingled, strict=True):
            address = found.gold.get(pair.page_id) or gold.get(places.get(pair.page_id))
            report = _reporter(pair, found.name)
            if address is not None:
                yield report(GOLD_PAGE, address, 1.0)
            match = similar.best(own)
            if match is not None:
                yield report(NEAR_DUPLICATE, found.questions[match[0]], match[1])


def gold_pages(sets: Iterable[EvaluationSet], urls: Mapping[str, str], pages: Iterable[str]) -> set[str]:
    """Those of ``pages`` that are a gold page of one of ``sets``, by id or by canonical URL, scheme aside."""
    ids: set[str] = set()
    places: set[str | None] = set()
    for found in sets:
        ids |= found.gold.keys()
        places |= {page_place(address) for address in found.gold.values()}
    return {page for page in pages if page in ids or page_place(gold_address(urls.get(page, ""))) in places}


def contamination_counts(found: Sequence[Contamination], sets: Sequence[EvaluationSet]) -> dict[str, Any]:
    """Pairs dropped by reason (a gold page's first), and by reason and kind; what each set holds and forbids."""
    first: dict[str, Contamination] = {}
    for entry in sorted(found, key=lambda entry: entry.reason != GOLD_PAGE):
        first.setdefault(entry.query_id, entry)
    by_kind = {
        reason: Counter(entry.source_type for entry in first.values() if entry.reason == reason)
        for reason in (GOLD_PAGE, NEAR_DUPLICATE)
    }
    matched = Counter((entry.evaluation_set, entry.reason) for entry in found)
    return {
        **{f"dropped_evaluation_{reason}": kinds.total() for reason, kinds in by_kind.items()},
        "dropped_evaluation_by_type": {reason: dict(sorted(kinds.items())) for reason, kinds in by_kind.items()},
        "evaluation_sets": {
            one.name: {
                "questions": len(one.questions),
                "gold_pages": len(one.gold),
                **{reason: matched[one.name, reason] for reason in (GOLD_PAGE, NEAR_DUPLICATE)},
            }
            for one in sets
        },
    }


def gold_address(url: str) -> str | None:
    """The canonical URL; None for what is no absolute address, which no gold URL can equal."""
    try:
        return canonical_url(url)
    except InputError:
        return None


def page_place(address: str | None) -> str | None:
    """What two spellings of a page's canonical URL share: all but ``http`` or ``https`` and a slash at the end."""
    return None if address is None else address.partition("://")[2].rstrip("/")


def _reporter(pair: QAPair, name: str) -> Callable[[str, str, float], Contamination]:
    def report(reason: str, matched: str, similarity: float) -> Contamination:
        return Contamination(
            pair.query_id, pair.query, pair.page_id, pair.source_type, reason, name, matched, similarity
        )

    return report


def _names(paths: Sequence[Path]) -> list[str]:
    """The shortest ends of the paths that differ: ``nq.jsonl``, or ``nq/test.jsonl`` beside ``qa/test.jsonl``."""
    if len({path.resolve() for path in paths}) < len(paths):
        raise InputError(f"evaluation_sets: the same file stands twice: {[path.name for path in paths]}")
    depth = 1
    while len({path.parts[-depth:] for path in paths}) < len(paths):
        depth += 1
    return ["/".join(path.parts[-depth:]) for path in paths]


def _read(path: Path, name: str) -> EvaluationSet:
    if not path.is_file():
        raise InputError(f"{path} is missing: wanted a JSONL file of evaluation questions")
    questions: list[str] = []
    gold: dict[str, str] = {}
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            line = line.removeprefix(b"\xef\xbb\xbf") if number == 1 else line
            if line.strip():
                question, urls = _parse(line, f"{path}:{number}")
                questions.append(question)
                gold |= {page_id(url): canonical_url(url) for url in urls}
    if not questions:
        raise InputError(f"{path}: wanted at least one evaluation question, found an empty file")
    return EvaluationSet(name, tuple(questions), gold)


def _parse(line: bytes, where: str) -> tuple[str, list[str]]:
    try:
        data = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON in UTF-8 ({error})") from error
    if not isinstance(data, dict):
        raise InputError(f"{where}: wanted a JSON object, found {type(data).__name__}")
    question = next((data[key] for key in _QUESTION_KEYS if data.get(key) is not None), None)
    if not isinstance(question, str) or not question.strip() or not is_unicode(question):
        raise InputError(f"{where}: wanted a question under one of {list(_QUESTION_KEYS)}, found {question!r}")
    urls: list[str] = []
    for key in _URL_KEYS:
        value = data.get(key)
        listed = [] if value is None else value if isinstance(value, list) else [value]
        for url in listed:
            if not isinstance(url, str) or not is_unicode(url):
                raise InputError(f"{where}: {key}: wanted URLs, found {url!r}")
            if not url.strip():
                continue
            try:
                urls.append(canonical_url(url))
            except InputError as error:
                raise InputError(f"{where}: {key}: {error}") from error
    return question, urls
