"""A style sheet by chance for a reading page: fonts, sizes, colours with enough contrast, borders, places of boxes."""

from collections.abc import Mapping
from dataclasses import dataclass
from random import Random

from tilewright.data_gen.reading_colours import Panel, colour, near_panel, page_panel

VIEWPORT_PX, SCREEN_PX = 875, 1024
TABLES = 3  # ways in which tables of one page look: classes t0, t1, t2
_GENERIC = ("serif", "sans-serif", "monospace")
_SIZES_PX = {12: 5, 13: 8, 14: 22, 15: 12, 16: 20, 17: 8, 18: 9, 19: 3, 20: 4, 22: 3, 24: 3, 26: 2, 28: 1}
_LETTER_WIDTH = 0.47  # mean advance of a letter, in em, over the usual families


@dataclass(frozen=True)
class Style:
    """``css``: the style sheet. ``line_characters``: about how many letters a full line has; ``screen_lines``: how many
    lines of body text fill one screen of VIEWPORT_PX x SCREEN_PX.
    """

    css: str
    body_px: int
    line_characters: int
    screen_lines: float


def draw_style(random: Random, fonts: Mapping[str, float]) -> Style:
    """A style sheet drawn with ``random``; ``fonts`` maps families to weights."""
    size_px = random.choices(list(_SIZES_PX), list(_SIZES_PX.values()))[0]
    line_height = round(random.triangular(1.15, 1.7, 1.4), 2)
    left, right = (random.randint(2, random.choice((12, 32, 64))) for _ in range(2))
    family, heading = (_family(random, fonts) for _ in range(2))
    page = page_panel(random)
    body = {
        "margin": "0",
        "padding": f"{random.randint(0, 40)}px {right}px {random.randint(4, 40)}px {left}px",
        "font": f"{size_px}px/{line_height} {family}",
        "letter-spacing": f"{random.choice((-0.2, 0.3, 0.6, 1))}px" if random.random() < 0.05 else "normal",
        "text-align": random.choices(("left", "justify"), (4, 1))[0],
        "overflow-wrap": "break-word",
    }
    css = "".join(
        (
            _BASE,
            page.css("html, body"),
            _rule("body", body),
            _headings(random, page, heading if random.random() < 0.4 else family),
            _text(random, page, size_px),
            *(_table(random, page, f"table.t{number}") for number in range(TABLES)),
            _infobox(random, page),
            _boxes(random, page),
        )
    )
    characters = round((VIEWPORT_PX - left - right) / (_LETTER_WIDTH * size_px))
    return Style(css, size_px, characters, SCREEN_PX / (size_px * line_height))


_BASE = """* { box-sizing: border-box; }
body::after { content: ""; display: block; clear: both; }
pre, code { font-family: "Liberation Mono", "DejaVu Sans Mono", monospace; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; }
pre code { font-size: 1em; padding: 0; border: 0; }
table { max-width: 100%; border-spacing: 2px; }
td, th { vertical-align: top; }
td, th, pre, figure, .form { text-align: left; }
.tight td, .tight th { overflow-wrap: anywhere; }
td > p, li > p, dd > p { margin: 0; }
sub, sup { line-height: 1; }
figure { margin: 0; }
"""


def _family(random: Random, fonts: Mapping[str, float]) -> str:
    name = random.choices(list(fonts), list(fonts.values()))[0]
    if name in _GENERIC:
        return name
    fallback = "serif" if "serif" in name.lower() and "sans" not in name.lower() else "sans-serif"
    return f'"{name}", {fallback}'


def _rule(selector: str, values: Mapping[str, str]) -> str:
    return f"{selector} {{ " + " ".join(f"{name}: {value};" for name, value in values.items()) + " }\n"


def _line(random: Random) -> str:
    """A border."""
    style = random.choices(("solid", "dotted", "dashed"), (8, 1, 1))[0]
    drawn = colour(random.random(), random.uniform(0.4, 0.85), random.choice((0, 0.3)))
    return f"{random.choices((1, 2, 3), (8, 1, 1))[0]}px {style} {drawn}"


def _em(random: Random, low: float, high: float) -> str:
    return f"{random.uniform(low, high):.2f}em"


def _small(random: Random, low: float, high: float = 1.0) -> str:
    return f"max(10.5px, {random.uniform(low, high):.2f}em)"


def _headings(random: Random, page: Panel, family: str) -> str:
    weight = random.choices(("bold", "normal"), (3, 1))[0]
    own = page.text if random.random() < 0.6 else page.link
    line = _line(random) if random.random() < 0.4 else "0"
    top = random.uniform(1.6, 2.3)
    css = _rule("h1, h2, h3, h4, h5, h6", {"font-family": family, "font-weight": weight, "line-height": "1.25"})
    for level in range(1, 7):
        size = max(1.0, top - (level - 1) * (top - 1) / 3)
        values = {
            "font-size": f"min(46px, {size:.2f}em)",
            "margin": f"{_em(random, 0.3, 0.9)} 0 {_em(random, 0.1, 0.5)}",
            "color": own,
            "border-bottom": line if level < 3 else "0",
        }
        css += _rule(f"h{level}", values)
    return css + (near_panel(random, page).css("h2") if random.random() < 0.1 else "")


