"""Figures of training runs: losses, and recall or exact match, each series found by its name in curve.jsonl."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.eval.report.markup import Markup
from tilewright.eval.report.plots import Line, line_chart

_SHARES = ("recall_at_1", "recall_at_10", "exact_match")  # others (recall_at_3, mrr, in-batch accuracy) are left out


def figures_of(title: str, curve: Sequence[Mapping[str, Any]], counts: Mapping[str, Any]) -> list[Markup]:
    """A chart of losses and one of shares from 0 to 1 with chance as a dashed line; one without lines is left out.

    ``counts`` of the run's manifest: ``{pool}_chance_at_1`` is the chance of a random ranking of that pool.
    """
    names = sorted({name for row in curve for name, value in row.items() if _is_number(value)})
    losses = [name for name in names if "loss" in name]
    shares = [name for name in names if name.endswith(_SHARES)]
    figures = []
    if losses or not shares:
        figures.append(line_chart(f"{title}: loss", [_line(curve, name) for name in losses], "step", "loss", None))
    if shares:
        last = float(max(row["step"] for row in curve))
        lines = [_line(curve, name) for name in shares]
        for name in shares:
            level = counts.get(name.replace("recall_at_1", "chance_at_1"))
            if name.endswith("recall_at_1") and isinstance(level, (int, float)):
                lines.append(Line(f"{_words(name)}, chance", [(0.0, float(level)), (last, float(level))], dashed=True))
        what = "exact match" if all("exact_match" in name for name in shares) else "recall"
        figures.append(line_chart(f"{title}: {what}{_kept(counts)}", lines, "step", "share", 1.0))
    return figures


def _kept(counts: Mapping[str, Any]) -> str:
    """Whether the kept weights are better than those before training, where the run says so."""
    if counts.get("best_beats_start") is None:
        return ""
    said = "better" if counts["best_beats_start"] else "NOT better"
    return f" (weights of step {counts['kept_step']} kept: {said} in validation than before training)"


def _line(curve: Sequence[Mapping[str, Any]], name: str) -> Line:
    points = [(float(row["step"]), float(row[name])) for row in curve if _is_number(row.get(name))]
    return Line(_words(name), points)


def _words(name: str) -> str:
    return name.replace("recall_at_", "Recall@").replace("_", " ")


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
