"""PDFs and pictures -> tiles: pages one below the other, drawn by a worker process that may crash or hang."""

import contextlib
import json
import os
import select
import struct
import subprocess
import sys
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.dom_layer import DomLayer
from tilewright.data_gen.records import Page, Tile
from tilewright.data_gen.tiles import MIN_PX, TILE_HEIGHT_PX, TILE_WIDTH_PX, TileBox, tile_boxes, tile_id

WORKER = "tilewright.data_gen.document_worker"
START_S = 60.0  # for a worker to start, besides its work
MAX_ANSWER_BYTES = 1 << 30
MAX_ROWS = 10_000  # of tiles, which are drawn from top to bottom: with more digits their ids wouldn't ascend
TILES_PER_ANSWER = 32  # a page of any height is drawn in so many tiles at a time
Choose = Callable[[Sequence[TileBox]], Sequence[TileBox]]


@dataclass(frozen=True)
class DocumentSizes:
    """Sizes of tiles and limits of documents. Pages are ``tile_width_px`` wide (narrower pictures stay narrow).

    ``max_height_px``: of all its pages one below the other; ``max_pages``: PDF pages or TIFF frames; ``max_pixels``:
    of a picture before it is reduced. ``page_timeout_s``: to open a document, and to draw each of its pages.
    ``image_format`` (png, webp or jpeg) and ``jpeg_quality`` are those of the tiles.
    """

    tile_width_px: int = TILE_WIDTH_PX
    tile_height_px: int = TILE_HEIGHT_PX
    min_tile_px: int = MIN_PX
    max_height_px: int = 8_000_000
    max_pages: int = 10_000
    max_pixels: int = 100_000_000
    page_timeout_s: float = 120.0
    image_format: str = "png"
    jpeg_quality: int = 90


@dataclass(frozen=True)
class DocumentInfo:
    """What a document says of itself: sizes of its pages in px, title and date of revision ("" if it has none)."""

    sizes_px: tuple[tuple[int, int], ...]
    title: str
    revised: str


@dataclass(frozen=True)
class RenderedDocument:
    """A document's size and tiles. ``boxes``: of all of them; ``tiles``: the chosen ones, drawn as they are asked for.

    ``complete``: all its tiles are chosen. A failure on the way raises ItemError from ``tiles``.
    """

    width_px: int
    height_px: int
    boxes: tuple[TileBox, ...]
    tiles: Iterator[Tile]
    complete: bool


