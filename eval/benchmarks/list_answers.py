"""MoNaCo and ASQA: answers that are lists; every item is wanted.

MoNaCo (Wolfson et al. 2025, https://huggingface.co/datasets/allenai/MoNaCo_Benchmark):
``monaco_version_1_release.jsonl``. ASQA (Stelmakh et al. 2022,
https://github.com/google-research/language/tree/master/language/asqa#format): ``ASQA.json``, an object of splits, each
{id: instance}, the rows of ``datasets`` (din0s/asqa), and HtmlRAG's ``asqa-test.jsonl``.
"""

from collections.abc import Iterator
from typing import Any

from tilewright.eval.benchmarks.addresses import gold_urls, title_urls
from tilewright.eval.benchmarks.fields import Fields
from tilewright.eval.benchmarks.question import Dropped, EvalQuestion, Read, distinct

SEPARATOR = "; "  # between the items of an answer that is written as one text


def parse_monaco(row: Fields) -> Iterator[Read | Dropped]:
    """The release names no gold pages. True and false are yes and no; a row of a table is one item."""
    value = row.plain("validated_answer") if row.has("validated_answer") else []
    items = distinct(map(_written, value if isinstance(value, (list, tuple)) else [value]))
    if not items:
        yield Dropped("no_answer")
        return
    parts = tuple((item,) for item in items) if len(items) > 1 else ()
    query_id = f"monaco-{row.text('ex_num')}"
    yield Read(
        EvalQuestion(query_id, row.text("question"), SEPARATOR.join(items), (), (), "monaco", answer_parts=parts)
    )


def _written(value: Any) -> str:
    if isinstance(value, bool):
        return "Yes" if value else "No"
    if isinstance(value, (list, tuple)):
        return " ".join(_written(item) for item in value)
    return "" if value is None else str(value)


def parse_asqa(row: Fields) -> Iterator[Read | Dropped]:
    """Each disambiguated answer is a part, with its spellings; gold pages are those the annotators visited."""
    parts = [distinct(pair.texts("short_answers")) for pair in row.rows("qa_pairs")]
    parts = [part for part in parts if part]
    if not parts:
        yield Dropped("no_answer")
        return
    visited = [page.optional("url") for page in row.rows("wikipages")] if row.has("wikipages") else []
    urls, unusable = gold_urls(visited)
    titles = title_urls(pair.optional("wikipage") for pair in row.rows("qa_pairs"))
    question = EvalQuestion(
        f"asqa-{row.text('sample_id', 'id')}",
        row.text("ambiguous_question", "question"),
        SEPARATOR.join(part[0] for part in parts),
        (),
        tuple(dict.fromkeys([*urls, *titles])),
        "asqa",
        answer_parts=tuple(parts),
    )
    yield Read(question, unusable_urls=unusable)
