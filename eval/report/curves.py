"""Figures of training runs: losses, and shares (recall, exact match, ...), each series found by its name."""

from collections.abc import Mapping, Sequence
from typing import Any

from tilewright.eval.report.markup import Markup
from tilewright.eval.report.plots import Line, line_chart

_SHARES = ("recall", "success", "exact_match", "accuracy", "mrr")


def figures_of(
    title: str, curve: Sequence[Mapping[str, Any]], chance: Mapping[str, float] | None = None
) -> list[Markup]:
    """A loss chart and, if the run recorded any, a chart of shares from 0 to 1; ``chance`` {name: level} adds lines."""
    names = sorted({name for row in curve for name, value in row.items() if _is_number(value)} - {"step"})
    losses = [name for name in names if "loss" in name]
    shares = [name for name in names if any(word in name for word in _SHARES)]
    last = max((row["step"] for row in curve), default=0)
    levels = [Line(name, [(0.0, level), (float(last), level)], dashed=True) for name, level in (chance or {}).items()]
    figures = [line_chart(f"{title}: loss", [_line(curve, name) for name in losses], "step", "loss", None)]
    if shares:
        lines = [*[_line(curve, name) for name in shares], *levels]
        figures.append(line_chart(f"{title}: recall and accuracy", lines, "step", "share", 1.0))
    return figures


def _line(curve: Sequence[Mapping[str, Any]], name: str) -> Line:
    return Line(
        name.replace("_", " "), [(float(row["step"]), float(row[name])) for row in curve if _is_number(row.get(name))]
    )


def _is_number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
