"""PDFs in a real worker process: pixels, words and links at their places; hostile files fail alone, by name."""

import asyncio
import contextlib
import dataclasses
import hashlib
import io
import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.configs.load import load
from tilewright.configs.stage import run_stage
from tilewright.data_gen.images import decode_image, image_sha256
from tilewright.data_gen.make_pages import STAGE, Config
from tilewright.data_gen.paged_documents import DocumentSizes, DocumentWorker, render_document
from tilewright.data_gen.pdf_document import PdfDocument
from tilewright.data_gen.pdf_text import page_text
from tilewright.data_gen.records import Page, Tile, read_jsonl
from tilewright.data_gen.sources.pictures import PdfFolder, iso_date

PAGE = Page("0" * 16, "https://example.com/a.pdf", "A", "documents/a.pdf", "pdf")
SIZES = DocumentSizes(page_timeout_s=30.0)
LETTER = (0, 0, 612, 792)
Box = tuple[float, float, float, float]


def pdf_bytes(objects: Sequence[bytes], trailer: bytes = b"") -> bytes:
    """A PDF of these objects, numbered from 1, the first of them its catalog."""
    out, places = b"%PDF-1.7\n", []
    for number, body in enumerate(objects, start=1):
        places.append(len(out))
        out += b"%d 0 obj\n%s\nendobj\n" % (number, body)
    rows = b"".join(b"%010d 00000 n \n" % place for place in places)
    table = b"xref\n0 %d\n0000000000 65535 f \n%s" % (len(objects) + 1, rows)
    end = b"trailer\n<</Size %d/Root 1 0 R%s>>\nstartxref\n%d\n%%%%EOF\n" % (len(objects) + 1, trailer, len(out))
    return out + table + end


def stream(data: bytes, fields: bytes = b"") -> bytes:
    return b"<</Length %d%s>>stream\n%s\nendstream" % (len(data), fields, data)


def pdf_of(
    pages: Sequence[tuple[Box, bytes]], page_fields: bytes = b"", trailer: bytes = b"", info: bytes = b""
) -> bytes:
    """A PDF of (media box, content) pages in Helvetica."""
    kids = b" ".join(b"%d 0 R" % (4 + 2 * i) for i in range(len(pages)))
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[%s]/Count %d>>" % (kids, len(pages)),
        b"<</Type/Font/Subtype/Type1/BaseFont/Helvetica>>",
    ]
    for i, (box, content) in enumerate(pages):
        sides = b" ".join(b"%g" % side for side in box)
        shown = b"/Contents %d 0 R/Resources<</Font<</F1 3 0 R>>>>" % (5 + 2 * i)
        objects += [b"<</Type/Page/Parent 2 0 R/MediaBox[%s]%s%s>>" % (sides, shown, page_fields), stream(content)]
    if info:
        objects.append(info)
        trailer += b"/Info %d 0 R" % len(objects)
    return pdf_bytes(objects, trailer)


def text(*lines: bytes, at: tuple[int, int] = (72, 700), size: int = 12) -> bytes:
    shown = b" T* ".join(b"(%s) Tj" % line for line in lines)
    return b"BT /F1 %d Tf %d TL %d %d Td %s ET " % (size, size + 2, *at, shown)


@pytest.fixture
def written(tmp_path: Path) -> Callable[..., Path]:
    def write(data: bytes, name: str = "a.pdf") -> Path:
        (tmp_path / name).write_bytes(data)
        return tmp_path / name

    return write


@pytest.fixture(scope="module")
def worker() -> DocumentWorker:
    with DocumentWorker() as shared:
        yield shared  # type: ignore[misc]


def tiles_of(path: Path, worker: DocumentWorker, sizes: DocumentSizes = SIZES) -> list[Tile]:
    return list(render_document(path, PAGE, sizes, worker=worker).tiles)


