"""A PDF as a document of pages: pixels by rows, and its text layer as words, paragraphs and links.

Runs in a worker process (document_worker.py): pdfium is native code, and a hostile file may crash or hang it.
"""

import ctypes
from pathlib import Path
from typing import Any

from PIL import Image

from tilewright.configs.items import ItemError
from tilewright.data_gen.pdf_text import Character, Rect, page_text

MAX_LINKS = 10_000  # of a page
_PASSWORD = "password"
_SUBPIXELS = 256  # pdfium gives places as integers: asked for on a page this much larger


class PdfDocument:
    """The PDF at ``path``: ``sizes_px`` [(width, height)] of its pages, all ``width_px`` wide; heights half up, >= 1.

    Raises ItemError for a file that is encrypted, broken, without pages, with a page of no size or more than
    ``max_pages`` of them.
    """

    def __init__(self, path: Path, width_px: int, max_pages: int) -> None:
        import pypdfium2  # type: ignore[import-untyped,unused-ignore]
        import pypdfium2.raw as pdfium  # type: ignore[import-untyped,unused-ignore]

        self._c: Any = pdfium
        try:
            self._document = pypdfium2.PdfDocument(path)
            self._document.init_forms()
        except pypdfium2.PdfiumError as error:
            encrypted = _PASSWORD in str(error).lower()
            raise ItemError("encrypted: it asks for a password" if encrypted else f"not a PDF ({error})") from error
        count = len(self._document)
        if not 1 <= count <= max_pages:
            raise ItemError(f"{count} pages; wanted at least 1 and at most max_pages = {max_pages}")
        self._width_px = width_px
        self.sizes_px = [self._size(number) for number in range(count)]
        self._current: tuple[int, Any] | None = None

    @property
    def title(self) -> str:
        """Of its metadata, "" without."""
        return str(self._document.get_metadata_value("Title"))

    @property
    def revised(self) -> str:
        """When it was last modified (else made), as the PDF writes dates; "" if it doesn't say."""
        values = (str(self._document.get_metadata_value(key)) for key in ("ModDate", "CreationDate"))
        return next(filter(None, values), "")

    def close(self) -> None:
        """Free it."""
        self._close_page()
        self._document.close()

    def rows(self, number: int, y_px: int, height_px: int) -> Image.Image:
        """Rows ``y_px`` to ``y_px + height_px`` of a page, RGB on white, annotations and form fields included.

        Memory is that of these rows. They are those of a drawing of the whole page, but for one grey level where long
        slanted lines are smoothed.
        """
        import pypdfium2

        page, (width, height) = self._page(number), self.sizes_px[number]
        bitmap = pypdfium2.PdfBitmap.new_native(width, height_px, self._c.FPDFBitmap_BGRx)
        bitmap.fill_rect((255, 255, 255, 255), 0, 0, width, height_px)
        place = (0, -y_px, width, height, 0, self._c.FPDF_ANNOT)
        self._c.FPDF_RenderPageBitmap(bitmap, page, *place)
        if page.formenv is not None:
            self._c.FPDF_FFLDraw(page.formenv, bitmap, page, *place)
        return Image.frombuffer("RGB", (width, height_px), bytes(bitmap.buffer), "raw", "BGRX", bitmap.stride, 1)

    def layer(self, number: int) -> dict[str, Any]:
        """{"words": [[text, x, y, width, height, block]], "blocks": [box], "links": [[href, anchor, [box]]]} in px."""
        page = self._page(number)
        to_px = self._mapping(page, self.sizes_px[number])
        textpage = page.get_textpage()
        try:
            words, blocks = page_text(self._characters(textpage, to_px))
        finally:
            textpage.close()
        return {"words": words, "blocks": blocks, "links": self._links(page, to_px, words)}

    def _size(self, number: int) -> tuple[int, int]:
        import pypdfium2

        try:
            width_pt, height_pt = self._document.get_page_size(number)
        except pypdfium2.PdfiumError as error:
            raise ItemError(f"page {number + 1}: no size ({error})") from error
        if not (width_pt > 0 and height_pt > 0):
            raise ItemError(f"page {number + 1}: {width_pt} x {height_pt} pt")
        return self._width_px, max(1, int(self._width_px * height_pt / width_pt + 0.5))

    def _page(self, number: int) -> Any:
        """A loaded page; one at a time."""
        import pypdfium2

        if self._current is None or self._current[0] != number:
            self._close_page()
            try:
                self._current = number, self._document.get_page(number)
            except pypdfium2.PdfiumError as error:
                raise ItemError(f"page {number + 1}: can't be loaded ({error})") from error
        return self._current[1]

    def _close_page(self) -> None:
        if self._current is not None:
            self._current[1].close()
            self._current = None

    def _mapping(self, page: Any, size_px: tuple[int, int]) -> "_Mapping":
        """From page points to pixels: pdfium's own map (crop box, rotation), read off three points."""
        step_pt = max(page.get_size())
        width, height = size_px

        def place(x_pt: float, y_pt: float) -> tuple[float, float]:
            x, y = ctypes.c_int(), ctypes.c_int()
            scaled = (width * _SUBPIXELS, height * _SUBPIXELS)
            self._c.FPDF_PageToDevice(page, 0, 0, *scaled, 0, x_pt, y_pt, ctypes.byref(x), ctypes.byref(y))
            return x.value / _SUBPIXELS, y.value / _SUBPIXELS

        origin, right, up = place(0, 0), place(step_pt, 0), place(0, step_pt)
        return _Mapping(
            *origin,
            (right[0] - origin[0]) / step_pt,
            (right[1] - origin[1]) / step_pt,
            (up[0] - origin[0]) / step_pt,
            (up[1] - origin[1]) / step_pt,
        )

    def _characters(self, textpage: Any, to_px: "_Mapping") -> list[Character]:
        rect = self._c.FS_RECTF()
        found = []
        for index in range(textpage.count_chars()):
            code = self._c.FPDFText_GetUnicode(textpage, index)
            has_box = self._c.FPDFText_GetLooseCharBox(textpage, index, ctypes.byref(rect))
            box = to_px.rect(rect.left, rect.bottom, rect.right, rect.top) if has_box else (0.0, 0.0, 0.0, 0.0)
            found.append((code, box))
        return found

    def _links(self, page: Any, to_px: "_Mapping", words: list[Any]) -> list[Any]:
        """Annotations that lead to an address."""
        position, link = ctypes.c_int(0), self._c.FPDF_LINK()
        found: list[Any] = []
        while len(found) < MAX_LINKS and self._c.FPDFLink_Enumerate(page, ctypes.byref(position), ctypes.byref(link)):
            href = self._address(link)
            boxes = [to_px.rect(*edges) for edges in self._link_edges(link)] if href else []
            if boxes:
                anchor = " ".join(word[0] for word in words if any(_centre_in(word[1:5], box) for box in boxes))
                found.append([href, anchor, boxes])
        return found

    def _address(self, link: Any) -> str:
        action = self._c.FPDFLink_GetAction(link)
        if not action or self._c.FPDFAction_GetType(action) != self._c.PDFACTION_URI:
            return ""
        length = self._c.FPDFAction_GetURIPath(self._document, action, None, 0)
        buffer = ctypes.create_string_buffer(length)
        self._c.FPDFAction_GetURIPath(self._document, action, buffer, length)
        return buffer.value.decode("utf-8", "replace").strip()

    def _link_edges(self, link: Any) -> list[Rect]:
        """(left, bottom, right, top) in points of each line that a link covers."""
        quad, rect = self._c.FS_QUADPOINTSF(), self._c.FS_RECTF()
        found = []
        for index in range(self._c.FPDFLink_CountQuadPoints(link)):
            if self._c.FPDFLink_GetQuadPoints(link, index, ctypes.byref(quad)):
                xs, ys = (quad.x1, quad.x2, quad.x3, quad.x4), (quad.y1, quad.y2, quad.y3, quad.y4)
                found.append((min(xs), min(ys), max(xs), max(ys)))
        if not found and self._c.FPDFLink_GetAnnotRect(link, ctypes.byref(rect)):
            found.append((rect.left, rect.bottom, rect.right, rect.top))
        return found


class _Mapping:
    """An affine map of points to pixels."""

    def __init__(self, *numbers: float) -> None:
        self._numbers = numbers

    def rect(self, left: float, bottom: float, right: float, top: float) -> Rect:
        """(x, y, width, height) in px of a rectangle in points."""
        x0, y0, ax, ay, bx, by = self._numbers
        corners = [(left, bottom), (left, top), (right, bottom), (right, top)]
        xs = [x0 + ax * x + bx * y for x, y in corners]
        ys = [y0 + ay * x + by * y for x, y in corners]
        return min(xs), min(ys), max(xs) - min(xs), max(ys) - min(ys)


def _centre_in(word: list[float], box: Rect) -> bool:
    x, y = word[0] + word[2] / 2, word[1] + word[3] / 2
    return box[0] <= x <= box[0] + box[2] and box[1] <= y <= box[1] + box[3]
