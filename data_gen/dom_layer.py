"""What a page's DOM says about its pixels: words, blocks, links, evidence areas, cut to tiles."""

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from importlib import resources
from typing import Any
from urllib.parse import urljoin

import numpy as np

from tilewright.data_gen.characters import Characters, PageCharacters
from tilewright.data_gen.records import Block, Link, Word
from tilewright.data_gen.tile_store import EVIDENCE_KINDS
from tilewright.data_gen.tiles import TileBox

_SCRIPTS = resources.files("tilewright.data_gen")
_PARTS = {"CLIPS": "dom_clips.js", "CHARACTERS": "dom_characters.js"}  # by the line of dom_layer.js that stands for it
# a function of one argument, a JSON bool: whether characters are wanted
SCRIPT = _SCRIPTS.joinpath("dom_layer.js").read_text(encoding="utf-8")
for _line, _file in _PARTS.items():
    SCRIPT = SCRIPT.replace(f"  {_line}\n", _SCRIPTS.joinpath(_file).read_text(encoding="utf-8"))
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
    ``has_fixed_parts``: something is fixed to the window instead of to the page; ``characters``, if they were wanted:
    see ``PageCharacters``.
    """

    def __init__(self, data: dict[str, Any], url: str) -> None:
        self.width_px, self.height_px = int(data["width_px"]), int(data["height_px"])
        self.has_fixed_parts = bool(data["has_fixed_parts"])
        self._data = data
        base = _absolute(url, data["bases"][0]) or url if data["bases"] else url
        boxes = _rects(word[1:5] for word in data["words"])
        self._centres = boxes[:, :2] + boxes[:, 2:] / 2  # [words, 2]
        self._block_rects = self._boxes_of_blocks(boxes)  # now: threads cut several tiles at once
        self._links = _Links(data["links"], base)
        self._characters = PageCharacters(data.get("characters", []))
        self._areas = [(kind, _rects(data["areas"][kind])) for kind in _PAINT_ORDER]

    def _boxes_of_blocks(self, boxes: np.ndarray[Any, Any]) -> list[Rect]:
        """Each block's box: its element's, or that of its words for containers."""
        blocks, owners = self._data["blocks"], np.array([word[5] for word in self._data["words"]], dtype=np.int64)
        low, high = np.full((len(blocks), 2), np.inf), np.full((len(blocks), 2), -np.inf)
        owned = owners >= 0
        np.minimum.at(low, owners[owned], boxes[owned, :2])
        np.maximum.at(high, owners[owned], boxes[owned, :2] + boxes[owned, 2:])
        size = high - low
        low[~np.isfinite(size)] = size[~np.isfinite(size)] = 0.0  # a block without words
        around = np.concatenate([low, size], axis=1).tolist()
        return [tuple(block["box"] or own) for block, own in zip(blocks, around, strict=True)]

    def cut(self, tile: TileBox) -> TileContent:
        """What ``tile`` shows: words whose centre lies in it, blocks with those words only, links, evidence."""
        inside = [self._data["words"][index] for index in np.flatnonzero(_centres_in(self._centres, tile)).tolist()]
        blocks, positions = self._cut_blocks(inside, tile)
        words = tuple(
            Word(text, x - tile.x_px, y - tile.y_px, width, height, positions[block])
            for text, x, y, width, height, block, _ in inside
        )
        text = "\n".join(block.text for block in blocks)
        return TileContent(text, words, tuple(blocks), self._links.cut(tile), self._evidence(tile))

    def cut_characters(self, tile: TileBox) -> Characters:
        """The characters whose own centre lies in ``tile``; none if the script wasn't asked for them."""
        inside = np.flatnonzero(_centres_in(self._characters.centres, tile))
        return self._characters.cut(inside, tile.x_px, tile.y_px)

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

    def _evidence(self, tile: TileBox) -> dict[str, int]:
        """Covered px² by kind; where areas overlap, infobox > table > list > paragraph."""
        mask = np.zeros((tile.height_px, tile.width_px), dtype=np.uint8)
        painted = dict.fromkeys(EVIDENCE_KINDS, 0)
        for value, (kind, rects) in enumerate(self._areas, start=1):
            for rect in rects[_touching(rects, tile)].tolist():
                x, y, width, height = _clip(rect, tile)
                if width > 0 and height > 0:
                    left, top = round(x) - tile.x_px, round(y) - tile.y_px
                    mask[top : round(y + height) - tile.y_px, left : round(x + width) - tile.x_px] = value
                    painted[kind] = value
        return {kind: int(np.count_nonzero(mask == value)) if value else 0 for kind, value in painted.items()}


class _Links:
    """The links of a page, found by place."""

    def __init__(self, links: Sequence[Any], base: str) -> None:
        """``links``: [href, anchor, [box]], hrefs relative to ``base``."""
        self._links, self._base = links, base
        self._rects = _rects(rect for _, _, rects in links for rect in rects)
        self._owners = [index for index, (_, _, rects) in enumerate(links) for _ in rects]

    def cut(self, tile: TileBox) -> tuple[Link, ...]:
        """Those that ``tile`` shows: one box each, around its parts whose centres lie in the tile."""
        shown: dict[int, list[Rect]] = defaultdict(list)
        for position in np.flatnonzero(_centres_in(self._rects[:, :2] + self._rects[:, 2:] / 2, tile)).tolist():
            shown[self._owners[position]].append(_clip(self._rects[position].tolist(), tile))
        links = []
        for index, rects in shown.items():
            href, anchor, _ = self._links[index]
            address = _absolute(self._base, href)
            if address:
                x, y = min(rect[0] for rect in rects), min(rect[1] for rect in rects)
                right, bottom = max(rect[0] + rect[2] for rect in rects), max(rect[1] + rect[3] for rect in rects)
                links.append(Link(address, anchor, x - tile.x_px, y - tile.y_px, right - x, bottom - y))
        return tuple(links)


def _rects(boxes: Iterable[Any]) -> np.ndarray[Any, Any]:
    """[N, 4] float64: x, y, width, height."""
    return np.array(list(boxes), dtype=np.float64).reshape(-1, 4)


def _touching(rects: np.ndarray[Any, Any], tile: TileBox) -> np.ndarray[Any, Any]:
    """[N] bool: which of ``rects`` [N, 4] have a part in ``tile``."""
    start, end = (tile.x_px, tile.y_px), (tile.x_px + tile.width_px, tile.y_px + tile.height_px)
    return np.asarray(((rects[:, :2] < end) & (rects[:, :2] + rects[:, 2:] > start)).all(axis=1))


def _centres_in(centres: np.ndarray[Any, Any], tile: TileBox) -> np.ndarray[Any, Any]:
    """[N] bool: which of ``centres`` [N, 2] lie in ``tile``."""
    inside = centres - (tile.x_px, tile.y_px)
    return np.asarray(((inside >= 0) & (inside < (tile.width_px, tile.height_px))).all(axis=1))


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
