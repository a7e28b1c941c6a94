"""PDFs in a real worker process: pixels, words and links at their places."""

import asyncio
import dataclasses
import io
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from tests.data_gen.pdf_files import LETTER, PAGE, SIZES, Box, joined, pdf_of, text, tiles_of

from tilewright.data_gen.images import decode_image, image_sha256
from tilewright.data_gen.paged_documents import DocumentWorker, render_document
from tilewright.data_gen.pdf_document import PdfDocument
from tilewright.data_gen.pdf_text import page_text


def test_pages_are_stacked_and_every_pixel_lies_in_one_tile(
    written: Callable[..., Path], worker: DocumentWorker
) -> None:
    boxes: list[Box] = [LETTER, (0, 0, 400, 10), (0, 0, 300, 2000), (10, 10, 110, 35.5)]
    square = b"1 0 0 rg 0 0 50 5 re f"
    path = written(pdf_of([(box, square) for box in boxes]))
    document = render_document(path, PAGE, SIZES, worker=worker)
    heights = [math.floor(875 * (box[3] - box[1]) / (box[2] - box[0]) + 0.5) for box in boxes]
    assert heights == [1132, 22, 5833, 223]
    tiles = list(document.tiles)
    assert (document.width_px, document.height_px, document.complete) == (875, sum(heights), True)
    pixels = joined(tiles, sum(heights))
    assert (pixels >= 0).all()
    assert [tile.row for tile in tiles] == list(range(len(tiles))) and len(tiles) == 2 + 1 + 6 + 1
    for top, height in zip(np.cumsum([0, *heights]), heights, strict=False):
        inside = [tile for tile in tiles if top <= tile.y_px < top + height]
        assert sum(tile.height_px for tile in inside) == height  # no tile shows two pages
    # a red square lies at the left bottom of every page, white is above it on the first
    assert tuple(pixels[1131, 0]) == (255, 0, 0) and tuple(pixels[0, 0]) == (255, 255, 255)
    assert tuple(pixels[1132 + 21, 0]) == (255, 0, 0)
    for tile in tiles:
        assert tile.tile_id == f"{PAGE.page_id}-{tile.row:04d}-00" and tile.page_id == PAGE.page_id
        assert tile.image_sha256 == image_sha256(decode_image(tile.image))


def test_tiles_have_no_seam(written: Callable[..., Path], worker: DocumentWorker) -> None:
    lines = b"".join(text(b"Line of moss %d" % y, at=(20, y)) for y in range(10, 3000, 31))
    path = written(pdf_of([((0, 0, 300, 3000), lines + b"0.5 w 0 0 m 300 3000 l S 10 5 200 2900 re S")]))
    tiles = tiles_of(path, worker)
    height_px = 8750
    whole = np.asarray(PdfDocument(path, 875, 10).rows(0, 0, height_px), dtype=np.int16)
    difference = np.abs(joined(tiles, height_px) - whole)
    assert difference.max() <= 1 and (difference > 0).mean() < 1e-2  # smoothed slanted lines
    assert not difference[:, 300:600][whole[:, 300:600].min(axis=2) == 0].any()


