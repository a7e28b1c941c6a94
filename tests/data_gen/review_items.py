"""What the tests of the review page are made of: tiles with a marked span, and pairs, one of them hostile."""

import dataclasses
import io
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image, ImageDraw

from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import Block, QAPair, Tile, Word
from tilewright.data_gen.review import ReviewItem
from tilewright.data_gen.tile_store import TileStore, write_store

HOSTILE = "<script>window.hacked=1</script><img src=x onerror=window.hacked=2>\"'&</title></article>{0}\x00\u202e"
SPAN_BOX = (300, 640, 420, 664)  # of the two words of the span "42 km", in tile px
INSIDE, OUTSIDE = (0, 0, 255), (255, 255, 255)


def pair_of(number: int, **changes: Any) -> QAPair:
    texts = (f"Question {number}?", "42 km", ("42 kilometres",), "t", "p", "42 km", "infobox", "Light", "grounded/1")
    return dataclasses.replace(QAPair(f"q{number}", *texts), **changes)


def tile_of(make_tile: Callable[..., Tile], make_block: Callable[..., Block], number: int) -> Tile:
    image = Image.new("RGB", (875, 1024), OUTSIDE)
    left, top, right, bottom = SPAN_BOX
    for x0, x1 in ((left, left + 40), (left + 50, right)):
        ImageDraw.Draw(image).rectangle((x0, top, x1 - 1, bottom - 1), fill=INSIDE)
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    words = (
        Word("Range", 100.0, float(top), 80.0, 24.0, 0),
        Word("42", float(left), float(top), 40.0, 24.0, 0),
        Word("km", left + 50.0, float(top), right - left - 50.0, 24.0, 0),
    )
    title = HOSTILE if number == 4 else f"Light {number}"
    made = make_tile(title, [make_block("infobox_row", "Range 42 km")])
    url = "javascript:window.hacked=3" if number == 4 else made.url
    return dataclasses.replace(
        made, image=buffer.getvalue(), image_sha256=image_sha256(image), words=() if number == 3 else words, url=url
    )


def write(folder: Path, tiles: list[Tile]) -> Path:
    write_store(folder, sorted(tiles, key=lambda tile: tile.tile_id))
    return folder


def items_of(store: TileStore) -> list[ReviewItem]:
    """A pair a tile, ordered by title: plain ones, one whose span isn't there, the hostile one."""
    tiles = sorted(store.iterate_light(), key=lambda tile: (tile.title == HOSTILE, tile.title))
    items = []
    for number, tile in enumerate(tiles):
        pair = pair_of(number, tile_id=tile.tile_id, page_id=tile.page_id)
        items.append(ReviewItem(pair, ("kept", "wrong")[number % 2], {"judge": f"said {number}"}))
    items[2] = dataclasses.replace(items[2], pair=dataclasses.replace(items[2].pair, source_span="420 km"))
    pair = dataclasses.replace(
        items[4].pair, query_id=f"{HOSTILE}\ud800", query=HOSTILE, answer=HOSTILE, aliases=(HOSTILE,), subject=HOSTILE,
        source_span=HOSTILE, source_type=HOSTILE, annotator=HOSTILE,
    )  # fmt: skip
    items[4] = ReviewItem(pair, HOSTILE, {HOSTILE: HOSTILE, "long": "x" * 9000})
    return items
