"""The tables of the report: rows x recall with intervals and chance, readers, where everything came from."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.eval.report.markup import Markup, join, table, tag
from tilewright.eval.wording import (
    LEVEL_WORDS,
    NONE,
    difference_interval,
    interval,
    measure_title,
    measures,
    not_above_chance,
    percent,
    points,
    ran,
    row_status,
)

Metrics = Mapping[str, Any]


def recall_table(metrics: Metrics, level: str) -> Markup:
    """Every row's recall and MRR at one level; then a random ranking; then paired differences."""
    names = measures(metrics)
    rows: list[Sequence[object]] = []
    for name, row in metrics["rows"].items():
        if not ran(row):
            rows.append([_row_title(name, row), *[NONE] * (len(names) + 2)])
            continue
        first = row[level][names[0]]
        cells = [_cell(row[level][measure]) for measure in names]
        rows.append([_row_title(name, row), *cells, first["n_questions"], first["n_pages"]])
    chance = metrics["chance"][level]
    rows.append(["random ranking (chance)", *[percent(chance[name]) for name in names], NONE, NONE])
    for pair in metrics["differences"]:
        cells = [_difference(pair[level][name]) for name in names]
        first = pair[level][names[0]]
        rows.append([f"{pair['row']} − {pair['against']}, paired", *cells, first["n_questions"], first["n_pages"]])
    titles = [measure_title(name, metrics) for name in names]
    return table(["Row", *titles, "Questions", "Pages"], rows, f"Retrieval {LEVEL_WORDS[level]}, percent")


def _row_title(name: str, row: Metrics) -> Markup:
    status = row_status(row)
    warning = tag("span", status, class_="warn") if status else ""
    return join([tag("b", name), tag("small", row["title"]), warning], " ")


def _cell(estimate: Metrics) -> Markup:
    """Value, interval and, where it is so, that the interval doesn't lie above chance."""
    parts: list[object] = [tag("b", percent(estimate["value"])), tag("small", interval(estimate))]
    if not_above_chance(estimate):
        parts.append(tag("small", "not above chance", class_="chance"))
    return join(parts, " ")


def _difference(estimate: Metrics) -> Markup:
    if estimate["value"] is None:
        return tag("b", NONE)
    return join([tag("b", points(estimate["value"])), tag("small", difference_interval(estimate))], " ")


def reader_table(metrics: Metrics) -> Markup:
    """Accuracy and token costs of each reader at each compression."""
    rows = []
    for row in metrics["readers"]:
        status = "" if row["status"] == "complete" else tag("span", row["status"].upper(), class_="warn")
        tokens = row["tokens"]
        rows.append(
            [
                join([tag("b", row["reader"]), status], " "),
                row["given"],
                f"{row['compression']:g}×",
                _accuracy(row["exact"]),
                _accuracy(row["alias"]),
                row["n_questions"],
                row["n_pages"],
                row["n_errors"],
                *[NONE if tokens[kind] is None else f"{tokens[kind]:.1f}" for kind in ("visual", "text_in", "out")],
            ]
        )
    head = ["Reader", "Given", "Compression", "Exact match", "With aliases", "Questions", "Pages", "Errors"]
    head += ["Visual tokens", "Text tokens in", "Tokens out"]
    return table(head, rows, "Reader accuracy in percent, and mean tokens a question", numbers_from=2)


def _accuracy(estimate: Metrics) -> Markup:
    return join([tag("b", percent(estimate["value"])), tag("small", interval(estimate))], " ")


def cost_table(metrics: Metrics) -> Markup:
    """What the first hit of each row costs a reader, as it would be delivered."""
    rows = [[name, cost["as"], f"{cost['tokens']:.1f}"] for name, costs in metrics["costs"].items() for cost in costs]
    return table(["Row", "Delivered as", "Tokens"], rows, "Mean tokens of a question's first hit", numbers_from=2)


def facts_table(facts: Sequence[tuple[str, object]], caption: str) -> Markup:
    """Name and value, two columns."""
    return table(["", "Value"], facts, caption, numbers_from=9)