def _text(random: Random, page: Panel, size_px: int) -> str:
    indented = random.random() < 0.1
    gap = "0" if indented else _em(random, 0.2, 0.9)
    link = {
        "color": page.link,
        "text-decoration": random.choice(("none", "underline")),
        "font-weight": random.choices(("inherit", "bold"), (9, 1))[0],
    }
    indent = _em(random, 1.2, 2.2)
    return "".join(
        (
            _rule("a", link),
            _rule("p", {"margin": f"{gap} 0", "text-indent": "1.5em" if indented else "0"}),
            _rule("ul, ol", {"margin": f"{gap} 0 {gap} {indent}", "padding": "0"}),
            _rule("ul", {"list-style": random.choice(("disc", "square", "circle", "none"))}),
            _rule("li, dd", {"margin-bottom": _em(random, 0, 0.3)}),
            _rule("dd", {"margin-left": indent}),
            _rule("dt", {"font-weight": random.choice(("bold", "normal"))}),
            _rule("sup, sub", {"font-size": f"max(9.5px, {random.uniform(0.65, 0.85):.2f}em)"}),
            _rule("small, .notes, .fine", {"font-size": _small(random, 0.75, 0.95)}),
            _rule("pre, code", {"font-size": _small(random, 0.82)}),
            near_panel(random, page).css("pre") if random.random() < 0.7 else "",
            _rule("pre", {"padding": _em(random, 0.2, 0.9), "border": _line(random), "margin": f"{gap} 0"}),
            _rule(
                "blockquote",
                {"margin": f".5em {random.randint(8, 40)}px", "font-style": random.choice(("normal", "italic"))},
            ),
        )
    )


def _table(random: Random, page: Panel, selector: str) -> str:
    line = _line(random)
    borders = random.choices(("all", "rows", "none"), (5, 2, 1))[0]
    cell = {
        "padding": f"{random.randint(1, 7)}px {random.randint(3, 12)}px",
        "border": line if borders == "all" else "0",
    }
    if borders == "rows":
        cell["border-bottom"] = line
    values = {
        "border-collapse": random.choices(("collapse", "separate"), (4, 1))[0],
        "width": random.choices(("100%", "auto"), (2, 1))[0],
        "margin": f"{_em(random, 0.3, 1)} 0",
        "font-size": _small(random, 0.82),
        "border": line if random.random() < 0.5 else "0",
    }
    css = _rule(selector, values) + _rule(f"{selector} > tbody > tr > *", cell)
    if random.random() < 0.5:
        css += near_panel(random, page).css(f"{selector} > tbody > tr")
    if random.random() < 0.5:
        css += near_panel(random, page).css(f"{selector} > tbody > tr:nth-child(even)")
    if random.random() < 0.8:
        css += near_panel(random, page).css(f"{selector} > tbody > tr > th")
    alignment = random.choice(("left", "center"))
    return (
        css
        + _rule(f"{selector} > tbody > tr > th", {"text-align": alignment})
        + _rule("caption", {"font-weight": "bold"})
    )


def _infobox(random: Random, page: Panel) -> str:
    side = random.choices(("right", "left"), (9, 1))[0]
    away = "left" if side == "right" else "right"
    line = _line(random)
    box = {
        "float": side,
        "clear": side,
        "width": f"{random.randint(240, 370)}px",
        f"margin-{away}": f"{random.randint(8, 24)}px",
        "margin-bottom": "10px",
        "border": line if random.random() < 0.8 else "0",
        "border-collapse": random.choice(("collapse", "separate")),
        "font-size": _small(random, 0.8),
        "line-height": f"{random.uniform(1.2, 1.5):.2f}",
    }
    cells = {
        "padding": f"{random.randint(1, 5)}px {random.randint(3, 8)}px",
        "border": line if random.random() < 0.3 else "0",
    }
    css = (near_panel(random, page) if random.random() < 0.8 else page).css(".info")
    css += _rule(".info", box) + _rule(".info td, .info th", cells) + _rule(".info td", {"overflow-wrap": "anywhere"})
    css += _rule(".info td + td, .info th + td", {"width": f"{random.randint(52, 66)}%"})
    if random.random() < 0.7:
        css += near_panel(random, page).css(".info .head")
    return css + _rule(".info .head", {"text-align": "center", "font-size": _em(random, 1, 1.3)})


def _boxes(random: Random, page: Panel) -> str:
    side = random.choice(("left", "right"))
    css = near_panel(random, page).css(".box") + near_panel(random, page).css(".nav")
    border = {random.choice(("border", "border-left", "border-top")): _line(random)}
    spaced = {"padding": f"{random.randint(4, 14)}px {random.randint(6, 18)}px", "margin": f"{_em(random, 0.4, 1)} 0"}
    css += _rule(".box", border | spaced | {"border-radius": f"{random.choice((0, 0, 4, 10))}px"})
    css += _rule(".nav", {"padding": f"{random.randint(2, 10)}px"}) + _rule(
        ".nav a", {"margin-right": _em(random, 0.8, 1.6)}
    )
    css += _rule(".cols", {"columns": "2", "column-gap": f"{random.randint(16, 36)}px"})
    css += _rule(".cols ul, .cols ol, .cols p:first-child", {"margin-top": "0"})
    figure = {
        "float": side,
        "width": f"{random.randint(130, 250)}px",
        "margin": "4px 12px 8px",
        "border": _line(random),
    }
    css += _rule("figure", figure | {"padding": "4px", "font-size": _small(random, 0.8)})
    css += _rule("figure div", {"height": f"{random.randint(60, 180)}px", "background": _gradient(random)})
    css += _rule(
        ".form",
        {"display": "grid", "grid-template-columns": f"{random.randint(20, 40)}% minmax(0, 1fr)", "gap": "4px 10px"},
    )
    css += near_panel(random, page).css(".form .field")
    return css + _rule(".form .field", {"padding": "2px 6px", "border": _line(random)})


def _gradient(random: Random) -> str:
    colours = ", ".join(colour(random.random(), random.random(), random.random()) for _ in range(3))
    repeat = random.choice(("linear-gradient(", "radial-gradient("))
    return f"{repeat}{colours})"
