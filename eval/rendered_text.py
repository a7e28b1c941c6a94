"""Texts drawn as pictures by the renderer of the tiles: the same Chromium, width and type as a rendered page."""

import hashlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from functools import partial
from html import escape
from importlib import resources
from pathlib import Path
from typing import Any

from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.images import decode_image
from tilewright.data_gen.page_pool import PagePool
from tilewright.data_gen.profiles import profile_of
from tilewright.data_gen.records import Page
from tilewright.data_gen.render_page import PageSettings
from tilewright.data_gen.sources.source import Resource
from tilewright.data_gen.store.rows import read_tiles
from tilewright.data_gen.tiles import working_file
from tilewright.eval.cache import Cache
from tilewright.eval.parts import Picture

WIDTH_PX, MAX_HEIGHT_PX = 875, 4096
SETTINGS = PageSettings(
    profile=profile_of("none"),
    viewport_width_px=WIDTH_PX,
    tile_width_px=WIDTH_PX,
    tile_height_px=MAX_HEIGHT_PX,
    min_tile_px=1,
    max_page_height_px=MAX_HEIGHT_PX,
    image_format="png",
    jpeg_quality=90,
    page_timeout_s=60.0,
    characters=False,
)


class TextSite:
    """Pages that show one text each, with the style of the pages that make_pages writes."""

    def __init__(self, texts: Mapping[str, str]) -> None:
        """``texts``: {page_id: text}."""
        self._texts = texts
        self._style = resources.files("tilewright.data_gen").joinpath("page.css").read_text(encoding="utf-8")

    def document(self, page: Page) -> bytes:
        """The page's HTML; the text's own line breaks stay, and no markup in it is any."""
        body = "".join(f"<p>{escape(line)}</p>\n" for line in self._texts[page.page_id].splitlines() if line.strip())
        head = f'<meta charset="utf-8">\n<title>text</title>\n<style>\n{self._style}</style>'
        return f"<!DOCTYPE html>\n<html>\n<head>\n{head}\n</head>\n<body>\n{body}</body>\n</html>\n".encode(
            "utf-8", errors="replace"
        )

    def resource(self, page: Page, url: str) -> Resource | None:
        """None: a text shows no files."""
        return None


def text_digest(text: str) -> str:
    """A text's name among what was drawn; 16 hex are a page's id."""
    return hashlib.sha256(f"rendered/{text}".encode("utf-8", "surrogatepass")).hexdigest()[:16]


class RenderedTexts:
    """Draws texts and keeps the pictures by content in ``cache``; one browser for all of a call."""

    def __init__(self, cache: Cache) -> None:
        self._part = cache.part("rendered_texts", repr(SETTINGS))
        self._cache = cache
        self._drawn: dict[str, Any] = {}
        self._errors: dict[str, str] = {}

    def draw(self, texts: Sequence[str]) -> None:
        """Draw those of ``texts`` that aren't yet."""
        named = {text_digest(text): text for text in texts}

        def work(todo: Sequence[str]) -> Iterator[tuple[str, Any]]:
            yield from _drawn({name: named[name] for name in todo}, self._part)

        drawn, errors = self._cache.values(self._part, "rendered_texts", list(named), str, work)
        self._drawn |= drawn
        self._errors |= errors

    def picture(self, text: str, compression: float) -> Picture:
        """The picture of a text that was drawn, read when it is shown. Raises ItemError if it couldn't be drawn."""
        name = text_digest(text)
        if name not in self._drawn:
            raise ItemError(f"a text couldn't be drawn: {self._errors.get(name, 'it was never asked for')}")
        width, height = self._drawn[name]["size_px"]
        return Picture(self._drawn[name]["sha256"], (width, height), partial(self._load, name), compression)

    def _load(self, name: str) -> Image.Image:
        try:
            return decode_image((self._part / f"{name}.png").read_bytes())
        except OSError as error:
            raise InputError(f"{self._part / name}.png: a drawn text is missing ({error})") from error


def _drawn(texts: Mapping[str, str], folder: Path) -> Iterator[tuple[str, Any]]:
    """Write {name}.png of each; yield (name, SHA-256 and size of its pixels, or why it failed)."""
    pages = [Page(name, f"https://text.invalid/{name}", "text", f"{name}.html", "text") for name in texts]
    with tempfile.TemporaryDirectory() as work:
        pool = PagePool(TextSite(texts), Path(work), Path(work), SETTINGS, 1, len(pages))
        for page, result in pool.run(pages, lambda page: lambda boxes: list(boxes)[:1]):
            if isinstance(result, ItemError):
                yield page.page_id, result
                continue
            path = working_file(Path(work), page.page_id, "arrow")
            tiles = list(read_tiles(path))
            path.unlink()
            if not tiles:
                yield page.page_id, ItemError("nothing shows of it")
                continue
            tile = tiles[0]
            temporary = folder / f"{page.page_id}.tmp"
            temporary.write_bytes(tile.image)
            temporary.replace(folder / f"{page.page_id}.png")
            yield page.page_id, {"sha256": tile.image_sha256, "size_px": [tile.width_px, tile.height_px]}
