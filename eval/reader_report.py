"""The report of a reader's grid: one HTML file without scripts, and its main table as Markdown."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.eval import report
from tilewright.eval.metrics import COMPLETE
from tilewright.eval.reader_metrics import ABSTAINS, points_of
from tilewright.eval.report.markdown_tables import pipe_table
from tilewright.eval.report.markup import Markup, join, table, tag, void
from tilewright.eval.report.plots import Line, line_chart
from tilewright.eval.report.tables import accuracy, difference_cell, facts_table
from tilewright.eval.wording import NONE, interval, percent, plain

Metrics = Mapping[str, Any]
_POLICY = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_NOTE = (
    "Compression c scales each side by 1/√c. Accuracy is over examples that show their gold tile; abstention and false"
    " answers are over those that don't. An error is no answer: it is counted apart and in no figure. A false answer is"
    " any but a blank one and the one that says that the tiles don't show it. Exact or alias match and a judge never"
    " share a column. Tokens are means a question, over all that were answered. Intervals resample gold pages, or are"
    " Wilson's where each question has a page of its own. Guessing scores about nothing: answers are free text."
)


def render(metrics: Metrics) -> str:
    """The whole file; every text from data is escaped."""
    style = (Path(report.__file__).parent / "style.css").read_text(encoding="utf-8")
    head = [
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=_POLICY),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("link", rel="icon", href="data:,"),
        tag("title", "Tilewright: readers by compression"),
        tag("style", Markup(style)),
    ]
    sections = [
        tag("h1", "Readers by compression and tiles shown"),
        tag("p", _counts(metrics)),
        _stand_ins(metrics),
        tag("div", *_plots(metrics), class_="plots"),
        tag("h2", "Accuracy"),
        _accuracy_table(metrics),
        tag("p", _NOTE, class_="note"),
        tag("h2", "Where the gold tile is absent"),
        _absent_table(metrics),
        tag("h2", "By position of the gold tile"),
        *[_position_table(metrics, k) for k in metrics["settings"]["ks"]],
        tag("h2", "Differences"),
        _difference_table(metrics),
        facts_table(list(metrics["readers"].items()), "Readers"),
        facts_table([(name, plain(value)) for name, value in metrics["settings"].items()], "Settings"),
    ]
    body = tag("main", *[Markup(f"{section}\n") for section in sections])
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{join(head, chr(10))}\n</head>\n<body>\n{body}\n</body>\n</html>\n'
    )


def by_name(metrics: Metrics) -> dict[str, Markup]:
    """The grid's tables; one without rows is empty."""
    return {
        "grid": _accuracy_table(metrics),
        "gold_absent": _absent_table(metrics),
        "gold_position": join(_position_table(metrics, k) for k in metrics["settings"]["ks"]),
        "grid_differences": _difference_table(metrics) if metrics["differences"] else Markup(""),
    }


def markdown(metrics: Metrics) -> str:
    """The grid for a paper or a README: one line a cell."""
    columns = metrics["graders"]["columns"]
    head = ["reader", "c", "k", *columns, "abstains, gold absent", "false answers", "tokens", "errors"]
    rows = []
    for entry in metrics["grid"]:
        figures = [entry["shown"]["accuracy"][name] for name in columns]
        figures += [entry["absent"]["abstained"], entry["absent"]["false_answers"]]
        cells = [f"{percent(figure['value'])} {interval(figure)}" for figure in figures]
        place = [entry["reader"], f"{entry['compression']:g}", str(entry["k"])]
        rows.append([*place, *cells, _mean(entry["tokens"]["input"]), str(entry["n_errors"])])
    return pipe_table(head, rows)


def _mean(value: float | None) -> str:
    return NONE if value is None else f"{value:.1f}"


def _counts(metrics: Metrics) -> str:
    said = f"{metrics['n_examples']} examples."
    fewer = {k: number for k, number in metrics["fewer_tiles"].items() if number}
    if fewer:
        left = ", ".join(f"{number} at k = {k}" for k, number in fewer.items())
        said += f" Left out for showing fewer tiles than k: {left}."
    return said


def _stand_ins(metrics: Metrics) -> Markup:
    if not metrics["stand_ins"]:
        return Markup("")
    lines = tag("ul", *[tag("li", line) for line in metrics["stand_ins"]])
    return tag(
        "div", tag("p", tag("strong", "These figures come from stand-ins.")), lines, class_="honest", role="note"
    )


