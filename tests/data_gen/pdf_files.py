"""PDFs written by hand, for tests, and the tiles that they give."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from tilewright.data_gen.images import decode_image
from tilewright.data_gen.paged_documents import DocumentSizes, DocumentWorker, render_document
from tilewright.data_gen.records import Page, Tile

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


def encrypted() -> bytes:
    entry = b"/Encrypt<</Filter/Standard/V 1/R 2/O<%s>/U<%s>/P -4>>/ID[<00><00>]" % (b"41" * 32, b"42" * 32)
    return pdf_of([(LETTER, text(b"Secret"))], trailer=entry)
