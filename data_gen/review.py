"""A page on which a person looks at a sample of pairs and marks each good, bad or unsure, with the keyboard.

The marks are downloaded as JSONL; ``tilewright precision`` makes a share with an interval of them.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Protocol, TypeVar

from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.html_page import text, webp_url
from tilewright.data_gen.pair_files import check_tiles
from tilewright.data_gen.pair_outcomes import ERROR, KEPT, PAIRS, Outcome
from tilewright.data_gen.records import QAPair, Tile
from tilewright.data_gen.review_page import REVIEW, Article, address, cut, value, write_page
from tilewright.data_gen.span_boxes import Box, highlight
from tilewright.data_gen.tile_store import TileStore

GUIDE = "Good: the question is clear without the page, its answer is right, and this tile shows it."
PICTURES_BYTES = 13_500_000  # of all pictures together, as data URLs: with the texts, 100 pairs stay below 15 MB
MIN_PICTURE_BYTES = 20_000  # of one picture: beyond some 700 pairs the page grows rather than become unreadable
MAX_SIDE_PX = 4096
# (scale, WebP quality), tried in this order until a picture is small enough; the last is taken as it comes
_LEVELS = ((1.0, 75), (1.0, 50), (1.0, 30), (0.75, 40), (0.5, 40), (0.35, 30), (0.2, 30))
_MARGIN_PX = 2.0  # between a word's box and its frame
_FACT_WORDS = {"answer": "answer of the reader", "by": "decided by"}


class Named(Protocol):
    """What can be sampled: pairs, outcomes, items of a review."""

    @property
    def query_id(self) -> str: ...
    @property
    def page_id(self) -> str: ...


N = TypeVar("N", bound=Named)


@dataclass(frozen=True)
class ReviewItem:
    """A pair to look at. ``outcome``: KEPT, or why it was dropped. ``verdicts``: {what was asked: what was said}."""

    pair: QAPair
    outcome: str
    verdicts: Mapping[str, str] = field(default_factory=dict)

    @property
    def query_id(self) -> str:
        """Of its pair."""
        return self.pair.query_id

    @property
    def page_id(self) -> str:
        """Of its pair."""
        return self.pair.page_id


def sample(items: Sequence[N], number: int, seed: int) -> list[N]:
    """``number`` of ``items`` (all, if there are fewer), drawn by SHA-256 of seed and query_id, in order of drawing.

    The draw doesn't depend on the order of ``items``, and a larger sample begins with the smaller one. A page gives a
    second pair only once every page has given one, and so on: pairs of one page aren't independent. While far fewer are
    drawn than there are pages, each pair is about as likely as any other; close to that number, pairs of pages with
    few of them are likelier. Raises InputError for a query_id given twice, ValueError for a negative number.
    """
    if number < 0:
        raise ValueError(f"wanted a sample of at least 0, found {number}")
    digests: dict[str, str] = {}
    for item in items:
        if item.query_id in digests:
            raise InputError(f"query_id {item.query_id!r} stands twice among {len(items)} items")
        digests[item.query_id] = hashlib.sha256(f"review/{seed}/{item.query_id}".encode("utf-8", "replace")).hexdigest()
    drawn: dict[str, int] = defaultdict(int)
    rounds = []
    for item in sorted(items, key=lambda item: (digests[item.query_id], item.query_id)):
        rounds.append((drawn[item.page_id], digests[item.query_id], item.query_id, item))
        drawn[item.page_id] += 1
    return [item for *_, item in sorted(rounds, key=lambda entry: entry[:3])[:number]]


def sample_by_outcome(outcomes: Sequence[Outcome], number: int, seed: int) -> list[Outcome]:
    """A ``sample`` with every outcome in it: kept pairs and dropped ones in turn, the latter by reason in turn.

    Pairs whose calls failed are left out: nothing was decided about them. A larger sample begins with the smaller one.
    """
    reasons = sorted({item.outcome for item in outcomes} - {ERROR})
    queues = {name: iter(sample([item for item in outcomes if item.outcome == name], number, seed)) for name in reasons}
    kept, dropped = queues.pop(KEPT, iter(())), list(queues.values())
    drawn: list[Outcome] = []
    while len(drawn) < number:
        before = len(drawn)
        drawn += [item for item in [next(kept, None)] if item is not None]
        while dropped:
            queue = dropped.pop(0)
            item = next(queue, None)
            if item is not None:
                drawn.append(item)
                dropped.append(queue)
                break
        if len(drawn) == before:
            break
    return drawn[:number]


def store_to_review(inputs: Mapping[str, Path], pairs: Sequence[QAPair], number: int) -> TileStore | None:
    """The store at ``inputs["tiles"]`` if ``number`` pairs are to be shown, checked before anything is asked and paid.

    Raises InputError if pairs are of tiles that it lacks.
    """
    if not number:
        return None
    store = TileStore.open(inputs["tiles"])
    check_tiles(pairs, store, inputs["pairs"] / PAIRS)
    return store


def write_outcome_review(
    out: Path,
    outcomes: Sequence[Outcome],
    items: Sequence[tuple[int, QAPair]],
    store: TileStore,
    *,
    number: int,
    seed: int,
    title: str,
) -> None:
    """Write ``out``/review.html with ``number`` of a filter stage's pairs (0: no page), kept and dropped ones mixed."""
    if not number:
        return
    pairs = {pair.query_id: pair for _, pair in items}
    chosen = sample(sample_by_outcome(outcomes, number, seed), number, seed)
    shown = [ReviewItem(pairs[item.query_id], item.outcome, _verdicts(item.facts)) for item in chosen]
    write_review(out / REVIEW, shown, store, title=title)


