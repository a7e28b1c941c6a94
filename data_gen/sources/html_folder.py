"""A folder of HTML files as a source of pages: any encoding, URLs by ``<link rel=canonical>`` or by path."""

import hashlib
import os
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote, unquote_to_bytes, urljoin

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.sources.html_text import Head, decode_html, read_head
from tilewright.data_gen.sources.references import collect, html_references
from tilewright.data_gen.sources.source import MAX_FILE_BYTES, Document, Entry, Resource, media_type_of, one_line
from tilewright.data_gen.sources.web_address import web_address
from tilewright.data_gen.sources.xhtml import XHTML_SUFFIX, html_of_xhtml
from tilewright.data_gen.urls import canonical_url

HTML_SUFFIXES = frozenset((".html", ".htm", XHTML_SUFFIX))
NOWHERE = "https://pages.invalid/"  # the root of a folder without base_url; .invalid is no host (RFC 2606)


@dataclass(frozen=True)
class _File:
    path: Path
    data: bytes


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
        # as browsers spell it, without a query: what the folder's files are asked for by
        self._paths: dict[str, Path] = {}  # file by URL: so that documents() needn't read every file again
        self._root = web_address("", self._base_url or "").partition("?")[0] or NOWHERE

    def entries(self, skipped: Counter[str]) -> Iterator[Entry]:
        """One entry a file, in order of path. Raises InputError for a file without any URL."""
        for path in self._files():
            text = decode_html(_read(path))
            if not text.strip():
                skipped["empty_files"] += 1
                continue
            head = read_head(text)
            url = self._url(path, head)
            self._paths.setdefault(url, path)
            yield Entry(url, head.title or one_line(path.stem), str(path.relative_to(self._folder)))

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, _File]]:
        """(URL, file) of the first file with each wanted URL."""
        if not wanted <= self._paths.keys():
            for _ in self.entries(Counter()):
                pass
        for url in sorted(wanted & self._paths.keys()):
            yield url, _File(self._paths[url], _read(self._paths[url]))

    def convert(self, url: str, raw: _File) -> Document:
        """The file's text as UTF-8 (a BOM outranks its ``<meta>``), with the files of the folder that it asks for."""
        if len(raw.data) > MAX_FILE_BYTES:
            raise ItemError(f"{raw.path}: larger than {MAX_FILE_BYTES} bytes, which is the most that are read")
        text = decode_html(raw.data)
        if "\0" in text:
            raise ItemError(f"{raw.path}: holds NUL characters: not an HTML file")
        if raw.path.suffix.lower() == XHTML_SUFFIX:
            text = html_of_xhtml(text)
        address = urljoin(self._root, self._relative(raw.path))
        counts: Counter[str] = Counter()
        return Document(
            data=f"\ufeff{text}".encode("utf-8", errors="replace"),
            suffix=".html",
            content_sha256=hashlib.sha256(raw.data).hexdigest(),
            document_url=address,
            resources=collect(html_references(text, address), self._load, counts),
            counts=counts,
        )

    def _relative(self, path: Path) -> str:
        """Where a file stands below the root, percent-encoded."""
        return quote(os.fsencode(path.relative_to(self._folder)))

    def _load(self, url: str) -> tuple[Resource, str] | None:
        """The file of the folder behind an address below its root; None for any other, and for pages."""
        root = self._root
        if not url.startswith(root):
            return None
        name = unquote_to_bytes(url[len(root) :].partition("?")[0])
        if b"\0" in name:
            return None
        with suppress(OSError, RuntimeError):  # a name longer than files have, links in a ring, a file that is locked
            path = (self._folder / os.fsdecode(name)).resolve()
            inside = path.is_relative_to(self._folder.resolve()) and path.suffix.lower() not in HTML_SUFFIXES
            if inside and path.is_file() and path.stat().st_size <= MAX_FILE_BYTES:
                return Resource(url, media_type_of(path.as_uri()), path.read_bytes()), url
        return None

    def _files(self) -> list[Path]:
        files = (path for path in self._folder.rglob("*") if path.suffix.lower() in HTML_SUFFIXES and path.is_file())
        return sorted(files, key=lambda path: path.relative_to(self._folder).as_posix())

    def _url(self, path: Path, head: Head) -> str:
        address = urljoin(self._base_url, self._relative(path)) if self._base_url else ""
        for candidate in ([_joined(address, head.canonical)] if head.canonical else []) + [address]:
            with suppress(ValueError):  # a canonical link that is no web address says nothing
                return canonical_url(candidate)
        raise InputError(f"{path}: wanted <link rel=canonical href=...> in the file, or base_url in the config")


def _read(path: Path) -> bytes:
    """The file's bytes; of one that is too large so many that it shows."""
    with path.open("rb") as file:
        return file.read(MAX_FILE_BYTES + 1)


def _joined(base: str, href: str) -> str:
    """``href`` against ``base``; "" if there's no such address."""
    try:
        return urljoin(base, href)
    except ValueError:
        return ""
