"""The pages of a ZIM archive as the renderer is served them: the archive stays where it is."""

import hashlib
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.records import Page
from tilewright.data_gen.sources.html_text import decode_html
from tilewright.data_gen.sources.source import Resource
from tilewright.data_gen.sources.xhtml import as_html
from tilewright.data_gen.zim_archive import ZimArchive


class ZimSite:
    """Serves a page's own HTML and the archive's assets (styles, pictures, fonts, scripts), never another page."""

    def __init__(self, archive: Path) -> None:
        self._archive = ZimArchive(archive)

    def document(self, page: Page) -> bytes:
        """UTF-8 HTML of ``page``. Raises InputError for pages of another archive, ItemError for a damaged one."""
        archive = self._archive
        if not page.document_url.startswith(archive.root):
            raise InputError(
                f"{archive.path}: wanted a page of this archive ({archive.root}), found {page.document_url!r}: give"
                " the archive that make_pages read"
            )
        item = archive.find(page.document_url)
        if item is None or not item.is_html:
            raise ItemError(f"{archive.path}: no page at {page.document_url}")
        data = item.read()
        if page.content_sha256 and hashlib.sha256(data).hexdigest() != page.content_sha256:
            raise ItemError(f"{archive.path}: {item.path} isn't what make_pages read: run make_pages again")
        text = as_html(decode_html(data), item.media_type)
        return f"\ufeff{text}".encode("utf-8", "replace")  # a BOM outranks any <meta charset>

    def resource(self, page: Page, url: str) -> Resource | None:
        """The asset behind ``url``; None for pages, for other addresses and for what can't be read."""
        item = self._archive.find(url)
        if item is None or item.is_html:
            return None
        try:
            return Resource(url, item.media_type, item.read())
        except ItemError:
            return None
