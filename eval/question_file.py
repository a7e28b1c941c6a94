"""Questions that make_questions wrote, as an evaluation takes them: gold pages of a corpus, pictures in memory."""

import functools
from collections.abc import Mapping
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import read_jsonl
from tilewright.data_gen.urls import page_id
from tilewright.eval.benchmarks.question import EvalQuestion
from tilewright.eval.gold_coverage import GoldCoverage, Redirects, gold_coverage
from tilewright.eval.make_questions import QUESTIONS
from tilewright.eval.parts import Question


def read_questions(
    path: Path, pages: Mapping[str, str], redirects: Redirects | None = None
) -> tuple[list[Question], GoldCoverage]:
    """(questions in the order of the file; what of their gold is in the corpus) of a folder of make_questions, or its
    questions.jsonl. ``pages``: {page_id: URL} of the corpus.

    Gold pages outside the corpus stay among a question's: it then counts as missed, not as without gold. Questions are
    clustered by their first gold page. Raises InputError for a broken line, an id that stands twice, a picture that is
    gone.
    """
    file = path / QUESTIONS if path.is_dir() else path
    if not file.is_file():
        raise InputError(f"{file} is missing: wanted the questions that make_questions wrote")
    found = read_jsonl(file, EvalQuestion, unique="query_id")
    coverage = gold_coverage({question.query_id: question.gold_urls for question in found}, pages, redirects)
    outside: dict[str, set[str]] = {}
    for query_id, url in coverage.outside:
        outside.setdefault(query_id, set()).add(page_id(url))
    picture = functools.cache(lambda name: _picture(file.parent, name))
    questions = [
        Question(
            query_id=question.query_id,
            query=question.query,
            answers=(question.answer, *question.aliases),
            gold_pages=coverage.gold_pages[question.query_id] | outside.get(question.query_id, set()),
            gold_urls=question.gold_urls,
            options=question.options,
            answer_parts=question.answer_parts,
            picture=picture(question.image) if question.image else b"",
            cluster=page_id(question.gold_urls[0]) if question.gold_urls else f"question {question.query_id}",
        )
        for question in found
    ]
    return questions, coverage


def _picture(folder: Path, name: str) -> bytes:
    """The bytes of a file in ``folder``. Raises InputError for one outside it or gone."""
    path = (folder / name).resolve()
    if not path.is_relative_to(folder.resolve()) or not path.is_file():
        raise InputError(f"{folder}: wanted the query picture {name!r} in it, found none")
    return path.read_bytes()