class DocumentWorker:
    """One worker process, started when needed and anew after a crash or a time-out. Not for several threads at once."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._opened: Path | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @property
    def pid(self) -> int | None:
        """Of the running process, None without one."""
        return self._process.pid if self._process is not None else None

    def close(self) -> None:
        """End the process."""
        process, self._process, self._opened = self._process, None, None
        if process is not None:
            process.kill()
            process.wait()
            for pipe in (process.stdin, process.stdout):
                with contextlib.suppress(BrokenPipeError):  # of a request that a crash left unread
                    if pipe is not None:
                        pipe.close()

    def open(self, path: Path, sizes: DocumentSizes) -> DocumentInfo:
        """Open a document; the last one is closed. Raises ItemError: encrypted, broken, too large, hangs, crashes.

        Raises InputError for PDFs without the extra ``pdf``.
        """
        if path.suffix.lower() == ".pdf" and find_spec("pypdfium2") is None:
            raise InputError("PDF files: wanted pypdfium2: `pip install tilewright[pdf]`")
        limits = {"width_px": sizes.tile_width_px, "max_pages": sizes.max_pages, "max_pixels": sizes.max_pixels}
        self._end_if_dead()
        self._opened = None
        answer, _ = self._ask(path, {"open": str(path.resolve())} | limits, sizes.page_timeout_s)
        self._opened = path
        pages = tuple((int(width), int(height)) for width, height in answer["sizes_px"])
        return DocumentInfo(pages, answer["title"], answer["revised"])

    def draw(
        self, path: Path, number: int, boxes: Sequence[TileBox], sizes: DocumentSizes
    ) -> Iterator[tuple[dict[str, Any], list[tuple[bytes, str]]]]:
        """(text layer of a page, [(encoded image, hash)] of some of its tiles), in their order (boxes of the page).

        Raises ItemError as ``open``, which it calls if another document was opened or the process ended since.
        """
        layer: dict[str, Any] = {}
        for start in range(0, len(boxes), TILES_PER_ANSWER):
            self._end_if_dead()
            if self._opened != path:
                self.open(path, sizes)
            places = [[box.y_px, box.height_px] for box in boxes[start : start + TILES_PER_ANSWER]]
            encoding = {"image_format": sizes.image_format, "jpeg_quality": sizes.jpeg_quality}
            request = {"page": number, "boxes": places, "layer": not layer} | encoding
            answer, encoded = self._ask(path, request, sizes.page_timeout_s)
            layer = layer or {name: answer[name] for name in ("words", "blocks", "links")}
            yield layer, list(zip(encoded, answer["image_sha256"], strict=True))

    def _end_if_dead(self) -> None:
        """A process that ended between two requests, killed from outside, isn't the next document's fault."""
        if self._process is not None and self._process.poll() is not None:
            self.close()

    def _ask(self, path: Path, request: dict[str, Any], timeout_s: float) -> tuple[dict[str, Any], list[bytes]]:
        """The answer to a request about ``path``, and its pictures."""
        deadline = time.monotonic() + timeout_s
        if self._process is None:
            deadline += START_S
            command = [sys.executable, "-m", WORKER, str(os.getpid())]
            pipe = subprocess.PIPE
            self._process = subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL)
        assert self._process.stdin is not None and self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(request).encode() + b"\n")
            self._process.stdin.flush()
            answer, blobs = _read_message(self._process.stdout.fileno(), deadline)
        except TimeoutError:
            self.close()
            raise ItemError(f"{path.name}: took more than page_timeout_s = {timeout_s:g} s") from None
        except (EOFError, BrokenPipeError):
            self.close()
            raise ItemError(f"{path.name}: its decoder crashed") from None
        if "error" in answer:
            raise ItemError(f"{path.name}: {answer['error']}")
        return answer, blobs


def _read_message(descriptor: int, deadline: float) -> tuple[dict[str, Any], list[bytes]]:
    """Raises TimeoutError, or EOFError if the other side is gone."""
    (length,) = struct.unpack("<Q", _read(descriptor, 8, deadline))
    message = json.loads(_read(descriptor, length, deadline))
    return message, [_read(descriptor, size, deadline) for size in message["blobs"]]


def _read(descriptor: int, size: int, deadline: float) -> bytes:
    if size > MAX_ANSWER_BYTES:
        raise EOFError(f"an answer of {size} bytes")
    data = bytearray()
    while len(data) < size:
        if not select.select([descriptor], [], [], max(0.0, deadline - time.monotonic()))[0]:
            raise TimeoutError
        part = os.read(descriptor, min(1 << 20, size - len(data)))
        if not part:
            raise EOFError
        data += part
    return bytes(data)


def render_document(
    path: Path, page: Page, sizes: DocumentSizes, *, choose: Choose = list, worker: DocumentWorker | None = None
) -> RenderedDocument:
    """The tiles of the PDF or picture at ``path``, which is the document of ``page``.

    Its pages stand one below the other; tiles are cut page by page (none shows two of them), their rows go on over the
    pages, and every pixel lies in one tile. Words, paragraphs and links come from a PDF's text layer; scans and
    pictures have none. ``choose`` picks the tiles to draw, in their order. Without ``worker`` the document gets one of
    its own, which ends with the last tile. Raises ItemError, also while ``tiles`` is read.
    """
    own = DocumentWorker() if worker is None else None
    used = own or worker
    assert used is not None
    try:
        info = used.open(path, sizes)
        boxes = _boxes(path, info, sizes)
        chosen = tuple(choose(boxes))
    except BaseException:
        if own:
            own.close()
        raise
    return RenderedDocument(
        width_px=max(width for width, _ in info.sizes_px),
        height_px=sum(height for _, height in info.sizes_px),
        boxes=boxes,
        tiles=_tiles(path, page, info, _Drawing(used, own, sizes), chosen),
        complete=len(chosen) == len(boxes),
    )


@dataclass(frozen=True)
class _Drawing:
    worker: DocumentWorker
    own: DocumentWorker | None  # the same, if it ends with the document
    sizes: DocumentSizes


def _boxes(path: Path, info: DocumentInfo, sizes: DocumentSizes) -> tuple[TileBox, ...]:
    height_px = sum(height for _, height in info.sizes_px)
    if height_px > sizes.max_height_px:
        raise ItemError(f"{path.name}: {height_px} px high, max_height_px is {sizes.max_height_px}")
    boxes: list[TileBox] = []
    top_px, row = 0, 0
    for width, height in info.sizes_px:
        of_page = tile_boxes(width, height, sizes.tile_width_px, sizes.tile_height_px, sizes.min_tile_px)
        boxes += [TileBox(row + b.row, 0, b.x_px, top_px + b.y_px, b.width_px, b.height_px) for b in of_page]
        top_px, row = top_px + height, row + len(of_page)
    if row > MAX_ROWS:
        raise ItemError(f"{path.name}: {row} rows of tiles, at most {MAX_ROWS} can be stored in the order of their ids")
    return tuple(boxes)


def _tiles(path: Path, page: Page, info: DocumentInfo, drawing: _Drawing, chosen: Sequence[TileBox]) -> Iterator[Tile]:
    """The chosen tiles in order, a page of the document at a time."""
    waiting = deque(sorted(chosen, key=lambda box: box.row))
    top_px = 0
    try:
        for number, size_px in enumerate(info.sizes_px):
            boxes = []  # places in the page of the document
            while waiting and waiting[0].y_px < top_px + size_px[1]:
                box = waiting.popleft()
                boxes.append(replace(box, y_px=box.y_px - top_px))
            undrawn = iter(boxes)
            for data, images in drawing.worker.draw(path, number, boxes, drawing.sizes):
                layer = _layer(data, size_px, page.url)
                for image in images:
                    yield _tile(page, next(undrawn), top_px, layer, image)
            top_px += size_px[1]
    finally:
        if drawing.own:
            drawing.own.close()


def _layer(answer: dict[str, Any], size_px: tuple[int, int], url: str) -> DomLayer:
    """A page's text layer in the terms of the DOM: its paragraphs are blocks."""
    block = {"kind": "paragraph", "labels": [], "caption": "", "section": ""}
    data = {
        "width_px": size_px[0],
        "height_px": size_px[1],
        "has_fixed_parts": False,
        "bases": [],
        "words": [[*word, -1] for word in answer["words"]],  # in no cell
        "blocks": [block | {"box": box} for box in answer["blocks"]],
        "links": answer["links"],
        "areas": {"infobox": [], "table": [], "list": [], "paragraph": answer["blocks"]},
    }
    return DomLayer(data, url)


def _tile(page: Page, box: TileBox, top_px: int, layer: DomLayer, image: tuple[bytes, str]) -> Tile:
    """A tile of a document's page that begins ``top_px`` below the document's top."""
    content = layer.cut(box)
    return Tile(
        tile_id=tile_id(page.page_id, box.row, box.column),
        page_id=page.page_id,
        url=page.url,
        title=page.title,
        **asdict(replace(box, y_px=box.y_px + top_px)),
        image=image[0],
        image_sha256=image[1],
        **{name: getattr(content, name) for name in ("text", "evidence_px", "words", "blocks", "links")},
    )
