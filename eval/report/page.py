"""The report as one HTML file: no network, only our own script runs, every text from data is escaped or set as text."""

import base64
import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.eval.metrics import LEVELS, STRING
from tilewright.eval.report import analysis_tables
from tilewright.eval.report.data import as_script
from tilewright.eval.report.judged_table import judged_tables
from tilewright.eval.report.markup import Markup, join, tag, void
from tilewright.eval.report.plots import Line, line_chart
from tilewright.eval.report.seed_tables import seed_tables
from tilewright.eval.report.tables import difference_table, facts_table, measures_table, reader_table, recall_table
from tilewright.eval.wording import learning_sentence, pixel_sentence, plain, pool_sentence, ran

_HERE = Path(__file__).parent


def render(metrics: Mapping[str, Any], data: Mapping[str, Any], figures: Sequence[Markup]) -> str:
    """The whole file. ``data``: of the question browser, with its pictures; ``figures``: curves of training runs."""
    sections = [
        _head(metrics),
        tag("h2", "Retrieval"),
        *[recall_table(metrics, level) for level in (*LEVELS, STRING)],
        tag("p", _RECALL_NOTE, class_="note"),
        *[difference_table(metrics, level) for level in (*LEVELS, STRING)],
        *judged_tables(metrics),
        tag("h2", "Readers"),
        *_readers(metrics),
        *seed_tables(metrics),
        tag("h2", "Curves"),
        tag("div", *_plots(metrics), *figures, class_="plots"),
        tag("h2", "Analyses"),
        *analysis_tables.tables(metrics),
        tag("h2", f"{len(data['questions'])} questions"),
        _browser(),
        tag("h2", "Where this comes from"),
        *_provenance(metrics),
    ]
    script = "\n" + (_HERE / "report.js").read_text(encoding="utf-8")
    scripts = [
        tag("script", Markup(as_script(data)), type="application/json", id="data"),
        tag("script", Markup(script)),
    ]
    return _file("Tilewright evaluation", sections, scripts, _policy(script))


def plain_page(title: str, sections: Sequence[Markup]) -> str:
    """A whole file in the report's style, without scripts."""
    return _file(title, [tag("h1", title), *sections], (), _policy(""))


def _file(title: str, sections: Sequence[Markup], scripts: Sequence[Markup], policy: str) -> str:
    style = (_HERE / "style.css").read_text(encoding="utf-8")
    head = [
        void("meta", charset="utf-8"),
        void("meta", http_equiv="Content-Security-Policy", content=policy),
        void("meta", name="viewport", content="width=device-width, initial-scale=1"),
        void("meta", name="referrer", content="no-referrer"),
        void("link", rel="icon", href="data:,"),
        tag("title", title),
        tag("style", Markup(style)),
    ]
    body = [tag("main", *[Markup(f"{section}\n") for section in sections]), *scripts]
    return (
        f'<!doctype html>\n<html lang="en">\n<head>\n{join(head, chr(10))}\n</head>\n<body>\n{join(body, chr(10))}\n'
        "</body>\n</html>\n"
    )


def _policy(script: str) -> str:
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
    return (
        f"default-src 'none'; img-src data: 'self' file:; style-src 'unsafe-inline'; script-src 'sha256-{digest}';"
        " base-uri 'none'; form-action 'none'; require-trusted-types-for 'script'; trusted-types 'none'"
    )


_RECALL_NOTE = (
    "Recall@k by page: a gold page is among the pages of the first k items (k tiles of one page are k items). By tile:"
    " the gold tile is. evidence_recall_string: an item holds an answer as a string, a stand-in for a judge. MRR: mean"
    " of 1 / rank of the first right item. Intervals resample gold pages (cluster bootstrap), because questions of one"
    " page are not independent; where all questions agree, a Wilson interval with one trial a page stands instead."
    " Chance is an exact expectation of a random ranking, with each gold page's own number of items; a retriever of"
    " chunks has its own, which its row names."
)


def _head(metrics: Mapping[str, Any]) -> Markup:
    parts = [tag("h1", "Tilewright evaluation"), tag("p", pool_sentence(metrics))]
    pixels = pixel_sentence(metrics)
    if pixels:
        parts.append(tag("p", pixels))
    if metrics["stand_ins"]:
        lines = tag("ul", *[tag("li", line) for line in metrics["stand_ins"]])
        warning = tag("p", tag("strong", "These figures come from stand-ins."))
        parts.append(tag("div", warning, lines, class_="honest", role="note"))
    learned = learning_sentence(metrics)
    if learned:
        parts.append(tag("p", tag("strong", "Learning check. "), learned, class_="learned"))
    return join(parts)


