"""The process that draws PDFs: hostile and damaged files fail alone, by name; it is killed, started anew, and ends."""

import contextlib
import dataclasses
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from tests.data_gen.pdf_files import LETTER, PAGE, SIZES, encrypted, pdf_bytes, pdf_of, stream, text, tiles_of

from tilewright.configs.items import ItemError
from tilewright.data_gen.images import decode_image
from tilewright.data_gen.paged_documents import DocumentWorker, render_document


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
