"""A folder of HTML files as a source of pages: any encoding, URLs by ``<link rel=canonical>`` or by path."""

import codecs
import os
import re
import shutil
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import quote, urljoin

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.sources.source import Entry, one_line
from tilewright.data_gen.urls import canonical_url

HTML_SUFFIXES = frozenset((".html", ".htm", ".xhtml"))
ASSETS = "assets"
_BOMS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_META_CHARSET = re.compile(rb"<meta[^>]{0,200}?charset\s*=\s*[\"']?\s*([A-Za-z0-9_:.-]{1,40})", re.IGNORECASE)
_BEFORE_HTML = re.compile(r"(?:\s|<!--.*?-->|<\?.*?\?>)*(?:<!doctype[^>]*>)?", re.IGNORECASE | re.DOTALL)
_META_SCAN_BYTES = 4096


@dataclass(frozen=True)
class _Document:
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

    def entries(self, skipped: Counter[str]) -> Iterator[Entry]:
        """One entry a file, in order of path. Raises InputError for a file without any URL."""
        for path in self._files():
            text = read_html(path)
            if not text.strip():
                skipped["empty_files"] += 1
                continue
            head = _read_head(text)
            yield Entry(self._url(path, head), head.title or one_line(path.stem), str(path.relative_to(self._folder)))

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, _Document]]:
        """(URL, document) of the first file with each wanted URL."""
        missing = set(wanted)
        for path in self._files():
            text = read_html(path)
            url = self._url(path, _read_head(text)) if text.strip() else ""
            if url in missing:
                missing.discard(url)
                yield url, _Document(path, text)

    def html(self, url: str, document: _Document) -> tuple[str, dict[str, int]]:
        """The file's text as UTF-8 (a BOM outranks its ``<meta>``), relative resources pointed to the copied assets."""
        if "\0" in document.text:
            raise ItemError(f"{document.path}: holds NUL characters: not an HTML file")
        below = document.path.parent.relative_to(self._folder).as_posix()
        base = f'<base href="{ASSETS}/{quote(os.fsencode("" if below == "." else below + "/"))}">'
        start = _BEFORE_HTML.match(document.text)
        place = start.end() if start else 0
        return f"\ufeff{document.text[:place]}{base}{document.text[place:]}", {}

    def copy_assets(self, folder: Path) -> int:
        """Copy all other files below ``folder``/assets, except links that lead elsewhere."""
        root = self._folder.resolve()
        count = 0
        for path in sorted(self._folder.rglob("*")):
            inside = path.is_file() and path.resolve().is_relative_to(root)
            if inside and path.suffix.lower() not in HTML_SUFFIXES:
                target = folder / ASSETS / path.relative_to(self._folder)
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copyfile(path, target)
                count += 1
        return count

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
