"""The main tables of the report: rows x recall with intervals and chance, paired differences, readers."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.eval.metrics import NOT_RUN
from tilewright.eval.report.markup import Markup, join, table, tag
from tilewright.eval.wording import (
    LEVEL_WORDS,
    NONE,
    difference_interval,
    interval,
    measure_title,
    measures,
    not_above_chance,
    p_value,
    percent,
    points,
    row_status,
)

Metrics = Mapping[str, Any]


def recall_table(metrics: Metrics, level: str) -> Markup:
    """Every row's recall and MRR at one level, and a random ranking of the tiles."""
    names = measures(metrics)
    rows: list[Sequence[object]] = []
    for name, row in metrics["rows"].items():
        if level not in row:
            rows.append([_row_title(name, row), *[NONE] * (len(names) + 2)])
            continue
        first = row[level][names[0]]
        cells = [_cell(row[level][measure]) for measure in names]
        rows.append([_row_title(name, row), *cells, first["n_questions"], first["n_pages"]])
    chance = metrics["chance"].get(level)
    if chance:
        rows.append(["random ranking of the tiles (chance)", *[percent(chance[name]) for name in names], NONE, NONE])
    titles = [measure_title(name, metrics) for name in names]
    return table(["Row", *titles, "Questions", "Pages"], rows, f"Retrieval {LEVEL_WORDS[level]}, percent")


def difference_table(metrics: Metrics, level: str) -> Markup:
    """Paired differences of rows at one level; empty without any."""
    names = measures(metrics)
    rows = [
        [
            f"{pair['row']} − {pair['against']}, paired",
            *[difference_cell(pair[level][name]) for name in names],
            pair[level][names[0]]["n_questions"],
        ]
        for pair in metrics["differences"]
        if level in pair
    ]
    if not rows:
        return Markup("")
    titles = [measure_title(name, metrics) for name in names]
    return table(["Rows", *titles, "Questions"], rows, f"Paired differences {LEVEL_WORDS[level]}, points")


def _row_title(name: str, row: Metrics) -> Markup:
    status = row_status(row)
    warning = tag("span", status, class_="warn") if status else ""
    return join([tag("b", name), tag("small", row.get("title", "")), warning], " ")


def _cell(estimate: Metrics) -> Markup:
    """Value, interval and, where it is so, that the interval doesn't lie above chance."""
    parts: list[object] = [tag("b", percent(estimate["value"])), tag("small", interval(estimate))]
    if not_above_chance(estimate):
        parts.append(tag("small", "not above chance", class_="chance"))
    return join(parts, " ")


def difference_cell(estimate: Metrics) -> Markup:
    """A paired difference: points, interval, questions gained and lost, corrected p-value."""
    if estimate["value"] is None:
        return tag("b", NONE)
    counts = f"+{estimate['gained']} −{estimate['lost']}"
    p = estimate.get("p_holm")
    said = counts if p is None else f"{counts}, {p_value(p)} (Holm)"
    parts = [tag("b", points(estimate["value"])), tag("small", difference_interval(estimate)), tag("small", said)]
    return join(parts, " ")


def reader_table(metrics: Metrics) -> Markup:
    """Accuracy by every grader and token costs of each cell."""
    graders = metrics["graders"]["columns"]
    rows = []
    for row in metrics["readers"]:
        if row["status"] == NOT_RUN:
            warning = tag("span", f"not run: {row['reason']}", class_="warn")
            rows.append([join([tag("b", row["name"]), warning], " "), *[NONE] * (len(graders) + 9)])
            continue
        status = row_status(row | {"tiles_failed": 0})
        warning = tag("span", status, class_="warn") if status else Markup("")
        tokens = row["tokens"]
        rows.append(
            [
                join([tag("b", row["reader"]), warning], " "),
                row["retriever"],
                row["delivery"],
                row["k"],
                *[accuracy(row["accuracy"][name]) for name in graders],
                row["n_graded"],
                row["n_pages"],
                row["n_errors"],
                *[NONE if tokens[kind] is None else f"{tokens[kind]:.1f}" for kind in ("visual", "text_in", "out")],
            ]
        )
    head = ["Reader", "Retriever", "Delivery", "k", *[f"Accuracy: {name}" for name in graders]]
    head += ["Graded", "Pages", "Errors", "Visual tokens", "Text tokens in", "Tokens out"]
    return table(head, rows, "Reader accuracy in percent, and mean tokens a question", numbers_from=3)


def measures_table(metrics: Metrics) -> Markup:
    """Means of what deliveries and agents measure of themselves; empty without any."""
    measured = [row for row in metrics["readers"] if row.get("delivery_measures")]
    names = list(dict.fromkeys(name for row in measured for name in row["delivery_measures"]))
    if not names:
        return Markup("")
    rows = []
    for row in measured:
        found = row["delivery_measures"]
        cells = [f"{found[name]['value']:.4g}" if _has_value(found.get(name)) else NONE for name in names]
        rows.append([tag("b", row["name"]), *cells])
    titles = [name.replace("_", " ") for name in names]
    return table(["Row", *titles], rows, "What deliveries and agents measure, mean a question")


def _has_value(estimate: Metrics | None) -> bool:
    return estimate is not None and estimate["value"] is not None


def accuracy(estimate: Metrics) -> Markup:
    """Percent with its interval."""
    return join([tag("b", percent(estimate["value"])), tag("small", interval(estimate))], " ")


def facts_table(facts: Sequence[tuple[str, object]], caption: str) -> Markup:
    """Name and value, two columns."""
    return table(["", "Value"], facts, caption, numbers_from=9)