def _plots(metrics: Metrics) -> list[Markup]:
    """Accuracy against tokens with the Pareto front, and accuracy by compression: a line a reader and k."""
    deciding = metrics["graders"]["deciding"]
    points = points_of(metrics["grid"], deciding)
    by_tokens: dict[str, list[tuple[float, float]]] = {}
    by_compression: dict[str, list[tuple[float, float]]] = {}
    for entry in metrics["grid"]:
        if entry["name"] in points:
            name, (tokens, value) = f"{entry['reader']}, k = {entry['k']}", points[entry["name"]]
            by_tokens.setdefault(name, []).append((tokens, value))
            by_compression.setdefault(name, []).append((entry["compression"], value))
    sweep = [Line(name, sorted(values)) for name, values in by_tokens.items()]
    sweep.append(Line("Pareto front", [points[name] for name in metrics["pareto"]], dashed=True))
    curves = [Line(name, sorted(values)) for name, values in by_compression.items()]
    share = f"accuracy ({deciding})"
    return [
        line_chart("Accuracy against tokens", sweep, "input tokens a question", share, 1.0),
        line_chart("Accuracy by compression", curves, "compression c", share, 1.0),
    ]


def _place(entry: Metrics) -> list[object]:
    status = "" if entry["status"] == COMPLETE else tag("span", entry["status"].upper(), class_="warn")
    return [join([tag("b", entry["reader"]), status], " "), f"{entry['compression']:g}", entry["k"]]


def _accuracy_table(metrics: Metrics) -> Markup:
    columns = metrics["graders"]["columns"]
    rows = []
    for entry in metrics["grid"]:
        shown, tokens = entry["shown"], entry["tokens"]
        cells = [accuracy(shown["accuracy"][name]) for name in columns]
        counts = [shown["n_questions"], entry["n_errors"]]
        cost = [_mean(tokens[kind]) for kind in ("visual", "text_in", "out")]
        best = "yes" if entry["name"] in metrics["pareto"] else ""
        rows.append([*_place(entry), *cells, accuracy(shown["abstained"]), *counts, *cost, best])
    head = ["Reader", "c", "k", *[f"Accuracy: {name}" for name in columns], "Abstains all the same", "Questions"]
    head += ["Errors", "Visual tokens", "Text tokens in", "Tokens out", "On the Pareto front"]
    return table(head, rows, "The gold tile is shown: accuracy in percent, and mean tokens a question")


def _absent_table(metrics: Metrics) -> Markup:
    rows = [
        [
            *_place(entry),
            accuracy(entry["absent"]["abstained"]),
            accuracy(entry["absent"]["false_answers"]),
            *[entry["absent"][name] for name in ("n_false_but_gold", "n_blank", "n_questions")],
            entry["absent"]["abstained"]["n_errors"],
        ]
        for entry in metrics["grid"]
    ]
    head = ["Reader", "c", "k", "Abstains", "False answers", "of them the gold answer", "Blank", "Questions", "Errors"]
    return table(head, rows, "The gold tile is absent: percent, and counts")


def _position_table(metrics: Metrics, k: int) -> Markup:
    rows = [
        [*_place(entry)[:2], *[_with_count(figure) for figure in entry["shown"]["by_gold_position"]]]
        for entry in metrics["grid"]
        if entry["k"] == k
    ]
    head = ["Reader", "c", *[f"tile {position + 1} of {k}" for position in range(k)]]
    return table(head, rows, f"Accuracy ({metrics['graders']['deciding']}) by position of the gold tile, percent")


def _with_count(figure: Metrics) -> Markup:
    return join([accuracy(figure), tag("small", f"n = {figure['n_questions']}")], " ")


def _difference_table(metrics: Metrics) -> Markup:
    names = [*metrics["graders"]["columns"], ABSTAINS]
    rows = [
        [
            f"{pair['reader']} − {pair['against']}, paired",
            f"{pair['compression']:g}",
            pair["k"],
            *[difference_cell(pair[name]) for name in names],
        ]
        for pair in metrics["differences"]
    ]
    if not rows:
        return tag("p", "No readers were compared.", class_="note")
    head = ["Readers", "c", "k", *metrics["graders"]["columns"], "Abstains, gold absent"]
    return table(head, rows, "Paired differences, points; p-values by Holm's method within a column")
