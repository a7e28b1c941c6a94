"""Line charts as inline SVG: colours come from the page's style, so that light and dark both work."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.eval.report.markup import Markup, join, tag

WIDTH, HEIGHT = 460, 260
LEFT, RIGHT, TOP, BOTTOM = 52, 14, 16, 40
COLOURS = 8
Point = tuple[float, float]


@dataclass(frozen=True)
class Line:
    """A named series of (x, y) points; ``dashed`` marks a reference such as chance."""

    name: str
    points: Sequence[Point]
    dashed: bool = False


def line_chart(title: str, lines: Sequence[Line], x_label: str, y_label: str, y_from_zero_to: float | None) -> Markup:
    """A figure with one line per series and a legend; ``y_from_zero_to`` fixes the y axis. Empty lines are left out."""
    drawn = [line for line in lines if line.points]
    if not drawn:
        return tag("figure", tag("figcaption", title), tag("p", "No curve was recorded.", class_="note"))
    xs = [x for line in drawn for x, _ in line.points]
    ys = [y for line in drawn for _, y in line.points]
    x_ticks = ticks(min(0.0, *xs), max(*xs, 1.0))
    y_ticks = ticks(0.0, y_from_zero_to) if y_from_zero_to else ticks(min(0.0, *ys), max(ys))
    frame = _Frame(x_ticks[0], x_ticks[-1], y_ticks[0], y_ticks[-1])
    body = [
        *[frame.y_tick(value) for value in y_ticks],
        *[frame.x_tick(value) for value in x_ticks],
        tag("text", x_label, x=(LEFT + WIDTH - RIGHT) / 2, y=HEIGHT - 4, text_anchor="middle"),
        *[frame.line(line, _colour(number)) for number, line in enumerate(drawn)],
    ]
    legend = [
        tag(
            "li", tag("span", class_=f"key s{_colour(number)}" + " dashed" * line.dashed), f"{line.name}: {_last(line)}"
        )
        for number, line in enumerate(drawn)
    ]
    svg = tag("svg", *body, viewBox=f"0 0 {WIDTH} {HEIGHT}", role="img", aria_label=f"{title}: {y_label} by {x_label}")
    return tag("figure", tag("figcaption", title), svg, tag("ul", *legend, class_="legend"))


def _colour(number: int) -> int:
    """Of the style's colours, which begin again after the last."""
    return number % COLOURS + 1


def _last(line: Line) -> str:
    value = f"{line.points[-1][1]:.3g}"
    return value if line.dashed or len(line.points) == 1 else f"{line.points[0][1]:.3g} → {value}"


def ticks(low: float, high: float, about: int = 5) -> list[float]:
    """Round numbers (1, 2, 5 x 10^n apart) from at most ``low`` to at least ``high``."""
    if not high > low:
        high = low + 1.0
    rough = (high - low) / about
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(factor * power for factor in (1, 2, 5, 10) if factor * power >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [round(number * step, 12) for number in range(first, last + 1)]


@dataclass(frozen=True)
class _Frame:
    """Where values of the two axes lie in the picture."""

    x_low: float
    x_high: float
    y_low: float
    y_high: float

    def x(self, value: float) -> float:
        return round(LEFT + (value - self.x_low) / (self.x_high - self.x_low) * (WIDTH - LEFT - RIGHT), 2)

    def y(self, value: float) -> float:
        return round(HEIGHT - BOTTOM - (value - self.y_low) / (self.y_high - self.y_low) * (HEIGHT - TOP - BOTTOM), 2)

    def y_tick(self, value: float) -> Markup:
        y = self.y(value)
        rule = tag("line", x1=LEFT, x2=WIDTH - RIGHT, y1=y, y2=y, class_="rule")
        return join([rule, tag("text", f"{value:g}", x=LEFT - 8, y=y + 4, text_anchor="end")])

    def x_tick(self, value: float) -> Markup:
        return tag("text", f"{value:g}", x=self.x(value), y=HEIGHT - BOTTOM + 18, text_anchor="middle")

    def line(self, line: Line, number: int) -> Markup:
        path = " ".join(f"{self.x(x)},{self.y(y)}" for x, y in line.points)
        style = f"line s{number}" + " dashed" * line.dashed
        if len(line.points) == 1:
            (x, y) = line.points[0]
            return tag("circle", cx=self.x(x), cy=self.y(y), r=3, class_=f"dot s{number}")
        return tag("polyline", points=path, class_=style)
