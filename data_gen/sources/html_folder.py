"""A folder of HTML files as a source of pages: any encoding, URLs by ``<link rel=canonical>`` or by path."""

import codecs
import hashlib
import mimetypes
import os
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urljoin, urlsplit

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.sources.references import collect, html_references
from tilewright.data_gen.sources.source import Document, Entry, Resource, one_line
from tilewright.data_gen.urls import canonical_url

HTML_SUFFIXES = frozenset((".html", ".htm", ".xhtml"))
NOWHERE = "https://pages.invalid/"  # the root of a folder without base_url; .invalid is no host (RFC 2606)
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_META_SCAN_BYTES = 4096


@dataclass(frozen=True)
class _File:
    path: Path
    text: str


class HtmlFolder:
    """The HTML files below ``folder``; a file's URL is its canonical link, else ``base_url`` + its relative path."""

    def __init__(self, folder: Path, base_url: str | None) -> None:
        if not folder.is_dir():
            raise InputError(f"{folder}: wanted a folder of HTML files, found no such folder")
        self._folder = folder
        needs_slash = base_url and not base_url.endswith("/")  # without it the last part would be lost
        self._base_url = f"{base_url}/" if needs_slash else base_url
        try:
            canonical_url(base_url or NOWHERE)
        except InputError as error:
            raise InputError(f"base_url: {error}") from error

    def entries(self, skipped: Counter[str]) -> Iterator[Entry]:
        """One entry a file, in order of path. Raises InputError for a file without any URL."""
        for path in self._files():
            text = read_html(path)
            if not text.strip():
                skipped["empty_files"] += 1
                continue
            head = _read_head(text)
            yield Entry(self._url(path, head), head.title or one_line(path.stem), str(path.relative_to(self._folder)))

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, _File]]:
        """(URL, file) of the first file with each wanted URL."""
        missing = set(wanted)
        for path in self._files():
            text = read_html(path)
            url = self._url(path, _read_head(text)) if text.strip() else ""
            if url in missing:
                missing.discard(url)
                yield url, _File(path, text)

    def convert(self, url: str, raw: _File) -> Document:
        """The file's text as UTF-8 (a BOM outranks its ``<meta>``), with the files of the folder that it asks for."""
        if "\0" in raw.text:
            raise ItemError(f"{raw.path}: holds NUL characters: not an HTML file")
        address = self._address(raw.path)
        return Document(
            data=f"\ufeff{raw.text}".encode("utf-8", errors="replace"),
            suffix=".html",
            content_sha256=hashlib.sha256(raw.path.read_bytes()).hexdigest(),
            document_url=address,
            resources=collect(html_references(raw.text, address), self._load),
        )

    def _address(self, path: Path) -> str:
        """Where a file stands as seen by its relative references."""
        return urljoin(self._base_url or NOWHERE, quote(os.fsencode(path.relative_to(self._folder))))

    def _load(self, url: str) -> Resource | None:
        """The file of the folder behind an address below its root; None for any other, and for pages."""
        root = self._base_url or NOWHERE
        if not url.startswith(root):
            return None
        name = unquote_to_bytes(urlsplit(url[len(root) :]).path)
        if b"\0" in name:
            return None
        with suppress(OSError, RuntimeError):  # a name longer than files have, links in a ring, a file that is locked
            path = (self._folder / os.fsdecode(name)).resolve()
            inside = path.is_relative_to(self._folder.resolve()) and path.suffix.lower() not in HTML_SUFFIXES
            if inside and path.is_file():
                media_type = mimetypes.guess_type(path.name)[0] or "application/octet-stream"
                return Resource(url, media_type, path.read_bytes())
        return None

    def _files(self) -> list[Path]:
        files = (path for path in self._folder.rglob("*") if path.suffix.lower() in HTML_SUFFIXES and path.is_file())
        return sorted(files, key=lambda path: path.relative_to(self._folder).as_posix())

    def _url(self, path: Path, head: "_Head") -> str:
        relative = quote(os.fsencode(path.relative_to(self._folder)))
        address = urljoin(self._base_url, relative) if self._base_url else ""
        for candidate in ([_joined(address, head.canonical)] if head.canonical else []) + [address]:
            with suppress(ValueError):  # a canonical link that is no web address says nothing
                return canonical_url(candidate)
        raise InputError(f"{path}: wanted <link rel=canonical href=...> in the file, or base_url in the config")


def _joined(base: str, href: str) -> str:
    """``href`` against ``base``; "" if there's no such address."""
    try:
        return urljoin(base, href)
    except ValueError:
        return ""


def read_html(path: Path) -> str:
    """An HTML file's text, decoded by BOM, ``<meta charset>``, UTF-8, else Windows-1252 (as browsers do)."""
    data = path.read_bytes()
    for bom, encoding in _BOMS:
        if data.startswith(bom):
            return data[len(bom) :].decode(encoding, errors="replace")
    declared = _META_CHARSET.search(data[:_META_SCAN_BYTES])
    for name in ([declared[1].decode("ascii")] if declared else []) + ["utf-8", "windows-1252"]:
        try:
            codec = codecs.lookup(name).name
            # a <meta> that could be read as ASCII can't be in UTF-16; Latin-1 means Windows-1252 on the web
            codec = {"utf-16": "utf-8", "iso8859-1": "windows-1252", "ascii": "windows-1252"}.get(codec, codec)
            return data.decode(codec)
        except (LookupError, UnicodeError):
            continue
    return data.decode("windows-1252", errors="replace")


class _Head(HTMLParser):
    """The title (else first heading) and canonical link of a page."""

    def __init__(self) -> None:
        super().__init__(convert_charrefs=True)
        self._title, self._heading, self._inside = "", "", ""
        self.canonical = ""

    @property
    def title(self) -> str:
        return one_line(self._title or self._heading)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        values = dict(attrs)
        if tag == "link" and "canonical" in (values.get("rel") or "").lower().split() and not self.canonical:
            self.canonical = (values.get("href") or "").strip()
        if (tag == "title" and not self._title) or (tag == "h1" and not self._heading):
            self._inside = tag

    def handle_endtag(self, tag: str) -> None:
        if tag == self._inside:
            self._inside = ""

    def handle_data(self, data: str) -> None:
        if self._inside == "title":
            self._title += data
        elif self._inside == "h1":
            self._heading += data


def _read_head(text: str) -> _Head:
    head = _Head()
    with suppress(AssertionError):  # html.parser gives up on `<![unknown[`: what was read so far stands
        head.feed(text)
    return head