def _readers(metrics: Mapping[str, Any]) -> list[Markup]:
    if not metrics["readers"]:
        return [tag("p", "No reader was evaluated.", class_="note")]
    asked = metrics["settings"]["read_questions"] or metrics["questions"]["n_questions"]
    note = (
        f"{min(asked, metrics['questions']['n_questions'])} of {metrics['questions']['n_questions']} questions, chosen"
        " by digest of their ids. Compression c scales each side by 1/√c. An error is no wrong answer: it is counted"
        f" apart and left out of the accuracy. Verdicts are by {metrics['graders']['deciding']}; exact match and judges"
        " never share a column."
    )
    note_below = tag("p", note, class_="note")
    differences = analysis_tables.answer_difference_table(metrics)
    return [reader_table(metrics), note_below, measures_table(metrics), differences]


def _plots(metrics: Mapping[str, Any]) -> list[Markup]:
    """Recall by k, a line a retriever; accuracy by input tokens, a line for cells that differ in k alone."""
    ks = metrics["settings"]["ks"]
    rows = {name: row for name, row in metrics["rows"].items() if ran(row)}
    lines = [
        Line(
            name,
            [
                (float(k), row["page"][f"recall@{k}"]["value"])
                for k in ks
                if row["page"][f"recall@{k}"]["value"] is not None
            ],
        )
        for name, row in rows.items()
        if "page" in row
    ]
    plots = [line_chart("Recall@k by page", lines, "k", "recall", 1.0)]
    points: dict[str, list[tuple[float, float]]] = {}
    for point in metrics["analyses"]["token_sweep"]:
        if point["accuracy"] is not None:
            points.setdefault(point["line"], []).append((point["tokens"], point["accuracy"]))
    if points:
        sweep = [Line(name, sorted(values)) for name, values in points.items()]
        plots.append(line_chart("Accuracy by input tokens", sweep, "input tokens a question", "accuracy", 1.0))
    return plots


def _browser() -> Markup:
    """Filters, list and detail: report.js fills them."""

    def choice(name: str, label: str) -> Markup:
        return tag("label", label, tag("select", id=name))

    filters = tag(
        "div",
        tag("label", "Search ", void("input", id="search", type="search")),
        choice("row", "Row "),
        choice("mode", "Outcome "),
        choice("kind", "Evidence "),
        choice("other", "Compared with "),
        choice("difference", "Difference "),
        class_="filters",
    )
    keys = "j and k, or the arrow keys in the list, go from question to question; / goes to the search."
    side = tag(
        "div",
        tag("p", id="count", class_="note", aria_live="polite"),
        tag("ul", id="list", role="listbox", tabindex=0, aria_label="Questions"),
        tag("button", "Show more", id="more", type="button"),
        class_="side",
    )
    return join(
        [
            tag("p", _PICTURE_NOTE, " ", keys, class_="note"),
            tag("p", id="cut", class_="note"),
            filters,
            tag("div", side, tag("article", id="detail", aria_live="polite"), class_="browser"),
        ]
    )


_PICTURE_NOTE = (
    "Green: the gold tile. Amber: another item of the gold page (right by page). Red: another page. Click a picture to"
    " enlarge it, click elsewhere to close it."
)


def _provenance(metrics: Mapping[str, Any]) -> list[Markup]:
    settings = [(name, plain(value)) for name, value in metrics["settings"].items()]
    rows = [
        (name, "; ".join(f"{key.replace('_', ' ')} {plain(value)}" for key, value in row["facts"].items()))
        for name, row in metrics["rows"].items()
        if row.get("facts")
    ]
    stages = [(stage["stage"], f"{stage['identity']}: {plain(stage['counts'])}") for stage in metrics["provenance"]]
    parts = [facts_table(settings, "Settings"), facts_table(rows, "Rows")]
    outside = metrics["questions"]["gold_outside_listed"]
    if outside:
        parts.append(
            facts_table([("query_id", ", ".join(outside))], "Questions whose gold is not among what is searched")
        )
    return [*parts, facts_table(stages, "Stages before this one: request identity and counts")] if stages else parts
