"""What a page's DOM says about its pixels: words, blocks, links, evidence areas, cut to tiles."""

from collections import defaultdict
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import urljoin

import numpy as np

from tilewright.data_gen.records import Block, Link, Word
from tilewright.data_gen.tile_store import EVIDENCE_KINDS
from tilewright.data_gen.tiles import TileBox

SCRIPT = resources.files("tilewright.data_gen").joinpath("dom_layer.js").read_text(encoding="utf-8")
Rect = tuple[float, float, float, float]  # x, y, width, height in page px
_PAINT_ORDER = ("paragraph", "list", "table", "infobox")  # what is painted later owns the overlap
_INSIDE_PX = 1.0  # a block may stick out of its tile by this much and still be whole: borders, rounding


@dataclass(frozen=True)
class TileContent:
    """What one tile shows, boxes in tile pixels."""

    text: str
    words: tuple[Word, ...]
    blocks: tuple[Block, ...]
    links: tuple[Link, ...]
    evidence_px: dict[str, int]


class DomLayer:
    """The result of ``dom_layer.js`` for a page at ``url``, in page pixels.

    Of ``data``: ``words`` [text, x, y, width, height, block, cell], in reading order; ``blocks`` {kind, labels,
    caption, section, box or null}; ``links`` [href, anchor, [box]]; ``areas`` {kind: [box]}; ``bases`` of links;
    ``has_fixed_parts``: something is fixed to the window instead of to the page.
    """

    def __init__(self, data: dict[str, Any], url: str) -> None:
        self.width_px, self.height_px = int(data["width_px"]), int(data["height_px"])
        self.has_fixed_parts = bool(data["has_fixed_parts"])
        self._data = data
        self._base = _absolute(url, data["bases"][0]) or url if data["bases"] else url
        boxes = np.array([word[1:5] for word in data["words"]], dtype=np.float64).reshape(-1, 4)
        self._centres = boxes[:, :2] + boxes[:, 2:] / 2  # [words, 2]
        self._block_rects = self._boxes_of_blocks()  # now: threads cut several tiles at once

    def _boxes_of_blocks(self) -> list[Rect]:
        """Each block's box: its element's, or that of its words for containers."""
        found: dict[int, list[float]] = {}
        for _, x, y, width, height, block, _ in self._data["words"]:
            old = found.get(block)
            edges = [x, y, x + width, y + height]
            found[block] = edges if old is None else [*map(min, old[:2], edges[:2]), *map(max, old[2:], edges[2:])]
        rects = []
        for index, block in enumerate(self._data["blocks"]):
            x, y, right, bottom = found.get(index, [0.0] * 4)
            rects.append(tuple(block["box"]) if block["box"] else (x, y, right - x, bottom - y))
        return rects

    def cut(self, tile: TileBox) -> TileContent:
        """What ``tile`` shows: words whose centre lies in it, blocks with those words only, links, evidence."""
        centres = self._centres - (tile.x_px, tile.y_px)
        shown = ((centres >= 0) & (centres < (tile.width_px, tile.height_px))).all(axis=1)
        inside = [self._data["words"][index] for index in np.flatnonzero(shown)]
        blocks, positions = self._cut_blocks(inside, tile)
        words = tuple(
            Word(text, x - tile.x_px, y - tile.y_px, width, height, positions[block])
            for text, x, y, width, height, block, _ in inside
        )
        text = "\n".join(block.text for block in blocks)
        return TileContent(text, words, tuple(blocks), self._cut_links(tile), self._evidence(tile))

    def _cut_blocks(self, words: list[Any], tile: TileBox) -> tuple[list[Block], dict[int, int]]:
        """(blocks in reading order, {page block index: position among them})."""
        texts: dict[int, list[str]] = defaultdict(list)
        cells: dict[tuple[int, int], list[str]] = defaultdict(list)
        for text, _, _, _, _, block, cell in words:
            texts[block].append(text)
            cells[block, cell].append(text)
        positions = {block: position for position, block in enumerate(texts)}
        made = []
        for index in positions:
            data, rect = self._data["blocks"][index], self._block_rects[index]
            x, y, width, height = _clip(rect, tile)
            whole = width >= rect[2] - _INSIDE_PX and height >= rect[3] - _INSIDE_PX
            own_cells = tuple(" ".join(cells[index, cell]) for cell in range(len(data["labels"])))
            made.append(
                Block(
                    data["kind"],
                    " ".join(texts[index]),
                    own_cells,
                    tuple(data["labels"]),
                    data["section"],
                    data["caption"],
                    whole,
                    x - tile.x_px,
                    y - tile.y_px,
                    width,
                    height,
                )
            )
        return made, positions

    def _cut_links(self, tile: TileBox) -> tuple[Link, ...]:
        links = []
        for href, anchor, rects in self._data["links"]:
            shown = [_clip(rect, tile) for rect in rects if _centre_in(rect, tile)]
            address = _absolute(self._base, href) if shown else ""
            if address:
                x, y = min(rect[0] for rect in shown), min(rect[1] for rect in shown)
                right, bottom = max(rect[0] + rect[2] for rect in shown), max(rect[1] + rect[3] for rect in shown)
                links.append(Link(address, anchor, x - tile.x_px, y - tile.y_px, right - x, bottom - y))
        return tuple(links)

    def _evidence(self, tile: TileBox) -> dict[str, int]:
        """Covered px² by kind; where areas overlap, infobox > table > list > paragraph."""
        mask = np.zeros((tile.height_px, tile.width_px), dtype=np.uint8)
        for value, kind in enumerate(_PAINT_ORDER, start=1):
            for rect in self._data["areas"][kind]:
                x, y, width, height = _clip(rect, tile)
                if width > 0 and height > 0:
                    left, top = round(x) - tile.x_px, round(y) - tile.y_px
                    mask[top : round(y + height) - tile.y_px, left : round(x + width) - tile.x_px] = value
        return {kind: int(np.count_nonzero(mask == _PAINT_ORDER.index(kind) + 1)) for kind in EVIDENCE_KINDS}


def _centre_in(rect: Any, tile: TileBox) -> bool:
    x, y = rect[0] + rect[2] / 2 - tile.x_px, rect[1] + rect[3] / 2 - tile.y_px
    return bool(0 <= x < tile.width_px and 0 <= y < tile.height_px)


def _clip(rect: Any, tile: TileBox) -> Rect:
    """The part of ``rect`` inside ``tile``, in page pixels; of size 0 if there is none."""
    left, top = max(rect[0], tile.x_px), max(rect[1], tile.y_px)
    right = min(rect[0] + rect[2], tile.x_px + tile.width_px)
    bottom = min(rect[1] + rect[3], tile.y_px + tile.height_px)
    return left, top, max(0.0, right - left), max(0.0, bottom - top)


def _absolute(base: str, href: str) -> str:
    """``href`` as an absolute address; "" for scripts and what can't be one."""
    try:
        address = urljoin(base, href.strip())
    except ValueError:
        return ""
    return "" if address.lower().startswith("javascript:") else address
