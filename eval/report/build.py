"""From an evaluation's results to report.html, the folder of pictures beside it, and the main table for papers."""

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol

from tilewright.configs.stage import write_atomically
from tilewright.eval.evaluation import Evaluation
from tilewright.eval.questions import subset
from tilewright.eval.report.curves import figures_of
from tilewright.eval.report.data import browser_data
from tilewright.eval.report.fitting import fitted
from tilewright.eval.report.page import render
from tilewright.eval.report.papers import latex_table, markdown_table
from tilewright.eval.report.pictures import data_urls, write_pictures
from tilewright.eval.sources import TrainingRun

PICTURE_BYTES, REPORT_BYTES = 20_000_000, 29_000_000
REPORT, PICTURES = "report.html", "report_pictures"


class Shown(Protocol):
    """What of evaluate.Config says how much a report shows."""

    @property
    def shown_questions(self) -> int: ...

    @property
    def shown_hits(self) -> int: ...

    @property
    def all_pictures(self) -> bool: ...

    @property
    def seed(self) -> int: ...


def write_report(
    out: Path, metrics: Mapping[str, Any], evaluation: Evaluation, runs: Sequence[TrainingRun], shown: Shown
) -> None:
    """Write report.html, table.md, table.tex and, with ``all_pictures``, report_pictures/.

    The pictures of a sample of questions stand in the file, as large as 20 MB allow; if need be, texts of other
    questions are cut, and then those of the sample, so that the file stays below 30 MB.
    """
    workshop = evaluation.registry.workshop
    data = browser_data(evaluation, shown.shown_hits)
    sample = {question.query_id for question in subset(workshop.questions, shown.shown_questions, shown.seed, "shown")}
    embedded = _tiles(question for question in data["questions"] if question["id"] in sample)
    embedded = [tile for tile in embedded if tile in workshop.pool.page_of]
    pictures = data_urls(workshop.store, embedded, budget_bytes=PICTURE_BYTES)
    data["files"], data["folder"], data["k"] = [], PICTURES, metrics["settings"]["ks"][-1]
    if shown.all_pictures:
        wanted = {tile for tile in _tiles(data["questions"]) if tile in workshop.pool.page_of}
        data["files"] = sorted(wanted - pictures.keys())
        write_pictures(workshop.store, data["files"], out / PICTURES)
    data = fitted(data, sample, REPORT_BYTES - sum(map(len, pictures.values()))) | {"pictures": pictures}
    figures = [figure for run in runs for figure in figures_of(run.title, run.curve, run.counts)]
    write_atomically(out / REPORT, render(metrics, data, figures))
    write_atomically(out / "table.md", markdown_table(metrics))
    write_atomically(out / "table.tex", latex_table(metrics))


def _tiles(questions: Iterable[Mapping[str, Any]]) -> list[str]:
    """Every item that these questions show, each once."""
    names: dict[str, None] = {}
    for question in questions:
        names |= dict.fromkeys(question["gold"])
        names |= dict.fromkeys(hit["id"] for found in question["found"].values() for hit in found.get("hits", ()))
        names |= dict.fromkeys(item["id"] for said in question["said"].values() for item in said["given"])
    return list(names)
