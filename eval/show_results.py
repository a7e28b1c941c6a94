"""Print the results of an evaluation: ``python -m tilewright.eval.show_results FOLDER``."""

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tilewright.configs.errors import InputError, UserError
from tilewright.eval.metrics import LEVELS
from tilewright.eval.wording import (
    LEVEL_WORDS,
    NONE,
    above_chance,
    interval,
    learning_sentence,
    measure_title,
    measures,
    percent,
    points,
    pool_sentence,
    ran,
    row_status,
)


def read_metrics(folder: Path) -> dict[str, Any]:
    """metrics.json of an evaluation's output folder. Raises InputError if there is none or it can't be read."""
    path = folder / "metrics.json"
    try:
        metrics = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: not the result of an evaluation ({error}); run the stage evaluate first") from error
    if not isinstance(metrics, dict) or "rows" not in metrics:
        raise InputError(f"{path}: wanted the metrics of an evaluation, found no 'rows'")
    return metrics


def print_results(metrics: Mapping[str, Any], report: Path | None = None, console: Console | None = None) -> None:
    """Print the tables of ``metrics``, what they rest on, and where the report is."""
    console = console or Console()
    for line in metrics["stand_ins"]:
        console.print(f"[bold yellow]STAND-IN[/] {escape(line)}")
    console.print(escape(pool_sentence(metrics)))
    for level in LEVELS:
        console.print(_recall_table(metrics, level))
    if metrics["readers"]:
        console.print(_reader_table(metrics))
    learned = learning_sentence(metrics)
    if learned:
        console.print(f"[bold]Learning check.[/] {escape(learned)}")
    console.print(f"Percent, with {100 * metrics['settings']['confidence']:.0f} % intervals (pages resampled).")
    if report is not None:
        console.print(f"Report: {escape(str(report))}", soft_wrap=True)


def _recall_table(metrics: Mapping[str, Any], level: str) -> Table:
    names = measures(metrics)
    table = Table(title=f"Retrieval {LEVEL_WORDS[level]}", title_justify="left", row_styles=["", "dim"])
    table.add_column("row")
    table.add_column("n", justify="right")
    for name in names:
        table.add_column(measure_title(name, metrics), justify="right")
    for name, row in metrics["rows"].items():
        title = f"{name}\n{row['title']}" + (f"\n({row_status(row)})" if row_status(row) else "")
        if not ran(row):
            table.add_row(escape(title), "0", *[NONE] * len(names))
            continue
        cells = [
            f"{percent(row[level][name]['value'])}\n{interval(row[level][name])}"
            + ("" if above_chance(row[level][name]) else "\nnot above chance")
            for name in names
        ]
        table.add_row(escape(title), str(row[level][names[0]]["n_questions"]), *map(escape, cells))
    table.add_row("random ranking\n(chance)", "", *[percent(metrics["chance"][level][name]) for name in names])
    for pair in metrics["differences"]:
        cells = [f"{points(pair[level][name]['value'])}\n{interval(pair[level][name], signed=True)}" for name in names]
        title = f"{pair['row']} − {pair['against']}\n(paired, points)"
        table.add_row(escape(title), str(pair[level][names[0]]["n_questions"]), *map(escape, cells))
    return table


def _reader_table(metrics: Mapping[str, Any]) -> Table:
    table = Table(title="Reader accuracy", title_justify="left")
    for name in (
        "reader",
        "given",
        "compression",
        "n",
        "errors",
        "exact",
        "with aliases",
        "visual tokens",
        "text in/out",
    ):
        table.add_column(name, justify="left" if name in ("reader", "given") else "right")
    for row in metrics["readers"]:
        accuracy = [f"{percent(row[kind]['value'])} {interval(row[kind])}" for kind in ("exact", "alias")]
        tokens = row["tokens"]
        status = "" if row["status"] == "complete" else f" ({row['status'].upper()})"
        table.add_row(
            escape(row["reader"] + status),
            escape(row["given"]),
            f"{row['compression']:g}×",
            str(row["n_questions"]),
            str(row["n_errors"]),
            *map(escape, accuracy),
            _number(tokens["visual"]),
            f"{_number(tokens['text_in'])} / {_number(tokens['out'])}",
        )
    return table


def _number(value: float | None) -> str:
    return NONE if value is None else f"{value:.0f}"


def show(out: Path) -> None:
    """Print the results in ``out`` and the path of its report."""
    print_results(read_metrics(out), report=out / "report.html")


if __name__ == "__main__":
    try:
        if len(sys.argv) != 2:
            raise SystemExit("usage: python -m tilewright.eval.show_results FOLDER")
        show(Path(sys.argv[1]))
    except UserError as error:
        raise SystemExit(f"show_results: error: {error}") from None
