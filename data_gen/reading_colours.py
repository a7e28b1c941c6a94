"""Colours of a reading page: pairs of background and text with enough contrast to be read."""

import colorsys
from dataclasses import dataclass
from random import Random

_TRIES = 40


@dataclass(frozen=True)
class Panel:
    """What stands on what: colours as ``#rrggbb``."""

    background: str
    text: str
    link: str

    def css(self, selector: str) -> str:
        """Rules that give ``selector`` these colours."""
        return (
            f"{selector} {{ background: {self.background}; color: {self.text}; }}\n"
            f"{selector} a {{ color: {self.link}; }}\n"
        )


def contrast(one: str, other: str) -> float:
    """Contrast ratio of two colours ``#rrggbb``, 1 to 21 (WCAG 2.1, relative luminance)."""
    dark, light = sorted((luminance(one), luminance(other)))
    return (light + 0.05) / (dark + 0.05)


def luminance(colour: str) -> float:
    """Relative luminance of ``#rrggbb``, 0 to 1 (WCAG 2.1)."""
    parts = (int(colour[at : at + 2], 16) / 255 for at in (1, 3, 5))
    red, green, blue = (part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def colour(hue: float, lightness: float, saturation: float) -> str:
    """``#rrggbb`` of a hue (taken modulo 1), lightness and saturation from 0 to 1."""
    red, green, blue = colorsys.hls_to_rgb(hue % 1, lightness, saturation)
    return f"#{round(red * 255):02x}{round(green * 255):02x}{round(blue * 255):02x}"


def _readable(random: Random, background: str, hue: float, saturation: float, least: float) -> str:
    """A colour of about that hue whose contrast on ``background`` is at least ``least``, else black or white."""
    dark = contrast(background, "#000000") < contrast(background, "#ffffff")
    for _ in range(_TRIES):
        lightness = random.uniform(0.6, 1) if dark else random.uniform(0, 0.5)
        drawn = colour(hue + random.uniform(-0.04, 0.04), lightness, saturation)
        if contrast(drawn, background) >= least:
            return drawn
    return "#ffffff" if dark else "#000000"


def panel(random: Random, background: str) -> Panel:
    """Text and links on ``background``: contrast 4.5 at least (WCAG 2.1 AA), seldom as low as 3.2."""
    least = 4.5 if random.random() < 0.9 else 3.2
    grey = random.choice((0, 0, random.uniform(0, 0.4)))
    blue = random.uniform(0.56, 0.68) if random.random() < 0.8 else random.random()
    text = _readable(random, background, random.random(), grey, max(least, random.uniform(4.5, 15)))
    return Panel(background, text, _readable(random, background, blue, random.uniform(0.5, 1), least))


def page_panel(random: Random) -> Panel:
    """The colours of a page: mostly white, else a light tint, else dark."""
    chance = random.random()
    if chance < 0.65:
        return panel(random, "#ffffff")
    if chance < 0.9:
        return panel(random, colour(random.random(), random.uniform(0.92, 0.99), random.uniform(0, 0.6)))
    return panel(random, colour(random.random(), random.uniform(0, 0.2), random.uniform(0, 0.4)))


def near_panel(random: Random, page: Panel) -> Panel:
    """A panel a little apart from the page, or now and then one in strong colours."""
    if random.random() < 0.15:
        return panel(random, colour(random.random(), random.uniform(0.2, 0.85), random.uniform(0.2, 0.8)))
    dark = luminance(page.background) < 0.2
    lightness = random.uniform(0.08, 0.3) if dark else random.uniform(0.82, 0.98)
    return panel(random, colour(random.random(), lightness, random.uniform(0, 0.5)))
