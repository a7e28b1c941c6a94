"""The tables of the analyses: failure modes, kinds of evidence, ranks, displacement, tokens, cost, latency."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.eval.analyses import Mode
from tilewright.eval.evidence.trace import STAGES
from tilewright.eval.report.markup import Markup, table, tag
from tilewright.eval.report.tables import accuracy, difference_cell
from tilewright.eval.wording import NONE, percent

Metrics = Mapping[str, Any]


def tables(metrics: Metrics) -> list[Markup]:
    """All of them; those without rows are left out."""
    shown = [made for made in by_name(metrics).values() if made]
    return [*shown, tag("section", _latency(metrics["latency"]), id="latency")]


def by_name(metrics: Metrics) -> dict[str, Markup]:
    """The tables that are the same for equal requests; one without rows is empty."""
    found = metrics["analyses"]
    return {
        "failure_modes": _modes(found["failure_modes"]),
        "accuracy_by_kind": _kinds(found["accuracy_by_kind"], "Accuracy by kind of evidence, percent"),
        "accuracy_by_source": _kinds(
            found["accuracy_by_source"], "Accuracy by the element that a question was made from, percent"
        ),
        "recall_by_kind": _recall_by_kind(found["recall_by_kind"]),
        "evidence_by_kind": _evidence_by(found["evidence_by_kind"], "kinds", "that covers most of the gold tile"),
        "evidence_by_source": _evidence_by(found["evidence_by_kind"], "sources", "that the question was made from"),
        "gold_ranks": _ranks(found["rank_of_gold_page"]),
        "displacement": _displacement(found["displacement"]),
        "evidence_trace": _traces(found["evidence_trace"]),
        "tokens": _tokens(metrics),
        "token_sweep": _sweep(found["token_sweep"]),
        "costs": _costs(found["costs"]),
    }


def _modes(found: Metrics) -> Markup:
    names = [mode.value for mode in Mode]
    rows = [[row, *[modes[name] for name in names], modes["n"], modes["scope"]] for row, modes in found.items()]
    caption = (
        "Failure modes, questions. parser: no hit holds the answer as a string; rank: one does, below what the reader"
        " got; reader: it was given and the answer is wrong"
    )
    return table(["Row", *names, "n", "Hits looked at"], rows, caption) if rows else Markup("")


def _kinds(found: Mapping[str, Metrics], caption: str) -> Markup:
    kinds = sorted({kind for figures in found.values() for kind in figures})
    rows = [[row, *[_share(figures.get(kind)) for kind in kinds]] for row, figures in found.items()]
    note = f"{caption}; a question of several kinds counts in each, so n does not sum to all"
    return table(["Row", *kinds], rows, note) if rows and kinds else Markup("")


def _recall_by_kind(found: Mapping[str, Metrics]) -> Markup:
    return _kinds(
        {f"{row}: {entry['figure']} by {entry['level']}": entry["kinds"] for row, entry in found.items()},
        "Recall by kind of evidence (the element that covers most of the gold tile), percent",
    )


def _evidence_by(found: Mapping[str, Metrics], grouping: str, element: str) -> Markup:
    rows = {f"{row}: {name}": by[grouping] for row, figures in found.items() for name, by in figures.items()}
    return _kinds(rows, f"Evidence by string among the hits, by the element {element}, percent")


def _share(estimate: Metrics | None) -> object:
    if estimate is None:
        return NONE
    return Markup(f"{accuracy(estimate)} {tag('small', 'n = ' + str(estimate['n_questions']))}")


def _ranks(found: Mapping[str, Metrics]) -> Markup:
    bins = list(next(iter(found.values()), {}))
    rows = [[row, *[counts[name] for name in bins]] for row, counts in found.items()]
    return table(["Row", *bins], rows, "Rank of the first item of the gold page, questions") if rows else Markup("")


def _displacement(found: Mapping[str, Metrics]) -> Markup:
    names = ("first_item_at_rank_1", "displaces", "of_gold_page")
    rows = [
        [row, *[percent(entry[name]) for name in names], entry["n"], entry["n_with_evidence"]]
        for row, entry in found.items()
    ]
    head = ["Row", "A page's first item at rank 1", "Stands above the first item with the answer, without holding it"]
    head += ["of these, of the gold page", "n", "n with the answer in a hit"]
    return table(head, rows, "Infobox displacement (first item of a page), percent") if rows else Markup("")


def _traces(found: Mapping[str, Metrics]) -> Markup:
    rows = []
    for row, entry in found.items():
        if entry["n"]:
            exact, tolerant = ([percent(entry[kind].get(stage)) for stage in STAGES] for kind in ("exact", "tolerant"))
            shares = [f"{loose} ({strict})" for loose, strict in zip(tolerant, exact, strict=True)]
            rows.append([row, *shares, *[entry["lost"][stage] for stage in STAGES], entry["recovered"], entry["n"]])
    head = ["Row", *STAGES, *[f"lost: {stage}" for stage in STAGES], "found again", "n"]
    caption = (
        "Evidence trace: answers that are whole at each stage, percent, as evidence by string (and to the letter); the"
        " first stage that lacks what the reader lacks, and what the reader has though a stage lacks it, questions"
    )
    return table(head, rows, caption) if rows else Markup("")


def _tokens(metrics: Metrics) -> Markup:
    kinds = ("visual", "retrieved_text", "input", "out")
    rows: list[Sequence[object]] = []
    for cell in metrics["readers"]:
        if cell.get("tokens", {}).get("input") is None:
            continue
        tokens = cell["tokens"]
        figures = [value for kind in kinds for value in (f"{tokens[kind]:.1f}", tokens["max"][kind])]
        rows.append([cell["name"], *figures, tokens["estimated"]])
    head = ["Row"]
    for kind in ("visual", "retrieved text", "input", "output"):
        head += [f"{kind}, mean", "max"]
    return table([*head, "Estimated, questions"], rows, "Tokens a question") if rows else Markup("")


def _sweep(points: Sequence[Metrics]) -> Markup:
    rows = [
        [point["line"], point["k"], f"{point['tokens']:.1f}", f"{point['out']:.1f}", percent(point["accuracy"])]
        for point in points
    ]
    head = ["Retriever, delivery, reader", "k", "Input tokens", "Output tokens", "Accuracy"]
    return table(head, rows, "Readers by k: accuracy and tokens a question") if rows else Markup("")


def _costs(found: Sequence[Metrics]) -> Markup:
    rows = [
        [
            entry["row"],
            entry["input_tokens"],
            entry["output_tokens"],
            NONE if entry["cost"] is None else f"{entry['cost']:.4f}",
        ]
        for entry in found
    ]
    head = ["Row", "Input tokens", "Output tokens", "Cost (currency of the prices)"]
    return table(head, rows, "Tokens and cost of all questions") if rows else Markup("")


def _latency(lines: Sequence[Metrics]) -> Markup:
    def seconds(value: float | None) -> str:
        return NONE if value is None else f"{value:.4f}"

    rows = [
        [
            line["part"],
            NONE if line["n"] is None else line["n"],
            *[seconds(line[n]) for n in ("mean_s", "median_s", "p95_s")],
        ]
        for line in lines
    ]
    caption = "Latency a question, seconds (differs from run to run; a dash: all came from the cache)"
    return table(["Part", "n", "Mean", "Median", "95th percentile"], rows, caption)


def answer_difference_table(metrics: Metrics) -> Markup:
    """Paired differences of accuracies; empty without any."""
    graders = metrics["graders"]["columns"]
    rows = [
        [f"{pair['row']} − {pair['against']}, paired", *[difference_cell(pair[name]) for name in graders]]
        for pair in metrics["reader_differences"]
    ]
    return table(["Rows", *graders], rows, "Paired differences of accuracy, points") if rows else Markup("")