def _verdicts(facts: Mapping[str, Any]) -> dict[str, str]:
    return {
        _FACT_WORDS.get(name, name.replace("_", " ")): value if isinstance(value, str) else json.dumps(value)
        for name, value in facts.items()
    }


def write_review(path: Path, items: Sequence[ReviewItem], store: TileStore, *, title: str) -> None:
    """Write the review page of ``items``, in their order, as the file ``path``; its bytes depend on them alone.

    Pictures are made smaller until they share PICTURES_BYTES, but none smaller than MIN_PICTURE_BYTES. A picture that
    can't be decoded is said to be so in its place. Raises InputError for a tile that the store doesn't have and a
    query_id given twice.
    """
    sample(items, 0, 0)  # its check of the ids
    tiles = [store.light(item.pair.tile_id) for item in items]
    picture_bytes = max(MIN_PICTURE_BYTES, PICTURES_BYTES // max(1, len(items)))
    distinct = {tile.tile_id: tile for tile in tiles}
    pictures = {tile_id: picture(store, tile, picture_bytes) for tile_id, tile in distinct.items()}
    articles = [_article(item, tile, pictures[tile.tile_id]) for item, tile in zip(items, tiles, strict=True)]
    write_page(path, articles, title=title, guide=GUIDE, sample=_digest(items, tiles))


def _digest(items: Sequence[ReviewItem], tiles: Sequence[Tile]) -> str:
    """What marks belong to: the pairs, their outcomes and the pixels shown, whatever their order."""
    seen = [[asdict(item.pair), item.outcome, tile.image_sha256] for item, tile in zip(items, tiles, strict=True)]
    lines = sorted(json.dumps(entry, sort_keys=True) for entry in seen)
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def _article(item: ReviewItem, tile: Tile, picture: str) -> Article:
    pair = item.pair
    found = highlight(tile, pair.source_span, pair.answer)
    boxes = _rectangles("span", found.span) + _rectangles("answer", found.answer)
    size = f'viewBox="0 0 {tile.width_px} {tile.height_px}"'
    facts = [
        ("Also right", value("; ".join(pair.aliases) or "no other form")),
        ("Source span", value(pair.source_span or "none given")),
        ("", f'<span class="places">{text(_places(tile, pair, found.places, found.found))}</span>'),
        ("Kind", value(pair.source_type)),
        ("Subject", value(pair.subject)),
        ("Page", value(tile.title)),
        ("Address", address(tile.url)),
        ("Tile", f"<code>{text(tile.tile_id)}</code>"),
        ("Asked by", value(pair.annotator)),
    ]
    decided = [("Outcome", value(item.outcome)), *((name, value(said)) for name, said in item.verdicts.items())]
    svg = f'<svg {size} preserveAspectRatio="none" aria-hidden="true">{boxes}</svg>'
    return Article(
        {"query_id": pair.query_id, "page_id": pair.page_id, "outcome": item.outcome},
        f'<div class="tile">{picture}{svg}</div>',
        pair.query,
        f'<p class="answer" dir="auto">{text(cut(pair.answer))}</p>\n',
        facts,
        decided,
        "What was decided",
    )


def picture(store: TileStore, tile: Tile, max_bytes: int) -> str:
    """The markup of the tile's picture at the size of the tile, in at most about ``max_bytes`` if that can be.

    A picture that is missing or broken is said to be so.
    """
    size = f'width="{tile.width_px}" height="{tile.height_px}"'
    try:
        image = store.image(tile.tile_id)
    except InputError:
        return f'<p class="missing">The picture of tile {text(tile.tile_id)} is missing or broken.</p>'
    image.thumbnail((MAX_SIDE_PX, MAX_SIDE_PX), Image.Resampling.LANCZOS)
    return f'<img {size} alt="The tile" src="{_small_enough(image, max_bytes)}">'


def _small_enough(image: Image.Image, max_bytes: int) -> str:
    url = ""
    for scale, quality in _LEVELS:
        size = max(1, round(image.width * scale)), max(1, round(image.height * scale))
        url = webp_url(image if scale == 1 else image.resize(size, Image.Resampling.LANCZOS), quality)
        if len(url) <= max_bytes:
            break
    return url


def _rectangles(kind: str, boxes: Sequence[Box]) -> str:
    margin = _MARGIN_PX
    return "".join(
        f'<rect class="{kind}" x="{left - margin:.1f}" y="{top - margin:.1f}"'
        f' width="{right - left + 2 * margin:.1f}" height="{bottom - top + 2 * margin:.1f}" rx="3"/>'
        for left, top, right, bottom in boxes
    )


def _places(tile: Tile, pair: QAPair, shown: int, found: int) -> str:
    """Where the span stands, in words."""
    if not pair.source_span.strip():
        return "no span was given"
    if not found:
        return "span not found in the DOM text" + ("" if tile.words else ": the tile has none")
    if shown == 1:
        return "framed in the picture" + (f"; of {found} places the one with the answer" if found > 1 else "")
    return f"{shown} of {found} places framed: each has the answer" if shown < found else f"stands in {found} places"