def test_words_blocks_and_text(written: Callable[..., Path], worker: DocumentWorker) -> None:
    content = text(b"Moss is green and soft.", b"It grows in the sha-", b"dow of tall trees.")
    content += text(b"A second paragraph.", at=(72, 600)) + text(b"On the second tile", at=(72, 50))
    first, second = tiles_of(written(pdf_of([(LETTER, content)])), worker)
    assert first.text == "Moss is green and soft. It grows in the shadow of tall trees.\nA second paragraph."
    assert second.text == "On the second tile"
    assert [block.kind for block in first.blocks] == ["paragraph", "paragraph"]
    assert all(block.whole for block in first.blocks)
    assert [word.text for word in first.words][:3] == ["Moss", "is", "green"]
    scale = 875 / 612
    moss = first.words[0]
    assert moss.x_px == pytest.approx(72 * scale, abs=0.05)
    baseline_px = (792 - 700) * scale
    assert moss.y_px < baseline_px - 8 and moss.y_px + moss.height_px == pytest.approx(baseline_px, abs=6)
    # Helvetica (Adobe's metrics): M 833, o 556, s 500, s 500 of 1000 units
    assert moss.width_px == pytest.approx((833 + 556 + 500 + 500) / 1000 * 12 * scale, rel=0.02)
    assert second.words[0].y_px == pytest.approx((792 - 50) * scale - 1024 - 12 * scale, abs=6)
    box = first.blocks[1]
    assert first.evidence_px["paragraph"] > box.width_px * box.height_px * 0.9
    assert sum(second.evidence_px.values()) == second.evidence_px["paragraph"] > 0
    # ink lies where the words are, and only there
    dark = np.asarray(decode_image(first.image).convert("L")) < 128
    for word in first.words:
        left, top = int(word.x_px), int(word.y_px)
        area = dark[top : top + math.ceil(word.height_px) + 1, left : left + math.ceil(word.width_px) + 1]
        assert area.any(), word
        dark[top : top + math.ceil(word.height_px) + 1, left : left + math.ceil(word.width_px) + 1] = False
    rows, columns = np.nonzero(dark)  # what is left is "dow", the broken word's rest, on the third line
    assert 72 * scale - 1 <= columns.min() <= columns.max() <= (72 + (556 + 556 + 722) / 1000 * 12) * scale + 1
    baseline_px = (792 - 700 + 2 * 14) * scale
    assert baseline_px - 12 * scale <= rows.min() <= rows.max() <= baseline_px + 1


def test_links(written: Callable[..., Path], worker: DocumentWorker) -> None:
    def annotation(rect: bytes, action: bytes) -> bytes:
        return b"<</Type/Annot/Subtype/Link/Border[0 0 0]/Rect[%s]/A<</S/URI/URI(%s)>>>>" % (rect, action)

    annots = b"/Annots[%s%s%s<</Type/Annot/Subtype/Link/Rect[0 0 9 9]/Dest[4 0 R/Fit]>>]" % (
        annotation(b"70 695 200 715", b"https://example.com/moss?x=1"),
        annotation(b"70 595 200 615", b"javascript:alert(1)"),
        annotation(b"70 45 200 65", b"fern.html"),
    )
    content = text(b"Moss page") + text(b"Script", at=(72, 600)) + text(b"Fern page", at=(72, 50))
    first, second = tiles_of(written(pdf_of([(LETTER, content)], annots)), worker)
    (moss,), (fern,) = first.links, second.links
    assert (moss.href, moss.anchor) == ("https://example.com/moss?x=1", "Moss page")
    scale = 875 / 612
    expected = (70 * scale, (792 - 715) * scale, 130 * scale, 20 * scale)
    assert (moss.x_px, moss.y_px, moss.width_px, moss.height_px) == pytest.approx(expected, abs=0.05)
    assert (fern.href, fern.anchor) == ("https://example.com/fern.html", "Fern page")


@pytest.mark.parametrize(("rotate", "size"), [(90, (875, 676)), (180, (875, 1132)), (270, (875, 676))])
def test_rotated_and_cropped_pages(
    written: Callable[..., Path], worker: DocumentWorker, rotate: int, size: tuple[int, int]
) -> None:
    content = text(b"Moss", at=(306, 396), size=40)
    tiles = tiles_of(written(pdf_of([(LETTER, content)], b"/Rotate %d" % rotate)), worker)
    assert (tiles[0].width_px, sum(tile.height_px for tile in tiles)) == size
    dark = joined(tiles, size[1]).min(axis=2) < 128
    rows, columns = np.nonzero(dark)
    (word,) = (word for tile in tiles for word in tile.words)
    assert word.text == "Moss"
    assert word.x_px - 3 <= columns.min() <= columns.max() <= word.x_px + word.width_px + 3
    assert word.y_px - 3 <= rows.min() <= rows.max() <= word.y_px + word.height_px + 3
    cropped = tiles_of(written(pdf_of([(LETTER, content)], b"/CropBox[300 390 500 440]")), worker)
    (crop,) = cropped
    assert (crop.width_px, crop.height_px) == (875, math.floor(875 * 50 / 200 + 0.5))
    assert crop.words[0].x_px == pytest.approx(6 * 875 / 200, abs=0.1)