def joined(tiles: Sequence[Tile], height_px: int) -> np.ndarray:
    """The pixels of all tiles at their places; -1 where there are none. Fails where two overlap."""
    page = np.full((height_px, 875, 3), -1, dtype=np.int16)
    for tile in tiles:
        place = (slice(tile.y_px, tile.y_px + tile.height_px), slice(tile.x_px, tile.x_px + tile.width_px))
        assert (page[place] == -1).all()
        page[place] = np.asarray(decode_image(tile.image))
    return page


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


def encrypted() -> bytes:
    entry = b"/Encrypt<</Filter/Standard/V 1/R 2/O<%s>/U<%s>/P -4>>/ID[<00><00>]" % (b"41" * 32, b"42" * 32)
    return pdf_of([(LETTER, text(b"Secret"))], trailer=entry)


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (encrypted(), "a.pdf: encrypted"),
        (b"", "a.pdf: not a PDF"),
        (b"no PDF at all" * 99, "a.pdf: not a PDF"),
        (b"%PDF-1.7\n" + bytes(500), "a.pdf: not a PDF"),
        (pdf_of([]), "a.pdf: (0 pages|not a PDF)"),
        (pdf_of([((0, 0, 100, 100), b"")] * 11), "a.pdf: 11 pages; .*max_pages = 10"),
        (pdf_of([((0, 0, 1, 14400), b"")]), r"a.pdf: 12600000 px high, max_height_px is 8000000"),
    ],
    ids=["encrypted", "empty", "foreign", "broken", "no pages", "many pages", "too high"],
)
def test_unusable_files_are_named(
    written: Callable[..., Path], worker: DocumentWorker, data: bytes, reason: str
) -> None:
    with pytest.raises(ItemError, match=reason):
        tiles_of(written(data), worker, dataclasses.replace(SIZES, max_pages=10))
    assert tiles_of(written(pdf_of([(LETTER, text(b"Moss"))])), worker)[0].text == "Moss"  # the worker goes on


def test_a_huge_page(written: Callable[..., Path], worker: DocumentWorker) -> None:
    content = text(b"Top", at=(20, 14950)) + text(b"Bottom", at=(20, 5))
    tiles = tiles_of(written(pdf_of([((0, 0, 200, 15000), content)])), worker)
    assert sum(tile.height_px for tile in tiles) == 65625 and len(tiles) == 65
    assert (tiles[0].text, tiles[-1].text) == ("Top", "Bottom")
    (wide,) = tiles_of(written(pdf_of([((0, 0, 15000, 15000), b"0 0 7500 7500 re f")])), worker)
    pixels = np.asarray(decode_image(wide.image))
    assert pixels.shape == (875, 875, 3) and pixels[870, 5].max() == 0 and pixels[5, 870].min() == 255


def test_five_thousand_pages_and_chosen_tiles(written: Callable[..., Path], worker: DocumentWorker) -> None:
    data = pdf_of([((0, 0, 100, 50), text(b"Page %d" % number, at=(5, 10))) for number in range(5000)])
    document = render_document(written(data), PAGE, SIZES, choose=lambda boxes: [boxes[0], boxes[4321]], worker=worker)
    assert len(document.boxes) == 5000 and document.height_px == 5000 * 438 and not document.complete
    first, later = document.tiles
    assert (first.text, later.text) == ("Page 0", "Page 4321")
    assert (later.row, later.y_px, later.tile_id[17:]) == (4321, 4321 * 438, "4321-00")


def endless() -> bytes:
    """Forms that draw each other: 10 ** 20 squares."""
    objects = [
        b"<</Type/Catalog/Pages 2 0 R>>",
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>",
        b"<</Type/Page/Parent 2 0 R/MediaBox[0 0 99 99]/Contents 4 0 R/Resources<</XObject<</X 5 0 R>>>>>>",
        stream(b"/X Do"),
    ]
    for level in range(20):
        inner = b"/Resources<</XObject<</X %d 0 R>>>>" % (6 + level)
        objects.append(stream(b"/X Do " * 10, b"/Type/XObject/Subtype/Form/BBox[0 0 99 99]" + inner))
    objects.append(stream(b"0 0 9 9 re f", b"/Type/XObject/Subtype/Form/BBox[0 0 99 99]"))
    return pdf_bytes(objects)


