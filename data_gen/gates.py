"""Gates: which tiles are worth asking about. Each is a named predicate, so that manifests count what each one stops."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fnmatch import fnmatchcase
from urllib.parse import unquote, urlsplit

import numpy as np
from PIL import Image

from tilewright.data_gen.records import Page, Tile

INK_LEVELS = 48  # a pixel this many of 255 grey levels off the background is ink


@dataclass(frozen=True)
class GateConfig:
    """Thresholds of the gates (values of the published recipe: 3000 px, complete, first 70 % of a page).

    ``blocked``: patterns with ``*`` against the page's title and the last part of its URL, spaces for underscores, any
    case. ``first_share``: a tile must start within this share of its page's height. ``min_words``: words a tile shows.
    ``min_ink``: share of its pixels that differ from the background.
    """

    min_page_height_px: int
    require_complete: bool
    blocked: tuple[str, ...]
    first_share: float
    min_words: int
    min_ink: float


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
    return any(fnmatchcase(name, pattern.replace("_", " ").casefold()) for name in names for pattern in patterns)


def ink_share(image: Image.Image) -> float:
    """Share of the pixels that differ from the background, which is the commonest grey level."""
    levels = np.asarray(image.convert("L"), dtype=np.int16)
    background = int(np.bincount(levels.reshape(-1), minlength=256).argmax())
    return float((np.abs(levels - background) >= INK_LEVELS).mean())
