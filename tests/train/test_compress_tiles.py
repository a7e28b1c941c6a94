"""Compressed tile stores: what changes, what stays, that they verify, and that a run goes on where it stopped."""

import dataclasses
import io
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image, ImageDraw

from tilewright.configs.digests import output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.stage import run_stage
from tilewright.data_gen.images import decode_image, encode_png, image_sha256
from tilewright.data_gen.records import Block, Link, Page, Tile, Word, read_jsonl, write_jsonl
from tilewright.data_gen.span_boxes import highlight
from tilewright.data_gen.store.verify import verify
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.train.compress import compress, size
from tilewright.train.compress_tiles import STAGE, Config, compress_tiles, compressed

WIDTH, HEIGHT = 175, 128
BOX = (40.0, 50.0, 60.0, 20.0)  # x, y, width, height of the one dark word of a tile


def tile(page: int = 0, row: int = 0, height: int = HEIGHT) -> Tile:
    """A light tile of uneven grey with a dark word in BOX, which is in a block and a link, too."""
    image = Image.fromarray(np.random.default_rng(100 * page + row).integers(200, 255, (height, WIDTH, 3), np.uint8))
    ImageDraw.Draw(image).rectangle((BOX[0], BOX[1], BOX[0] + BOX[2] - 1, BOX[1] + BOX[3] - 1), fill=(0, 0, 0))
    page_id = f"{page:016x}"
    return Tile(
        tile_id=f"{page_id}-{row:04d}-00",
        page_id=page_id,
        url=f"http://localhost/{page}",
        title=f"Page {page}",
        row=row,
        column=0,
        x_px=0,
        y_px=row * HEIGHT,
        width_px=WIDTH,
        height_px=height,
        image=encode_png(image),
        image_sha256=image_sha256(image),
        text="Nairobi",
        evidence_px={"infobox": 0, "table": 0, "list": WIDTH * height // 3, "paragraph": WIDTH * height // 2},
        words=(Word("Nairobi", *BOX, 0),),
        blocks=(Block("paragraph", "Nairobi", (), (), "", "", True, *BOX),),
        links=(Link("http://localhost/1", "Nairobi", *BOX),),
    )


def write_corpus(folder: Path, tiles: list[Tile]) -> Path:
    """A folder as render_tiles leaves it: the store and, for each page, a complete record."""
    write_store(folder / "store", tiles)
    pages: dict[str, Page] = {}
    for item in tiles:
        known = pages.get(item.page_id, Page(item.page_id, item.url, item.title, "", "test", WIDTH, 0, True))
        pages[item.page_id] = dataclasses.replace(
            known, height_px=known.height_px + item.height_px, tile_count=known.tile_count + 1
        )
    write_jsonl(folder / "pages.jsonl", pages.values())
    return folder


def corpus(folder: Path) -> Path:
    """Five pages, of one to three tiles; the last tile of a page is lower."""
    rows = [(page, row, page % 3) for page in range(5) for row in range(1 + page % 3)]
    return write_corpus(folder, [tile(page, row, HEIGHT if row < last else 91) for page, row, last in rows])


def run(folder: Path, out: Path, **options: Any) -> TileStore:
    run_stage(STAGE, Config(**{"out": out, "tiles": folder, "compression": 4.0} | options))
    return TileStore.open(out)


@pytest.mark.parametrize("options", [{}, {"image_format": "webp"}, {"image_format": "jpeg", "compression": 2.5}])
def test_the_store_verifies_and_keeps_ids_texts_and_places(tmp_path: Path, options: dict[str, Any]) -> None:
    before = TileStore.open(corpus(tmp_path / "tiles"))
    assert not verify(tmp_path / "tiles").problems
    after = run(tmp_path / "tiles", tmp_path / "small", **options)
    report = verify(tmp_path / "small")
    assert not report.problems and report.counts["boxes_outside_tiles"] == 0
    assert list(after.tile_ids) == list(before.tile_ids)
    same = ("tile_id", "page_id", "url", "title", "row", "column", "x_px", "y_px", "text")
    for old, new in zip(before, after, strict=True):
        assert [getattr(new, name) for name in same] == [getattr(old, name) for name in same]
        assert after.size_px(new.tile_id) == size(old.width_px, old.height_px, options.get("compression", 4.0))
    pages = read_jsonl(tmp_path / "small/pages.jsonl", Page)
    assert pages == [dataclasses.replace(p, complete=False) for p in read_jsonl(tmp_path / "tiles/pages.jsonl", Page)]


@pytest.mark.parametrize("image_format", ["png", "webp"])
def test_pictures_are_those_of_compress_bit_by_bit(image_format: Any) -> None:
    small = compressed(tile(), 3.0, image_format)
    wanted = compress(decode_image(tile().image), 3.0)
    assert decode_image(small.image).tobytes() == wanted.tobytes() and wanted.size != (WIDTH, HEIGHT)
    with Image.open(io.BytesIO(small.image)) as image:
        assert image.format == image_format.upper()


def test_the_word_stands_where_the_boxes_say() -> None:
    small = compressed(tile(), 4.0)
    pixels = np.asarray(decode_image(small.image).convert("L"))
    (box,) = highlight(small, "Nairobi", "Nairobi").span
    left, top, right, bottom = (round(value) for value in box)
    assert pixels[top + 2 : bottom - 2, left + 2 : right - 2].max() < 40
    outside = pixels.copy()
    outside[top - 2 : bottom + 2, left - 2 : right + 2] = 255
    assert outside.min() > 180


def test_compression_1_changes_nothing_but_the_encoding() -> None:
    assert dataclasses.replace(compressed(tile(), 1.0), image=tile().image) == tile()


@settings(max_examples=30, deadline=None)
@given(compression=st.floats(1, 30), x=st.floats(0, WIDTH), y=st.floats(0, HEIGHT), part=st.integers(0, WIDTH * HEIGHT))
def test_boxes_stay_inside_and_shares_of_the_picture_stay(compression: float, x: float, y: float, part: int) -> None:
    evidence = {"infobox": part, "table": WIDTH * HEIGHT - part, "list": 0, "paragraph": 0}
    word = Word("at", x, y, WIDTH - x, HEIGHT - y, -1)
    small = compressed(dataclasses.replace(tile(), words=(word,), evidence_px=evidence), compression)
    (box,) = small.words
    assert box.x_px + box.width_px == pytest.approx(small.width_px)
    assert box.y_px + box.height_px == pytest.approx(small.height_px)
    area = small.width_px * small.height_px
    assert area - 2 <= sum(small.evidence_px.values()) <= area
    assert abs(small.evidence_px["infobox"] - part / (WIDTH * HEIGHT) * area) <= 1


def test_a_run_that_stopped_goes_on_and_ends_in_the_same_bytes(tmp_path: Path) -> None:
    whole = corpus(tmp_path / "tiles")
    run(whole, tmp_path / "once")
    tiles = list(TileStore.open(whole))
    broken = [*tiles[:-1], dataclasses.replace(tiles[-1], image=b"no picture")]
    write_corpus(tmp_path / "broken", broken)
    out = tmp_path / "again"
    out.mkdir()
    config = Config(out=out, tiles=whole, compression=4.0, threads=1)
    with pytest.raises(InputError, match=tiles[-1].tile_id):
        compress_tiles(config, {"tiles": tmp_path / "broken"}, out)
    journal = (out / ".journal.jsonl").read_bytes()
    assert journal.count(b"\n") > 0
    counts = compress_tiles(config, {"tiles": whole}, out)
    assert (out / ".journal.jsonl").read_bytes().startswith(journal), "finished pages aren't made again"
    assert output_digests(out) == output_digests(tmp_path / "once")
    assert counts == json.loads((tmp_path / "once/manifest.json").read_text())["counts"]


def test_threads_don_t_change_the_bytes_and_counts_say_what_was_saved(tmp_path: Path) -> None:
    folder = corpus(tmp_path / "tiles")
    for threads in (1, 5):
        run(folder, tmp_path / f"by_{threads}", threads=threads)
    assert output_digests(tmp_path / "by_1") == output_digests(tmp_path / "by_5")
    counts = json.loads((tmp_path / "by_1/manifest.json").read_text())["counts"]
    sums = [sum(len(item.image) for item in TileStore.open(place)) for place in (folder, tmp_path / "by_1")]
    assert [counts["image_bytes_before"], counts["image_bytes"]] == sums and sums[1] < sums[0] / 2
    assert (counts["pages"], counts["tiles"]) == (5, 9)


def test_a_bare_store_needs_no_page_records(tmp_path: Path) -> None:
    write_store(tmp_path / "bare", [tile()])
    assert len(run(tmp_path / "bare", tmp_path / "small")) == 1
    assert not (tmp_path / "small/pages.jsonl").exists()


def test_what_cannot_be_compressed_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="without its image"):
        compressed(dataclasses.replace(tile(), image=b""), 4.0)
    with pytest.raises(ValueError, match=r"at least 1, found 0\.5"):
        Config(out=tmp_path, tiles=tmp_path, compression=0.5)
    write_store(tmp_path / "empty", [])
    with pytest.raises(InputError, match="nothing to compress"):
        compress_tiles(
            Config(out=tmp_path, tiles=tmp_path, compression=2.0), {"tiles": tmp_path / "empty"}, tmp_path / "empty"
        )


def test_an_id_that_is_a_path_writes_nothing_elsewhere(tmp_path: Path) -> None:
    """A store's files as no writer of ours makes them."""
    source = tmp_path / "a/b/c/d/tiles"
    source.mkdir(parents=True)
    write_store(source / "store", [tile()])
    for path in (source / "store").glob("*.*"):
        path.write_bytes(path.read_bytes().replace(tile().page_id.encode(), b"../../../../evil"))
    with pytest.raises(InputError, match=r"tile_id '\.\./.*evil-0000-00': wanted \{16 hex\}"):
        run(source, source.with_name("out"))
    assert not list(tmp_path.rglob("evil*"))
