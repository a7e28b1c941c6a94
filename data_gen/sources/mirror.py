"""A mirror that fetch_pages wrote as a source of pages: HTML from the network, rendered without it."""

from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from urllib.parse import urlsplit

from tilewright.configs.items import ItemError
from tilewright.data_gen.fetch.mirror import Mirror, MirrorRecord
from tilewright.data_gen.sources.html_text import decode_html, read_head
from tilewright.data_gen.sources.references import collect, html_references
from tilewright.data_gen.sources.source import Document, Entry, Resource, media_type_of, one_line
from tilewright.data_gen.sources.web_address import web_address
from tilewright.data_gen.sources.xhtml import as_html
from tilewright.data_gen.urls import canonical_url


class MirrorSource:
    """The pages of a mirror.

    A page's URL is the canonical URL of what was asked for, wherever that redirected; its ``<link rel=canonical>`` goes
    before it if it names the same host (another host can't claim the page, nor can the page claim another's).
    """

    def __init__(self, folder: Path) -> None:
        self._mirror = Mirror(folder)
        self._resources = {record.url: record for record in self._mirror.records() if record.kind == "resource"}

    def entries(self, skipped: Counter[str]) -> Iterator[Entry]:
        """One entry a page, in order of the canonical URLs asked for; empty and damaged ones are counted."""
        for record in self._pages():
            body = self._mirror.body(record)
            if body is None:
                skipped["damaged_pages"] += 1
                continue
            text = decode_html(body, record.charset)
            if not text.strip():
                skipped["empty_pages"] += 1
                continue
            title = read_head(text).title or one_line(urlsplit(record.canonical_url).path)
            yield Entry(_page_url(record, text), title, record.url)

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, MirrorRecord]]:
        """(URL, record) of the first page with each wanted URL."""
        missing = set(wanted)
        for record in self._pages():
            text = decode_html(self._mirror.body(record) or b"", record.charset)
            url = _page_url(record, text) if text.strip() else ""
            if url in missing:
                missing.discard(url)
                yield url, record

    def convert(self, url: str, raw: MirrorRecord) -> Document:
        """The page as UTF-8 with what the mirror holds of what it asks for; the rest is ``resources_missing``."""
        body = self._mirror.body(raw)
        if body is None:
            raise ItemError(f"{raw.url}: its bytes in the mirror are gone or damaged")
        text = as_html(decode_html(body, raw.charset), raw.media_type)
        if "\0" in text:
            raise ItemError(f"{raw.url}: holds NUL characters: not an HTML file")
        counts: Counter[str] = Counter()
        return Document(
            data=f"\ufeff{text}".encode("utf-8", errors="replace"),
            suffix=".html",
            content_sha256=raw.sha256,
            fetched=raw.fetched,
            document_url=raw.final_url,
            resources=collect(html_references(text, raw.final_url), self._load, counts),
            counts=counts,
        )

    def _pages(self) -> Iterator[MirrorRecord]:
        return (record for record in self._mirror.records() if record.kind == "page")

    def _load(self, url: str) -> tuple[Resource, str] | None:
        record = self._resources.get(url)
        body = self._mirror.body(record) if record is not None else None
        if record is None or body is None:
            return None
        return Resource(url, media_type_of(record.final_url, record.media_type), body), record.final_url


def _page_url(record: MirrorRecord, text: str) -> str:
    canonical = web_address(record.final_url, read_head(text).canonical)
    with suppress(ValueError):
        url = canonical_url(canonical) if canonical else ""
        if urlsplit(url).netloc == urlsplit(record.canonical_url).netloc:
            return url
    return record.canonical_url
