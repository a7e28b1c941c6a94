"""Where a page's bytes come from while it is rendered: its document, and the files that this page may ask for."""

from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol
from urllib.parse import urldefrag

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Page
from tilewright.data_gen.sources.pages_folder import PagesFolder
from tilewright.data_gen.sources.source import Resource

_TABLES = 64  # of pages being rendered


class Site(Protocol):
    """Documents and resources of a corpus, offline."""

    def document(self, page: Page) -> bytes:
        """UTF-8 HTML of a page. Raises InputError or ItemError if it can't be read."""
        ...

    def resource(self, page: Page, url: str) -> Resource | None:
        """The file that ``page`` asks for by an absolute URL; None if it has no such file. No other page's files."""
        ...


class FolderSite:
    """The folder that make_pages wrote."""

    def __init__(self, folder: Path) -> None:
        self._folder = PagesFolder(folder)
        self._table = lru_cache(_TABLES)(self._folder.resources)

    def document(self, page: Page) -> bytes:
        """The page's HTML file. Raises InputError if it isn't there."""
        if not page.html_path:
            raise InputError(
                f"{page.url}: its document isn't in the pages folder: set `archive` to the file it lies in"
            )
        return self._folder.document(page.html_path)

    def resource(self, page: Page, url: str) -> Resource | None:
        """The file of the page's own table behind ``url`` (its fragment doesn't matter)."""
        table: Mapping[str, Any] = self._table(page.html_path)
        plain = urldefrag(url).url
        entry = table.get(url) or table.get(plain)
        if entry is None and plain.startswith("https:"):
            # a browser asks so for pictures that a secure page wants by http
            entry = table.get(plain.replace("https:", "http:", 1))
        return self._folder.resource(url, entry) if entry else None
