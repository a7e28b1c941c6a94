"""Tiles of small pages, and batches and shards so small that a few tiles fill many of them."""

import dataclasses
from collections.abc import Callable
from pathlib import Path

import pytest
from PIL import Image

from tilewright.data_gen.images import encode_png, image_sha256
from tilewright.data_gen.records import Block, Link, Page, Tile, Word, write_jsonl
from tilewright.data_gen.store import shards
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.data_gen.tiles import tile_boxes, tile_id
from tilewright.data_gen.urls import page_id

MakePage = Callable[..., list[Tile]]
PX = 40


def page_of(tiles: list[Tile], **changes: object) -> Page:
    """The complete page that ``tiles`` cover."""
    size = {
        "width_px": max(tile.x_px + tile.width_px for tile in tiles),
        "height_px": max(tile.y_px + tile.height_px for tile in tiles),
    }
    first = tiles[0]
    page = Page(first.page_id, first.url, first.title, "", "test", complete=True, tile_count=len(tiles), **size)
    return dataclasses.replace(page, **changes)  # type: ignore[arg-type]


@pytest.fixture
def make_page() -> MakePage:
    """make_page("Warsaw", height_px=100) -> the tiles that cover a page of that title, 40 px high each."""

    def make(title: str, height_px: int = 3 * PX, width_px: int = PX, shade: int = 0) -> list[Tile]:
        url = f"https://example.com/wiki/{title}"
        key = page_id(url)
        tiles = []
        for box in tile_boxes(width_px, height_px, PX, PX, 8):
            image = Image.effect_noise((box.width_px, box.height_px), 60).convert("RGB")  # doesn't compress
            image.putpixel((0, 0), (shade, box.row % 256, box.column % 256))
            words = tuple(Word(f"{title}{number}", 1.0, 2.0, 3.0, 4.0, 0) for number in range(box.row % 3))
            tile = Tile(
                tile_id(key, box.row, box.column),
                key,
                url,
                title,
                **dataclasses.asdict(box),
                image=encode_png(image),
                image_sha256=image_sha256(image),
                text=f"{title} {box.row}\n🙂",
                evidence_px={"infobox": 1, "table": 2, "list": 3, "paragraph": box.row},
                words=words,
                blocks=(Block("table_row", "x", ("x", ""), ("", "Head"), "S", "C", True, 0.0, 1.0, 2.0, 3.0),)
                * (box.row % 2),
                links=(Link("https://example.com/", "x", 1.0, 2.0, 3.0, 4.0),) * (box.column % 2),
            )
            tiles.append(tile)
        return tiles

    return make


@pytest.fixture
def small_batches(monkeypatch: pytest.MonkeyPatch) -> None:
    """A batch takes about two tiles."""
    monkeypatch.setattr(shards, "BATCH_BYTES", 6_000)


@pytest.fixture
def write_corpus() -> Callable[..., TileStore]:
    """write_corpus(folder, pages) -> the store of a folder with ``store/`` and ``pages.jsonl``."""

    def write(folder: Path, pages: list[list[Tile]], **options: int) -> TileStore:
        tiles = sorted((tile for page in pages for tile in page), key=lambda tile: tile.tile_id)
        write_store(folder / "store", tiles, **options)
        records = sorted((page_of(page) for page in pages), key=lambda page: page.page_id)
        write_jsonl(folder / "pages.jsonl", records)
        return TileStore.open(folder)

    return write
