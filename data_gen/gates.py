"""Gates: which tiles are worth asking about. Each is a named predicate, so that manifests count what each one stops.

Near-duplicates aren't seen in one tile: of the tiles that pass all gates, near_duplicates.py keeps one of each group.
"""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from urllib.parse import unquote, urlsplit

import numpy as np
from PIL import Image

from tilewright.configs.bounds import check_bounds
from tilewright.data_gen.near_duplicates import HASH_BITS
from tilewright.data_gen.records import Page, Tile

NEAR_DUPLICATE = "near_duplicate"  # the name under which those that aren't kept are counted
INK_LEVELS = 48  # a pixel this many of 255 grey levels off the background is ink


@dataclass(frozen=True)
class GateConfig:
    """Thresholds of the gates (values of the published recipe: 3000 px, complete, first 70 % of a page).

    ``blocked``: patterns with ``*`` against the page's title and the last part of its URL, spaces for underscores, any
    case. ``first_share``: a tile must start within this share of its page's height. ``min_words``: words a tile shows;
    ``min_text_density``: words per megapixel of the tile (an article's text has 400 to 900 on tiles of 875 px).
    ``min_ink``: share of its pixels that differ from the background. ``near_duplicate_bits``: tiles whose perceptual
    hashes differ in at most so many of 256 bits are one (12 takes a JPEG copy for the same tile, and no other text of
    the same layout; about one word in twenty may differ); null keeps all.
    """

    min_page_height_px: int
    require_complete: bool
    blocked: tuple[str, ...]
    first_share: float
    min_words: int
    min_text_density: float
    min_ink: float
    near_duplicate_bits: int | None

    def __post_init__(self) -> None:
        check_bounds(self, 0, None, "min_page_height_px", "min_words", "min_text_density")
        check_bounds(self, 0, 1, "first_share", "min_ink")
        if self.near_duplicate_bits is not None and not 0 <= self.near_duplicate_bits < HASH_BITS // 8:
            raise ValueError(
                f"near_duplicate_bits: wanted 0 to {HASH_BITS // 8 - 1}, or null, found {self.near_duplicate_bits}"
            )


@dataclass(frozen=True)
class Gate:
    """``passes(page, tile, load_image)``; the image is loaded only by the gates that look at it."""

    name: str
    passes: Callable[[Page, Tile, Callable[[], Image.Image]], bool]


def gates(config: GateConfig) -> tuple[Gate, ...]:
    """The gates in the order in which they're tried, cheap ones first."""
    return (
        Gate("page_height", lambda page, tile, load: page.height_px >= config.min_page_height_px),
        Gate("incomplete_page", lambda page, tile, load: page.complete or not config.require_complete),
        Gate("blocked_page", lambda page, tile, load: not is_blocked(page, config.blocked)),
        Gate("beyond_first_share", lambda page, tile, load: tile.y_px < config.first_share * page.height_px),
        Gate("few_words", lambda page, tile, load: len(tile.text.split()) >= config.min_words),
        Gate("low_text_density", lambda page, tile, load: text_density(tile) >= config.min_text_density),
        Gate("little_ink", lambda page, tile, load: config.min_ink <= 0 or ink_share(load()) >= config.min_ink),
    )


def first_failed(
    all_gates: Sequence[Gate], page: Page, tile: Tile, load_image: Callable[[], Image.Image]
) -> str | None:
    """The name of the first gate that stops ``tile``; None if it passes all."""
    return next((gate.name for gate in all_gates if not gate.passes(page, tile, load_image)), None)


def is_blocked(page: Page, patterns: Sequence[str]) -> bool:
    """Whether the page's title, or the last part of its URL, fits one of ``patterns``."""
    last = unquote(urlsplit(page.url).path.rpartition("/")[2])
    names = {name.replace("_", " ").casefold() for name in (page.title, last)}
    return any(_star_pattern(pattern).fullmatch(name) for name in names for pattern in patterns)


@cache
def _star_pattern(pattern: str) -> re.Pattern[str]:
    """``pattern`` with ``*`` for any text and every other character for itself, as titles are compared."""
    parts = pattern.replace("_", " ").casefold().split("*")
    return re.compile(".*".join(map(re.escape, parts)), re.DOTALL)


def text_density(tile: Tile) -> float:
    """Words per megapixel of the tile."""
    return len(tile.text.split()) / (tile.width_px * tile.height_px / 1e6)


def ink_share(image: Image.Image) -> float:
    """Share of the pixels that differ from the background, which is the commonest grey level."""
    histogram = np.array(image.convert("L").histogram())
    far = np.abs(np.arange(len(histogram)) - histogram.argmax()) >= INK_LEVELS
    return float(histogram[far].sum() / histogram.sum())
