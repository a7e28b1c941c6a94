"""The files of retrieval: TREC runs, qrels by tile and by page, one record a question and row."""

from collections.abc import Mapping, Sequence
from pathlib import Path

from tilewright.data_gen.records import EvalRecord, QAPair, Ranking, write_jsonl
from tilewright.eval.metrics import RowResult
from tilewright.eval.questions import Pool, relevant_tiles
from tilewright.eval.trec import write_qrels, write_run


def write_rankings(
    out: Path,
    pairs: Sequence[QAPair],
    pool: Pool,
    urls: Mapping[str, str],
    results: Mapping[str, RowResult],
    depth: int,
) -> None:
    """Write runs/{row}.trec, records/{row}.jsonl, qrels_tiles.trec and qrels_pages.trec below ``out``.

    Both qrels judge tiles, so that they fit the same runs: by page, every tile of the gold page is relevant, and
    Success@k of standard tools is our Recall@k by page.
    """
    (out / "runs").mkdir(exist_ok=True)
    (out / "records").mkdir(exist_ok=True)
    write_qrels(out / "qrels_tiles.trec", relevant_tiles(pairs))
    write_qrels(out / "qrels_pages.trec", {pair.query_id: _tiles_of_gold_page(pair, pool) for pair in pairs})
    for name, result in results.items():
        rankings = [
            Ranking(pair.query_id, tuple(result.hits[pair.query_id][:depth]))
            for pair in pairs
            if pair.query_id in result.hits
        ]
        write_run(out / "runs" / f"{name}.trec", rankings, name)
        records = [retrieval_record(name, pair, result, urls, depth) for pair in pairs]
        write_jsonl(out / "records" / f"{name}.jsonl", records)


def _tiles_of_gold_page(pair: QAPair, pool: Pool) -> Sequence[str]:
    """The pool's tiles of the gold page; for a page outside the pool its gold tile, which no row can find."""
    return pool.tiles_of.get(pair.page_id, (pair.tile_id,) if pair.page_id and pair.tile_id else ())


def retrieval_record(row: str, pair: QAPair, result: RowResult, urls: Mapping[str, str], depth: int) -> EvalRecord:
    """The record of one question under a row without a reader."""
    return EvalRecord(
        row=row,
        query_id=pair.query_id,
        query=pair.query,
        answers=(pair.answer, *pair.aliases),
        gold_urls=gold_urls(pair, urls),
        gold_tile_ids=(pair.tile_id,) if pair.tile_id else (),
        hits=tuple((tile, float(score)) for tile, score in result.hits.get(pair.query_id, ())[:depth]),
        reader_tile_ids=(),
        compression=1.0,
        input_tokens=0,
        visual_tokens=0,
        output_tokens=0,
        prediction=None,
        verdict=None,
        error=result.errors.get(pair.query_id),
    )


def gold_urls(pair: QAPair, urls: Mapping[str, str]) -> tuple[str, ...]:
    """The URL of a question's gold page, if the pool holds that page. ``urls``: {page_id: url}."""
    return (urls[pair.page_id],) if pair.page_id in urls else ()
