"""HtmlRAG's test sets of HotpotQA and ASQA, from local files: questions, each with the web pages found for it.

Published (arXiv 2411.02959) as ``hotpot-qa-test.jsonl`` and ``asqa-test.jsonl`` (400 lines each) in its repository, and
with pages as ``binghtml-slimplmqr-*-test.jsonl`` in the data set zstanjj/HtmlRAG-test: the same rows and a list
``slimplmqr_results`` of objects with ``html`` and, where it is known, ``url`` and ``title``.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.eval.benchmarks.fields import Fields
from tilewright.eval.benchmarks.question import distinct
from tilewright.eval.benchmarks.rows import read_rows
from tilewright.eval.parts import Question

RESULTS = "_results"  # what the field with pages ends in; before it stands the name of the query rewriter


@dataclass(frozen=True)
class WebPage:
    """A page found for a question. ``page_id``: {query_id}-{rank}."""

    page_id: str
    url: str
    html: str


@dataclass(frozen=True)
class HtmlQuestion:
    """A question and the pages found for it, in the search engine's order; blank pages are left out."""

    question: Question
    pages: tuple[WebPage, ...]
    blank_pages: int


def read_htmlrag(paths: Sequence[Path]) -> Iterator[HtmlQuestion]:
    """The questions of files. Raises InputError for rows of another schema or without pages, or an id given twice."""
    seen: set[str] = set()
    for row in read_rows(paths, None):
        found = _question(row)
        if found.question.query_id in seen:
            raise InputError(f"{row.where}: id {found.question.query_id!r} is given twice")
        seen.add(found.question.query_id)
        yield found


def _question(row: Fields) -> HtmlQuestion:
    query_id, answers = row.text("id"), _answers(row)
    if not answers:
        raise InputError(f"{row.where}: wanted an answer, found none")
    question = Question(query_id, row.text("question"), answers, cluster=f"question {query_id}")
    results = _results(row)
    pages = [
        WebPage(f"{query_id}-{rank:02d}", result.optional("url"), result.optional("html"))
        for rank, result in enumerate(results)
    ]
    kept = tuple(page for page in pages if page.html)
    return HtmlQuestion(question, kept, len(pages) - len(kept))


def _answers(row: Fields) -> tuple[str, ...]:
    """Short answers: ASQA's of all readings, HotpotQA's one and those of its outputs; ASQA's ``answer`` is an essay."""
    if row.has("qa_pairs"):
        return distinct(text for pair in row.rows("qa_pairs") for text in pair.texts("short_answers"))
    outputs = list(row.rows("output")) if row.has("output") else []
    return distinct([row.optional("answer"), *(output.optional("answer") for output in outputs)])


def _results(row: Fields) -> list[Fields]:
    names = [name for name in row.data if str(name).endswith(RESULTS)]
    if len(names) != 1:
        raise InputError(
            f"{row.where}: wanted one field of pages whose name ends in {RESULTS!r}, found {names}: the files with"
            " pages are binghtml-*.jsonl of the data set zstanjj/HtmlRAG-test"
        )
    return list(row.rows(names[0]))
