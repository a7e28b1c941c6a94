"""``tilewright precision``: the arguments and the table; numbers are worked out in ``precision``, imported when run."""

import argparse
import json
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.table import Table

    from tilewright.eval.precision import Marks, Precision

NONE = "-"


def add_parser(commands: "argparse._SubParsersAction[argparse.ArgumentParser]") -> None:
    """Add ``precision`` to the commands of the console script."""
    about = "marks of a review page -> precision of the kept pairs, share of wrongly dropped ones, with intervals"
    parser = commands.add_parser("precision", help=about, description=about)
    parser.add_argument("marks", nargs="+", type=Path, metavar="MARKS.jsonl", help="what a review page saved")
    parser.add_argument("--confidence", type=_confidence, default=0.95, metavar="SHARE", help="default: 0.95")
    parser.add_argument("--json", action="store_true", help="the numbers as JSON")
    parser.set_defaults(action=run_precision)


def _confidence(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not 0 < value < (1 + value) / 2 < 1:  # the second in floating point: closer to 1 no quantile is finite
        raise argparse.ArgumentTypeError(f"wanted a number between 0 and 1, found {text}")
    return value


def run_precision(options: argparse.Namespace) -> None:
    """What ``tilewright precision`` does. Raises InputError for a file that can't be used."""
    from tilewright.eval.precision import precision_by_outcome, read_marks

    marks = read_marks(*options.marks)
    found = precision_by_outcome(marks.marks, options.confidence)
    if options.json:
        print(json.dumps(_as_json(marks, found, options.confidence), indent=2, ensure_ascii=True, allow_nan=False))
        return
    from rich.console import Console

    console = Console()
    console.print(_table(found, options.confidence))
    for line in _remarks(marks, found):
        console.print(line, markup=False, highlight=False)


def _as_json(marks: "Marks", found: "dict[str, Precision]", confidence: float) -> dict[str, object]:
    return {
        "confidence": confidence,
        "marks": len(marks.marks),
        "replaced": marks.replaced,
        "changed": marks.changed,
        "samples": sorted({mark.sample for mark in marks.marks}),
        "outcomes": {name: asdict(precision) for name, precision in found.items()},
    }


def _table(found: "dict[str, Precision]", confidence: float) -> "Table":
    from rich.box import SIMPLE_HEAD
    from rich.table import Table
    from rich.text import Text

    table = Table(title="Pairs marked good, by outcome", title_justify="left", box=SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("outcome", overflow="fold")
    for name in ("good", "bad", "unsure", "pages", f"share good\n{100 * confidence:g} %", "if unsure\nare bad"):
        table.add_column(name, justify="right", no_wrap=True)
    table.add_column("if unsure\nare good", justify="right", no_wrap=True)
    for name, entry in found.items():
        shares = [(entry.share, entry.low, entry.high)]
        shares += [(of.value, of.low, of.high) for of in (entry.if_unsure_bad, entry.if_unsure_good)]
        counts = [str(number) for number in (entry.good, entry.bad, entry.unsure, entry.pages)]
        shown = "".join(char if char.isprintable() else "\ufffd" for char in name)
        table.add_row(Text(shown), *counts, *[_interval(*share) for share in shares])
    return table


def _interval(share: float | None, low: float | None, high: float | None) -> str:
    """In percent: ``93.8``, and below it ``86.0 to 97.3``."""
    if share is None:
        return NONE
    return f"{100 * share:.1f}" + ("" if low is None or high is None else f"\n{100 * low:.1f} to {100 * high:.1f}")


def _remarks(marks: "Marks", found: "dict[str, Precision]") -> Sequence[str]:
    """What the table rests on."""
    from tilewright.data_gen.pair_outcomes import KEPT

    lines = ["Percent of the pairs marked good or bad. Of dropped pairs it is the share that was wrongly dropped."]
    if set(found) == {KEPT}:
        lines = ["Percent of the pairs marked good or bad: the precision of what was kept."]
    lines.append("Interval: " + "; ".join(sorted({entry.method for entry in found.values()})) + ".")
    if marks.replaced:
        lines.append(
            f"{marks.replaced} earlier marks are of a query that is marked again later ({marks.changed} of them"
            " otherwise): the last one counts."
        )
    samples = len({mark.sample for mark in marks.marks})
    if samples > 1:
        lines.append(f"The marks are of {samples} samples.")
    return lines
