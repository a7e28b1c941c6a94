"""From an evaluation's results to report.html: which questions are shown, with which hits, pictures and curves."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.configs.stage import write_atomically
from tilewright.data_gen.records import EvalRecord, QAPair
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.verdicts import Verdict
from tilewright.eval.metrics import Hits, RowResult
from tilewright.eval.questions import Pool
from tilewright.eval.readers import Cell
from tilewright.eval.report.markup import Markup
from tilewright.eval.report.page import ShownHit, ShownQuestion, render
from tilewright.eval.report.pictures import data_urls

PICTURE_BYTES = 8_000_000


def write_report(
    path: Path,
    metrics: Mapping[str, Any],
    shown: Sequence[ShownQuestion],
    figures: Sequence[Markup],
    store: TileStore,
) -> None:
    """Write the report with the pictures of all tiles that ``shown`` names; the file stays below 10 MB."""
    uses = [hit.tile_id for question in shown for hits in question.hits.values() for hit in hits]
    uses += [question.pair.tile_id for question in shown if question.gold_in_pool]
    pictures = data_urls(store, uses, budget_bytes=PICTURE_BYTES)
    write_atomically(path, render(metrics, shown, figures, pictures))


def shown_question(
    pair: QAPair,
    pool: Pool,
    titles: Mapping[str, str],
    results: Mapping[str, RowResult],
    answers: Mapping[Cell, EvalRecord],
    *,
    pictured: int,
) -> ShownQuestion:
    """What the report shows of a question: the first ``pictured`` hits of each row that finds by pictures.

    ``titles``: {page_id: title}; ``answers``: the question's record in each reader cell.
    """
    found = {name: result.hits[pair.query_id] for name, result in results.items() if pair.query_id in result.hits}
    by_picture = [name for name in found if results[name].texts is None]
    return ShownQuestion(
        pair=pair,
        gold_title=titles.get(pair.page_id, ""),
        gold_in_pool=pair.tile_id in pool.page_of,
        hits={name: [_shown_hit(hit, pool, titles) for hit in found[name][:pictured]] for name in by_picture},
        ranks={name: _ranks(hits, pair, pool) for name, hits in found.items()},
        answers=[_said(cell, record) for cell, record in answers.items()],
    )


def _shown_hit(hit: tuple[str, float], pool: Pool, titles: Mapping[str, str]) -> ShownHit:
    page = pool.page_of[hit[0]]
    return ShownHit(hit[0], page, titles.get(page, page), hit[1])


def _ranks(hits: Hits, pair: QAPair, pool: Pool) -> tuple[int | None, int | None]:
    pages = [pool.page_of[tile] for tile, _ in hits]
    tiles = [tile for tile, _ in hits]
    return _rank(pages, pair.page_id), _rank(tiles, pair.tile_id)


def _rank(items: Sequence[str], wanted: str) -> int | None:
    return items.index(wanted) + 1 if wanted in items else None


def _said(cell: Cell, record: EvalRecord) -> tuple[str, str, bool | None]:
    name = f"{cell.reader}, given {cell.given}, {cell.compression:g}×"
    if record.error is not None:
        return name, record.error, None
    return name, record.prediction or "", record.verdict == Verdict.CORRECT