def test_a_page_that_hangs_is_killed(written: Callable[..., Path]) -> None:
    with DocumentWorker() as worker:
        assert tiles_of(written(pdf_of([(LETTER, text(b"Moss"))])), worker)
        pid, started = worker.pid, time.monotonic()
        with pytest.raises(ItemError, match=r"endless\.pdf: took more than page_timeout_s = 1 s"):
            tiles_of(written(endless(), "endless.pdf"), worker, dataclasses.replace(SIZES, page_timeout_s=1.0))
        assert time.monotonic() - started < 60
        assert pid is not None and not Path(f"/proc/{pid}").exists()
        assert tiles_of(written(pdf_of([(LETTER, text(b"Moss"))])), worker)[0].text == "Moss"
        assert worker.pid not in (None, pid)


def test_a_crash_is_named_and_the_next_document_is_drawn(written: Callable[..., Path]) -> None:
    path = written(pdf_of([(LETTER, text(b"Page %d" % number)) for number in range(3)]))
    with DocumentWorker() as worker:
        tiles_of(path, worker)
        assert worker.pid is not None
        timer = threading.Timer(0.5, os.kill, (worker.pid, signal.SIGSEGV))
        timer.start()
        with pytest.raises(ItemError, match=r"endless\.pdf: its decoder crashed"):
            tiles_of(written(endless(), "endless.pdf"), worker)
        assert [tile.text for tile in tiles_of(path, worker) if tile.text] == ["Page 0", "Page 1", "Page 2"]


def test_a_worker_that_is_killed_between_pages_is_started_anew(written: Callable[..., Path]) -> None:
    path = written(pdf_of([(LETTER, text(b"Page %d" % number)) for number in range(3)]))
    with DocumentWorker() as worker:
        tiles = render_document(path, PAGE, SIZES, worker=worker).tiles
        first = next(tiles)
        assert worker.pid is not None
        os.kill(worker.pid, signal.SIGKILL)
        os.waitid(os.P_PID, worker.pid, os.WEXITED | os.WNOWAIT)
        assert [first, *tiles] == tiles_of(path, worker)


def test_two_documents_in_turn_share_a_worker(written: Callable[..., Path], worker: DocumentWorker) -> None:
    paths = [written(pdf_of([(LETTER, text(b"%d of %d" % (i, n))) for i in range(3)]), f"{n}.pdf") for n in (1, 2)]
    streams = [render_document(path, PAGE, SIZES, worker=worker).tiles for path in paths]
    pairs = list(zip(*streams, strict=True))
    assert [(a.text, b.text) for a, b in pairs if a.text] == [(f"{i} of 1", f"{i} of 2") for i in range(3)]


def test_a_document_without_a_worker_ends_its_own(written: Callable[..., Path]) -> None:
    def children() -> set[str]:
        tasks = Path(f"/proc/{os.getpid()}/task").iterdir()
        return {pid for task in tasks for pid in (task / "children").read_text().split()}

    before = children()
    path = written(pdf_of([(LETTER, text(b"Moss"))]))
    document = render_document(path, PAGE, SIZES)
    assert children() - before
    assert next(document.tiles).text == "Moss"
    document.tiles.close()  # type: ignore[attr-defined]
    assert not children() - before
    with pytest.raises(ItemError):
        render_document(written(b"no PDF", "b.pdf"), PAGE, SIZES)
    assert not children() - before