def test_a_scan_has_no_words(written: Callable[..., Path], worker: DocumentWorker) -> None:
    picture = io.BytesIO()
    Image.effect_noise((100, 130), 80).convert("RGB").save(picture, "PDF")
    (*tiles,) = tiles_of(written(picture.getvalue()), worker)
    assert [tile.text for tile in tiles] == [""] * len(tiles)
    assert np.asarray(decode_image(tiles[0].image)).std() > 20


@pytest.mark.parametrize(("image_format", "magic"), [("png", b"\x89PNG"), ("webp", b"RIFF"), ("jpeg", b"\xff\xd8")])
def test_encodings(written: Callable[..., Path], worker: DocumentWorker, image_format: str, magic: bytes) -> None:
    path = written(pdf_of([(LETTER, text(b"Moss") + b"1 0 0 rg 50 50 200 300 re f")]))
    sizes = dataclasses.replace(SIZES, image_format=image_format, jpeg_quality=80)
    for tile, lossless in zip(tiles_of(path, worker, sizes), tiles_of(path, worker), strict=True):
        assert tile.image.startswith(magic) and image_sha256(decode_image(tile.image)) == tile.image_sha256
        assert (tile.image_sha256 == lossless.image_sha256) == (image_format != "jpeg")


def test_the_same_bytes_every_time(written: Callable[..., Path], worker: DocumentWorker) -> None:
    path = written(pdf_of([(LETTER, text(b"Moss is green"))] * 2))
    with DocumentWorker() as other:
        assert tiles_of(path, worker) == tiles_of(path, other)


def test_characters_to_words() -> None:
    def characters(lines: Sequence[str], top: float = 0.0) -> list[tuple[int, Box]]:
        return [
            (ord(char), (10.0 * column, top + 12.0 * row, 10.0, 11.0))
            for row, line in enumerate(lines)
            for column, char in enumerate(line)
        ]

    words, boxes = page_text(characters(["ab c\n", "d\n"]) + characters(["far\n"], top=60.0))
    assert words == [
        ["ab", 0.0, 0.0, 20.0, 11.0, 0],
        ["c", 30.0, 0.0, 10.0, 11.0, 0],
        ["d", 0.0, 12.0, 10.0, 11.0, 0],
        ["far", 0.0, 60.0, 30.0, 11.0, 1],
    ]
    assert boxes == [(0.0, 0.0, 40.0, 23.0), (0.0, 60.0, 30.0, 11.0)]
    pair = [(0xD83C, (0.0, 0.0, 9.0, 9.0)), (0xDF3F, (0.0, 0.0, 9.0, 9.0)), (0xFFFE, (0.0, 0.0, 0.0, 0.0))]
    assert page_text(pair)[0] == [["\U0001f33f", 0.0, 0.0, 9.0, 9.0, 0]]
    assert page_text([(0xDF3F, (0.0, 0.0, 9.0, 9.0))])[0][0][0] == "\ufffd"
    assert page_text([]) == ([], [])


@pytest.mark.browser
def test_a_page_printed_by_chromium(tmp_path: Path, worker: DocumentWorker, start_chromium: Any) -> None:
    from playwright.async_api import async_playwright

    words = [f"word{number}" for number in range(700)]
    html = f"<h1>Moss</h1><p>{' '.join(words)}</p><p>See <a href='https://example.com/fern'>the fern page</a>.</p>"

    async def print_it() -> None:
        async with async_playwright() as playwright:
            browser = await start_chromium(playwright)
            page = await browser.new_page()
            await page.set_content(html)
            await page.pdf(path=str(tmp_path / "a.pdf"), format="A5")
            await browser.close()

    asyncio.run(print_it())
    tiles = tiles_of(tmp_path / "a.pdf", worker)
    shown = " ".join(tile.text for tile in tiles).split()
    assert shown == ["Moss", *words, "See", "the", "fern", "page."]
    (link,) = (link for tile in tiles for link in tile.links)
    assert (link.href, link.anchor) in [("https://example.com/fern", "the fern page" + end) for end in ("", ".")]
