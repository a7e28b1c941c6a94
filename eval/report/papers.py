"""The main table for papers: Markdown and LaTeX."""

import re
from collections.abc import Mapping
from typing import Any

from tilewright.eval.metrics import NOT_RUN
from tilewright.eval.report.markdown_tables import escaped, pipe_table
from tilewright.eval.wording import NONE, interval, percent

_LINES = re.compile(r"[\r\n]+")
_LATEX = {char: f"\\{char}" for char in "&%$#_{}"} | {"~": r"\textasciitilde{}", "^": r"\textasciicircum{}"}
_LATEX |= {
    "\\": r"\textbackslash{}",
    "–": "--",
    "−": "$-$",
    "×": r"$\times$",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
}


def main_table(metrics: Mapping[str, Any]) -> tuple[list[str], list[list[str]]]:
    """(head, rows): a row for each retriever without and with readers: recall at the last k, accuracy, n, tokens."""
    k = metrics["settings"]["ks"][-1]
    deciding = metrics["graders"]["deciding"]
    head = ["Row", f"Recall@{k} page", f"Recall@{k} tile", f"Accuracy ({deciding})", "n", "Errors", "Tokens in"]
    rows = []
    for name, row in metrics["rows"].items():
        if row["status"] == NOT_RUN:
            rows.append([name, *[NONE] * 3, NONE, "not run", NONE])
            continue
        recalls = [figure(row.get(level, {}).get(f"recall@{k}")) for level in ("page", "tile")]
        rows.append([name, *recalls, NONE, str(row["n_graded"]), str(row["n_errors"]), NONE])
    for cell in metrics["readers"]:
        if cell["status"] == NOT_RUN:
            rows.append([cell["name"], *[NONE] * 3, NONE, "not run", NONE])
            continue
        tokens = cell["tokens"]["input"]
        rows.append(
            [
                cell["name"],
                NONE,
                NONE,
                figure(cell["accuracy"][deciding]),
                str(cell["n_graded"]),
                str(cell["n_errors"]),
                NONE if tokens is None else f"{tokens:.0f}",
            ]
        )
    return head, rows


def figure(estimate: Mapping[str, Any] | None) -> str:
    """``12.3 [8.1, 17.0]`` in percent; a dash where there is none."""
    if estimate is None or estimate["value"] is None:
        return NONE
    return f"{percent(estimate['value'])} {interval(estimate)}".removesuffix(f" {NONE}")


def markdown_table(metrics: Mapping[str, Any]) -> str:
    """The main table in Markdown, with what must be said of it."""
    notes = "\n".join(f"- {escaped(line)}" for line in metrics["stand_ins"])
    table = pipe_table(*main_table(metrics))
    return f"{table}\n{_note(metrics)}\n" + (f"\nStand-ins:\n{notes}\n" if notes else "")


def latex_table(metrics: Mapping[str, Any]) -> str:
    """The main table in LaTeX (booktabs)."""
    head, rows = main_table(metrics)
    body = "\n".join(" & ".join(map(_latex, row)) + r" \\" for row in rows)
    columns = "l" + "r" * (len(head) - 1)
    top = " & ".join(map(_latex, head)) + r" \\"
    notes = "".join(f"% {_LINES.sub(' ', line)}\n" for line in [_note(metrics), *metrics["stand_ins"]])
    return (
        f"{notes}\\begin{{tabular}}{{{columns}}}\n\\toprule\n{top}\n\\midrule\n{body}\n\\bottomrule\n\\end{{tabular}}\n"
    )


def _note(metrics: Mapping[str, Any]) -> str:
    questions, pool = metrics["questions"], metrics["pool"]
    return (
        f"{questions['n_questions']} questions on {questions['n_pages']} pages, searched among {pool['n_tiles']} tiles;"
        f" percent with {100 * metrics['settings']['confidence']:.0f} % intervals by cluster bootstrap over pages."
    )


def _latex(text: str) -> str:
    return "".join(_LATEX.get(char, char) for char in _LINES.sub(" ", text))