@pytest.mark.parametrize(("image_format", "magic"), [("png", b"\x89PNG"), ("webp", b"RIFF"), ("jpeg", b"\xff\xd8")])
def test_encodings(written: Callable[..., Path], worker: DocumentWorker, image_format: str, magic: bytes) -> None:
    path = written(pdf_of([(LETTER, text(b"Moss") + b"1 0 0 rg 50 50 200 300 re f")]))
    sizes = dataclasses.replace(SIZES, image_format=image_format, jpeg_quality=80)
    for tile, lossless in zip(tiles_of(path, worker, sizes), tiles_of(path, worker), strict=True):
        assert tile.image.startswith(magic) and image_sha256(decode_image(tile.image)) == tile.image_sha256
        assert (tile.image_sha256 == lossless.image_sha256) == (image_format != "jpeg")


def test_damaged_files_are_drawn_or_named(written: Callable[..., Path], worker: DocumentWorker) -> None:
    content = text(b"Moss is green and soft.", b"It grows.")
    data, drawn = pdf_of([(LETTER, content)] * 2, info=b"<</Title(Moss)>>"), 0
    for seed in range(40):
        chance, damaged = random.Random(seed), bytearray(data)
        for _ in range(chance.choice((1, 3, 10))):
            damaged[chance.randrange(len(damaged))] = chance.randrange(256)
        with contextlib.suppress(ItemError):
            drawn += bool(tiles_of(written(bytes(damaged)), worker))
    assert 0 < drawn < 40


def test_a_worker_ends_with_its_parent(written: Callable[..., Path]) -> None:
    """Even if it hangs in a document while the parent is killed."""
    program = (
        "import sys, threading, time; from pathlib import Path\n"
        "from tilewright.data_gen.paged_documents import *; from tilewright.data_gen.records import Page\n"
        "page = Page('0' * 16, 'https://example.com/', '', '', 'pdf')\n"
        "worker, path = DocumentWorker(), Path(sys.argv[1])\n"
        "document = render_document(path, page, DocumentSizes(), worker=worker)\n"
        "print(worker.pid, flush=True)\n"
        "list(document.tiles)\n"
    )
    path = written(endless(), "endless.pdf")
    parent = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert parent.stdout is not None
    pid = int(parent.stdout.readline())
    time.sleep(0.3)
    assert Path(f"/proc/{pid}").exists()
    parent.kill()
    parent.wait()
    parent.stdout.close()
    deadline = time.monotonic() + 10
    while _is_alive(pid) and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _is_alive(pid)


def _is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


def test_the_same_bytes_every_time(written: Callable[..., Path], worker: DocumentWorker) -> None:
    path = written(pdf_of([(LETTER, text(b"Moss is green"))] * 2))
    with DocumentWorker() as other:
        assert tiles_of(path, worker) == tiles_of(path, other)


def test_the_source_titles_dates_and_failures(written: Callable[..., Path], tmp_path: Path) -> None:
    info = b"<</Title(All of\nmoss)/ModDate(D:20240131120000+01'00')>>"
    (tmp_path / "in" / "sub").mkdir(parents=True)
    titled = pdf_of([(LETTER, text(b"Moss"))], info=info)
    (tmp_path / "in" / "sub" / "moss one.PDF").write_bytes(titled)
    (tmp_path / "in" / "plain.pdf").write_bytes(pdf_of([(LETTER, b"")]))
    (tmp_path / "in" / "secret.pdf").write_bytes(encrypted())
    (tmp_path / "in" / "empty.pdf").write_bytes(b"")
    (tmp_path / "in" / "notes.txt").write_text("no PDF")
    entries = list(PdfFolder(tmp_path / "in", "https://example.com/docs").entries(Counter()))
    assert [(entry.url, entry.title) for entry in entries] == [
        ("https://example.com/docs/empty.pdf", "empty"),
        ("https://example.com/docs/plain.pdf", "plain"),
        ("https://example.com/docs/secret.pdf", "secret"),
        ("https://example.com/docs/sub/moss one.PDF", "All of moss"),
    ]
    options = {"source": "pdf", "workers": 2, "path": tmp_path / "in", "base_url": "https://example.com/docs"}
    manifest = run_stage(STAGE, Config(out=tmp_path / "out", max_error_share=0.5, **options))
    assert (manifest["counts"]["pages"], manifest["counts"]["failed"]) == (2, 2)
    errors = (tmp_path / "out" / "logs" / "errors.jsonl").read_text()
    assert "encrypted" in errors and "0 bytes" in errors
    page = next(page for page in read_jsonl(tmp_path / "out" / "pages.jsonl", Page) if "moss" in page.url)
    assert page.html_path == f"documents/{page.page_id}.pdf" and page.fetched == "2024-01-31T11:00:00Z"
    stored = tmp_path / "out" / page.html_path
    assert page.content_sha256 == hashlib.sha256(titled).hexdigest() and stored.read_bytes() == titled
    assert [tile.text for tile in render_document(stored, page, SIZES).tiles] == ["Moss", ""]


