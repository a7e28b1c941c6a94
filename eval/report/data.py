"""What the question browser of the report shows, as plain values: one entry a question, short names throughout."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.data_gen.records import EvalRecord
from tilewright.eval.analyses import mode_of
from tilewright.eval.evaluation import Evaluation
from tilewright.eval.first_ranks import first_ranks
from tilewright.eval.metrics import RowResult
from tilewright.eval.parts import Question, Retriever

SAID_CHARACTERS = 2_000


def browser_data(evaluation: Evaluation, shown_hits: int) -> dict[str, Any]:
    """``questions`` with what each retriever found (first ``shown_hits``) and each cell said; ``titles``: of pages."""
    workshop = evaluation.registry.workshop
    retrievers = {name: evaluation.registry.retriever(name) for name in evaluation.searches}
    ranks = {name: _ranks(workshop.questions, evaluation.results[name], one) for name, one in retrievers.items()}
    records = {cell.name: {record.query_id: record for record in mine} for cell, mine in evaluation.records.items()}
    questions = []
    for number, question in enumerate(workshop.questions):
        found = {
            name: _found(question, evaluation.results[name], one, ranks[name][number], shown_hits)
            for name, one in retrievers.items()
            if not one.closed_book
        }
        said = {name: _said(mine[question.query_id]) for name, mine in records.items() if question.query_id in mine}
        gold = [tile for tile in sorted(question.gold_tiles) if tile in workshop.pool.page_of]
        questions.append(
            {
                "id": question.query_id,
                "q": question.query,
                "a": list(question.answers),
                "gold": gold,
                "pages": sorted(question.gold_pages & workshop.titles.keys()),
                "kinds": list(question.kinds),
                "found": found,
                "said": said,
            }
        )
    return {
        "retrievers": [name for name, one in retrievers.items() if not one.closed_book],
        "cells": [cell.name for cell in evaluation.records],
        "titles": dict(workshop.titles),
        "questions": questions,
    }


def _ranks(questions: Sequence[Question], result: RowResult, retriever: Retriever) -> list[int]:
    ids = [question.query_id for question in questions]
    page_of = retriever.page_of
    hits = {name: [(page_of[item], score) for item, score in found] for name, found in result.hits.items()}
    return [int(rank) for rank in first_ranks(ids, hits, {q.query_id: q.gold_pages for q in questions})]


def _found(question: Question, result: RowResult, retriever: Retriever, rank: int, shown_hits: int) -> dict[str, Any]:
    name = question.query_id
    if name in result.errors:
        return {"error": result.errors[name]}
    holding = (result.evidence or {}).get(name, ())
    hits = []
    for place, (item_id, score) in enumerate(result.hits[name][:shown_hits]):
        item = retriever.item(item_id)
        hits.append(
            {
                "id": item_id,
                "page": item.page_id,
                "score": round(score, 4),
                "right": "tile"
                if item_id in question.gold_tiles
                else "page"
                if item.page_id in question.gold_pages
                else "",
                "holds": bool(holding[place]) if place < len(holding) else False,
                "text": "" if item.picture is not None else item.text[:400],
            }
        )
    return {"rank": rank, "evidence": next((n for n, held in enumerate(holding, start=1) if held), 0), "hits": hits}


def _said(record: EvalRecord) -> dict[str, Any]:
    given = [
        {
            "id": item.item_id,
            "source": item.source,
            "tokens": item.tokens,
            "px": list(item.size_px),
            "c": item.compression,
            "text": item.text,
        }
        for item in record.given
    ]
    return {
        "mode": mode_of(record).value,
        "verdict": record.verdict,
        "said": (record.prediction or "")[:SAID_CHARACTERS],
        "error": record.error,
        "scores": dict(record.scores),
        "tokens": [record.input_tokens, record.output_tokens],
        "flags": list(record.flags),
        "given": given,
    }


def as_script(data: Mapping[str, Any]) -> str:
    """``data`` as JSON that can't end the element it stands in, whatever texts hold."""
    text = json.dumps(data, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    escaped = text.replace("&", "\\u0026").replace("<", "\\u003c").replace(">", "\\u003e")
    return escaped.replace("\u2028", "\\u2028").replace("\u2029", "\\u2029").encode("utf-8", "replace").decode("utf-8")
