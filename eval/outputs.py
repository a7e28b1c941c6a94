"""The files of retrieval: TREC runs, qrels by tile and by page, one record a question and row, judged evidence."""

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.data_gen.records import EvalRecord, Ranking, write_jsonl
from tilewright.eval.metrics import RowResult
from tilewright.eval.parts import Question
from tilewright.eval.questions import Pool
from tilewright.eval.reading import retrieved
from tilewright.eval.trec import write_qrels, write_run

RUNS, RECORDS, EVIDENCE = "runs", "records", "evidence"


def write_rankings(
    out: Path,
    questions: Sequence[Question],
    pool: Pool,
    urls: Mapping[str, str],
    results: Mapping[str, RowResult],
) -> None:
    """Write runs/{row}.trec, records/{row}.jsonl, qrels_tiles.trec and qrels_pages.trec below ``out``; of judged rows
    also evidence/{row}.jsonl: by rank whether a hit is evidence (null: no verdict), down to the first that is.

    Both qrels judge items, so that they fit the same runs: by page, every item (tile or chunk) of a gold page is
    relevant, and Success@k of standard tools is our Recall@k by page.
    """
    (out / RUNS).mkdir(exist_ok=True)
    (out / RECORDS).mkdir(exist_ok=True)
    write_qrels(out / "qrels_tiles.trec", {question.query_id: question.gold_tiles for question in questions})
    items = _items_of_pages(pool, results)
    write_qrels(
        out / "qrels_pages.trec", {question.query_id: _right_by_page(question, items) for question in questions}
    )
    for name, result in results.items():
        rankings = [
            Ranking(question.query_id, tuple(result.hits[question.query_id]))
            for question in questions
            if question.query_id in result.hits
        ]
        write_run(out / RUNS / f"{name}.trec", rankings, name)
        write_jsonl(out / RECORDS / f"{name}.jsonl", [_record(name, each, result, urls) for each in questions])
        if result.judged is not None:
            (out / EVIDENCE).mkdir(exist_ok=True)
            lines = [json.dumps({"query_id": key, "held": held}) for key, held in result.judged.held.items()]
            (out / EVIDENCE / f"{name}.jsonl").write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")


def _items_of_pages(pool: Pool, results: Mapping[str, RowResult]) -> dict[str, set[str]]:
    """{page_id: items of any row}."""
    items = {page: set(tiles) for page, tiles in pool.tiles_of.items()}
    for result in results.values():
        for item, page in (result.page_of or {}).items():
            items.setdefault(page, set()).add(item)
    return items


def _right_by_page(question: Question, items: Mapping[str, set[str]]) -> set[str]:
    """The items of the gold pages; for pages outside the pool the gold tiles, which no row can find."""
    found = set[str]().union(*[items.get(page, set()) for page in question.gold_pages])
    return found or (set(question.gold_tiles) if question.gold_pages else set())


def _record(row: str, question: Question, result: RowResult, urls: Mapping[str, str]) -> EvalRecord:
    """The record of one question under a row without a reader."""
    return EvalRecord(**retrieved(row, question, result, urls), error=result.errors.get(question.query_id))