def test_the_stage_survives_a_kill(
    tmp_path: Path, kill_once_journalled: Callable[[list[str], Path, int], None]
) -> None:
    (tmp_path / "in").mkdir()
    for number in range(50):
        (tmp_path / "in" / f"{number:02d}.pdf").write_bytes(pdf_of([(LETTER, text(b"Page %d" % number))]))
    for name in ("killed", "whole"):
        config = f"kind: stage\nsource: pdf\nworkers: 2\npath: in\nbase_url: https://example.com/\nout: {name}\n"
        (tmp_path / f"{name}.yaml").write_text(config)
    kill_once_journalled(["tilewright.data_gen.make_pages", str(tmp_path / "killed.yaml")], tmp_path / "killed", 10)
    for name in ("killed", "whole"):
        run_stage(STAGE, load(tmp_path / f"{name}.yaml", Config))
    killed, whole = (
        {
            path.relative_to(tmp_path / name): path.read_bytes()
            for path in (tmp_path / name).rglob("*")
            if path.is_file()
        }
        for name in ("killed", "whole")
    )
    manifests = [json.loads(files.pop(Path("manifest.json"))) for files in (killed, whole)]
    assert manifests[0]["outputs"] == manifests[1]["outputs"] and manifests[0]["counts"] == manifests[1]["counts"]
    assert manifests[0]["counts"]["pages"] == 50
    assert {path for path in killed if path.parts[0] != "logs"} == {path for path in whole if path.parts[0] != "logs"}


def test_the_source_takes_one_file_and_names_what_it_lacks(written: Callable[..., Path], tmp_path: Path) -> None:
    path = written(pdf_of([(LETTER, b"")]))
    (entry,) = PdfFolder(path, "https://example.com/docs/").entries(Counter())
    assert entry.url == "https://example.com/docs/a.pdf"
    with pytest.raises(InputError, match="base_url: wanted the address"):
        PdfFolder(path, None)
    for wrong in (tmp_path / "none", written(b"", "notes.txt")):
        with pytest.raises(InputError, match="wanted a PDF"):
            PdfFolder(wrong, "https://example.com/")


@pytest.mark.parametrize(
    ("written_as", "iso"),
    [
        ("D:20240131120000+01'00'", "2024-01-31T11:00:00Z"),
        ("D:20240131120000-0230", "2024-01-31T14:30:00Z"),
        ("D:20240131", "2024-01-31T00:00:00Z"),
        ("2024", "2024-01-01T00:00:00Z"),
        ("D:20240131120000Z", "2024-01-31T12:00:00Z"),
        ("D:20249931", ""),
        ("D:00010101000000+23'59'", ""),
        ("yesterday", ""),
        ("", ""),
    ],
)
def test_dates(written_as: str, iso: str) -> None:
    assert iso_date(written_as) == iso


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
