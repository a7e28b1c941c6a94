"""The table of evidence recall by a judge, beside that by string: two columns, never one."""

from collections.abc import Mapping
from typing import Any

from tilewright.eval.metrics import JUDGED, STRING
from tilewright.eval.report.markup import Markup, join, table, tag
from tilewright.eval.report.tables import accuracy, difference_cell
from tilewright.eval.wording import NONE, row_status

Metrics = Mapping[str, Any]


def judged_tables(metrics: Metrics) -> list[Markup]:
    """Every judged row's recall and counts, and paired differences; empty where no judge was asked."""
    rows = {name: row for name, row in metrics["rows"].items() if JUDGED in row}
    if not rows:
        return []
    names = list(dict.fromkeys(name for row in rows.values() for name in row[JUDGED]))
    lines = [[_title(name, row), *_figures(row, names), *_counts(row["evidence_judge"])] for name, row in rows.items()]
    head = ["Row"]
    for name in names:
        head += [f"{_ks(name)} judged", f"{_ks(name)} by string"]
    head += ["Questions", "Undecided", "Verdicts", "Errors", "Unparsed"]
    by = next(iter(rows.values()))["evidence_judge"]
    caption = (
        f"{JUDGED}: an item among the first k yields the right answer, as judged by {by['by']} on the first"
        f" {by['depth']} hits, percent. Undecided: questions of which it isn't known whether one of those hits does,"
        " for want of a verdict. A question counts in no figure that hangs on a missing verdict: that figure says its n"
    )
    return [table(head, lines, caption), *_differences(metrics, names)]


def _title(name: str, row: Metrics) -> object:
    status = row_status(row)
    return Markup(f"{tag('b', name)} {tag('span', status, class_='warn')}") if status else tag("b", name)


def _ks(name: str) -> str:
    return name.replace("recall", "Recall")


def _figures(row: Metrics, names: list[str]) -> list[object]:
    cells: list[object] = []
    for name in names:
        string = row.get(STRING, {}).get(name)
        judged, asked = row[JUDGED][name], row["evidence_judge"]["n_questions"]
        counted = tag("small", f"n = {judged['n_questions']}") if judged["n_questions"] < asked else Markup("")
        cells += [join([accuracy(judged), counted], " "), NONE if string is None else accuracy(string)]
    return cells


def _counts(judge: Metrics) -> list[object]:
    return [judge[name] for name in ("n_questions", "n_undecided", "n_verdicts", "n_errors", "n_unparsed")]


def _differences(metrics: Metrics, names: list[str]) -> list[Markup]:
    rows = [
        [f"{pair['row']} − {pair['against']}, paired", *[difference_cell(pair[JUDGED][name]) for name in names]]
        for pair in metrics["differences"]
        if JUDGED in pair
    ]
    titles = [_ks(name) for name in names]
    return [table(["Rows", *titles], rows, f"Paired differences of {JUDGED}, points")] if rows else []
