"""A small page of a title and facts, drawn by Pillow: black type on white, without a browser."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from PIL import Image, ImageDraw, ImageFont, features

from tilewright.configs.errors import InputError

WIDTH_PX, HEIGHT_PX = 448, 512
TITLE_PX, FACT_PX = 28, 18  # font sizes
Layout = Literal["list", "cards"]


@dataclass(frozen=True)
class Fonts:
    """One font in the two sizes of a page."""

    title: ImageFont.FreeTypeFont
    fact: ImageFont.FreeTypeFont


def load_fonts(name: str | None) -> Fonts:
    """The installed font of that file name; None: Aileron, which is in Pillow. Raises InputError if it's missing."""
    if not features.check("freetype2"):
        raise InputError("Pillow was built without FreeType: wanted one that draws scalable fonts")
    try:
        title, fact = (_font(name, size) for size in (TITLE_PX, FACT_PX))
    except OSError as error:
        raise InputError(
            f"font: {name!r} isn't installed ({error}): wanted the file name of a font, or null for Pillow's own"
        ) from error
    return Fonts(title, fact)


def _font(name: str | None, size_px: int) -> ImageFont.FreeTypeFont:
    font = ImageFont.load_default(size_px) if name is None else ImageFont.truetype(name, size_px)
    if not isinstance(font, ImageFont.FreeTypeFont):
        raise InputError(f"font {name!r}: wanted a scalable font, found {type(font).__name__}")
    return font


def draw_page(title: str, facts: Mapping[str, str], layout: Layout, fonts: Fonts) -> Image.Image:
    """A picture in grey levels, WIDTH_PX x HEIGHT_PX.

    ``list``: the title on top, below it a line a fact. ``cards``: the title lower and further to the right, the facts
    in two columns, each value below its name.
    """
    image = Image.new("L", (WIDTH_PX, HEIGHT_PX), 255)
    draw = ImageDraw.Draw(image)
    if layout == "list":
        draw.text((16, 16), title, fill=0, font=fonts.title)
        for row, (name, value) in enumerate(facts.items()):
            draw.text((16, 96 + 64 * row), f"{name}: {value}", fill=0, font=fonts.fact)
        return image
    draw.text((48, 48), title, fill=0, font=fonts.title)
    for number, (name, value) in enumerate(facts.items()):
        x, y = 32 + 208 * (number % 2), 144 + 112 * (number // 2)
        draw.text((x, y), name, fill=96, font=fonts.fact)
        draw.text((x, y + 28), value, fill=0, font=fonts.fact)
    return image
