"""The main table in Markdown and LaTeX: the same figures in both, and no text that breaks out of a cell."""

import re
from typing import Any

from tilewright.eval.report.papers import latex_table, main_table, markdown_table

HOSTILE = "a|b & 50% of $x_1$ \\input{y} #~^ <script>\nnext"


def estimate(value: float | None, low: float | None = None, high: float | None = None) -> dict[str, Any]:
    return {"value": value, "low": low, "high": high, "method": "m", "n_questions": 8, "n_pages": 4}


def metrics() -> dict[str, Any]:
    recall = {"recall@1": estimate(0.5, 0.25, 0.75), "recall@3": estimate(0.625, 0.5, 0.75), "mrr": estimate(0.6)}
    row = {"status": "complete", "n_graded": 7, "n_errors": 1}
    cell = {"name": "bm25.c_4.r.k1", "status": "complete", "n_graded": 8, "n_errors": 0, "tokens": {"input": 123.4}}
    return {
        "settings": {"ks": [1, 3], "confidence": 0.95, "resamples": 200},
        "graders": {"deciding": "alias", "columns": ["alias"]},
        "questions": {"n_questions": 8, "n_pages": 4},
        "pool": {"n_tiles": 12, "n_pages": 6},
        "rows": {
            "bm25": row | {"page": recall, "tile": recall},
            "text": row | {"page": recall},
            HOSTILE: {"status": "not run", "reason": "x"},
        },
        "readers": [cell | {"accuracy": {"alias": estimate(0.125, 0.0, 0.5)}}, {"name": "n", "status": "not run"}],
        "stand_ins": [HOSTILE],
    }


def unescaped(text: str, mark: str) -> int:
    return len(re.findall(rf"(?<!\\){re.escape(mark)}", text))


def test_both_say_the_same() -> None:
    head, rows = main_table(metrics())
    assert [len(row) for row in rows] == [len(head)] * 5
    assert rows[0][1].startswith("62.5 [50.0, 75.0]") and rows[0][2] == rows[0][1]
    assert rows[1][2] == "–" and rows[3][3].startswith("12.5 [0.0, 50.0]") and rows[3][-1] == "123"
    markdown, latex = markdown_table(metrics()), latex_table(metrics())
    for figure in ("62.5 [50.0, 75.0]", "12.5 [0.0, 50.0]", "123"):
        assert figure in markdown and figure in latex
    assert markdown.count("not run") == latex.count("not run") == 2


def test_no_text_breaks_out_of_its_cell() -> None:
    head, rows = main_table(metrics())
    markdown, latex = markdown_table(metrics()), latex_table(metrics())
    lines = [line for line in markdown.splitlines() if line.startswith("|")]
    assert len(lines) == len(rows) + 2 and {unescaped(line, "|") for line in lines} == {len(head) + 1}
    assert "<script>" not in markdown
    body = latex.split(r"\midrule")[1].split(r"\bottomrule")[0].strip().splitlines()
    assert len(body) == len(rows) and {unescaped(line, "&") for line in body} == {len(head) - 1}
    assert all(line.endswith(r"\\") and not unescaped(line.replace("$-$", "").replace("{}", ""), "%") for line in body)
    assert r"\input" not in "".join(body)
    commented = [line for line in latex.splitlines() if "next" in line and line not in body]
    assert commented and all(line.startswith("%") for line in commented)
