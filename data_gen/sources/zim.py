"""A ZIM archive as a source of pages: its articles, whose HTML and assets stay in the archive."""

import hashlib
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, urljoin

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.sources.html_text import Head, decode_html, read_head
from tilewright.data_gen.sources.source import Document, Entry, one_line
from tilewright.data_gen.urls import canonical_url
from tilewright.data_gen.zim_archive import ZimArchive, ZimItem


@dataclass(frozen=True)
class _Article:
    item: ZimItem
    data: bytes | ItemError


class Zim:
    """The articles of the archive at ``path``; a page's URL is its canonical link, else ``base_url`` + its path.

    Redirects are no pages: they are counted (``redirects``; ``dangling_redirects`` and ``cyclic_redirects`` lead
    nowhere), as are HTML entries of other namespaces and articles that can't be read.
    """

    def __init__(self, path: Path, base_url: str | None) -> None:
        self._archive = ZimArchive(path)
        needs_slash = base_url and not base_url.endswith("/")
        self._base_url = f"{base_url}/" if needs_slash else base_url
        self._numbers: dict[str, int] = {}  # entry by URL: so that documents() needn't read every article again

    def entries(self, skipped: Counter[str]) -> Iterator[Entry]:
        """One entry an article, in the archive's order of paths. Raises InputError for an article without any URL."""
        for number, kind in self._archive.kinds():
            if kind != "page":
                if kind != "asset":
                    skipped[kind] += 1
                continue
            try:
                item = self._archive.entry(number)
                data = item.read()
            except ItemError:
                skipped["unreadable"] += 1
                continue
            if not data.strip():
                skipped["empty_pages"] += 1
                continue
            head = read_head(decode_html(data))
            url = self._url(item, head)
            self._numbers.setdefault(url, number)
            named = item.title if item.title != item.path else head.title
            yield Entry(url, one_line(named) or one_line(item.path), item.path)

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, _Article]]:
        """(URL, article) of the first article with each wanted URL, in the archive's order."""
        if not wanted <= self._numbers.keys():
            for _ in self.entries(Counter()):
                pass
        for number, url in sorted((self._numbers[url], url) for url in wanted & self._numbers.keys()):
            item = self._archive.entry(number)
            data: bytes | ItemError
            try:
                data = item.read()
            except ItemError as error:
                data = error
            yield url, _Article(item, data)

    def convert(self, url: str, raw: _Article) -> Document:
        """Where the article stands in its archive, and its hash; the renderer reads it there."""
        if isinstance(raw.data, ItemError):
            raise raw.data
        return Document(
            data=None,
            suffix=".html",
            content_sha256=hashlib.sha256(raw.data).hexdigest(),
            fetched=self._archive.date,
            document_url=self._archive.address(raw.item.path),
        )

    def _url(self, item: ZimItem, head: Head) -> str:
        path = quote(self._archive.web_path(item.path).encode("utf-8", "surrogatepass"))
        address = urljoin(self._base_url, f"./{path}") if self._base_url else ""
        for candidate in (head.canonical, address):
            with suppress(ValueError):  # a canonical link that is no web address says nothing
                if candidate:
                    return canonical_url(urljoin(address, candidate))
        raise InputError(
            f"{self._archive.path}: {item.path}: wanted <link rel=canonical href=...> in the page, or base_url in the"
            " config"
        )
