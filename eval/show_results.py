"""Print the results of an evaluation, or two beside one another: ``python -m tilewright.eval.show_results FOLDER``."""

import json
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from tilewright.configs.errors import InputError, UserError
from tilewright.eval.compare_runs import compare_runs
from tilewright.eval.metrics import COMPLETE, LEVELS, NOT_RUN
from tilewright.eval.wording import (
    LEVEL_WORDS,
    NONE,
    difference_interval,
    interval,
    learning_sentence,
    measure_title,
    measures,
    not_above_chance,
    p_value,
    percent,
    pixel_sentence,
    points,
    pool_sentence,
    ran,
    row_status,
)

NOT_ABOVE = "≈"


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
    console.print(escape(" ".join(filter(None, [pool_sentence(metrics), pixel_sentence(metrics)]))))
    for level in LEVELS:
        console.print(_recall_table(metrics, level))
    for name, row in metrics["rows"].items():
        status = f" [bold red]{escape(row_status(row))}[/]" if row_status(row) else ""
        console.print(f"  [bold]{escape(name)}[/] {escape(row['title'])}{status}")
    if metrics["readers"]:
        console.print(_reader_table(metrics))
    learned = learning_sentence(metrics)
    if learned:
        console.print(f"[bold]Learning check.[/] {escape(learned)}")
    console.print(
        f"Percent, with {100 * metrics['settings']['confidence']:.0f} % intervals (gold pages resampled)."
        f" {NOT_ABOVE}: the interval does not lie above a random ranking. Where all questions agree (0 or 100), a"
        " Wilson interval with one trial a page stands instead."
    )
    if report is not None:
        console.print(f"Report: {escape(str(report))}", soft_wrap=True)


def _recall_table(metrics: Mapping[str, Any], level: str) -> Table:
    names = measures(metrics)
    table = Table(title=f"Retrieval {LEVEL_WORDS[level]}", title_justify="left", show_lines=True, padding=0)
    table.add_column("row", no_wrap=True)
    for name in names:
        table.add_column(measure_title(name, metrics), justify="right", no_wrap=True)
    for name, row in metrics["rows"].items():
        if not ran(row):
            table.add_row(f"{escape(name)}\nnot run", *[NONE] * len(names))
            continue
        if level not in row:
            table.add_row(escape(name), *[NONE] * len(names))
            continue
        cells = [_cell(row[level][name]) for name in names]
        table.add_row(f"{escape(name)}\nn = {row[level][names[0]]['n_questions']}", *cells)
    table.add_row("chance", *[percent(metrics["chance"][level][name]) for name in names])
    for pair in (found for found in metrics["differences"] if level in found):
        cells = [f"{points(pair[level][name]['value'])}\n{interval(pair[level][name], signed=True)}" for name in names]
        table.add_row(escape(f"{pair['row']}\n− {pair['against']}"), *map(escape, cells))
    return table


def _cell(estimate: Mapping[str, Any]) -> str:
    mark = f" {NOT_ABOVE}" if not_above_chance(estimate) else ""
    return escape(f"{percent(estimate['value'])}{mark}\n{interval(estimate)}")


def _reader_table(metrics: Mapping[str, Any]) -> Table:
    """A line for each cell: accuracy by the grader that decides, and input tokens."""
    deciding = metrics["graders"]["deciding"]
    table = Table(title=f"Reader accuracy by {deciding}", title_justify="left", show_lines=True, padding=0)
    table.add_column("row", overflow="fold")
    for name in ("accuracy", "graded", "tokens in"):
        table.add_column(name, justify="right", no_wrap=True)
    for cell in metrics["readers"]:
        if cell["status"] == NOT_RUN:
            table.add_row(escape(f"{cell['name']}\nnot run: {cell['reason']}"), NONE, NONE, NONE)
            continue
        status = "" if cell["status"] == COMPLETE else f"\n{cell['status'].upper()}, {cell['n_errors']} errors"
        estimate, tokens = cell["accuracy"][deciding], cell["tokens"]["input"]
        shown = f"{percent(estimate['value'])}\n{interval(estimate)}{status}"
        counted = f"{cell['n_graded']} of {cell['n_questions']}"
        table.add_row(escape(cell["name"]), escape(shown), counted, NONE if tokens is None else f"{tokens:.0f}")
    return table


def show(out: Path) -> None:
    """Print the results in ``out`` and the path of its report."""
    print_results(read_metrics(out), report=out / "report.html")


def show_comparison(left: Path, right: Path, console: Console | None = None) -> None:
    """Print paired differences, ``right`` minus ``left``, of every row that two runs share."""
    found = compare_runs(left, right, (read_metrics(left), read_metrics(right)))
    table = Table(title=f"{right} − {left}, paired", title_justify="left", padding=0)
    table.add_column("row and figure", overflow="fold")
    for name in ("A", "B", "B − A", "n", "+/−", "p (Holm)"):
        table.add_column(name, justify="right", no_wrap=True)
    for entry in found:
        p = p_value(entry["p_holm"])
        difference = f"{points(entry['value'])} {difference_interval(entry)}"
        counts = f"+{entry['gained']} −{entry['lost']}"
        sides = [percent(entry[side]) for side in ("left", "right")]
        table.add_row(
            escape(f"{entry['row']}: {entry['figure']}"),
            *sides,
            escape(difference),
            str(entry["n_questions"]),
            counts,
            p,
        )
    (console or Console()).print(table)


USAGE = "usage: python -m tilewright.eval.show_results FOLDER | --compare FOLDER_A FOLDER_B"


def run(arguments: Sequence[str]) -> None:
    """What the module does when it is run. Raises SystemExit for a wrong call, InputError for other folders."""
    if len(arguments) == 3 and arguments[0] == "--compare":
        show_comparison(Path(arguments[1]), Path(arguments[2]))
    elif len(arguments) == 1 and not arguments[0].startswith("-"):
        show(Path(arguments[0]))
    else:
        raise SystemExit(USAGE)


if __name__ == "__main__":
    try:
        run(sys.argv[1:])
    except UserError as error:
        raise SystemExit(f"show_results: error: {error}") from None
