"""A ZIM archive read entry by entry: content entries only, redirects followed to their end, nothing held in memory."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal
from urllib.parse import quote, unquote

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.sources.source import MAX_FILE_BYTES
from tilewright.data_gen.sources.xhtml import XHTML_TYPE

MAX_REDIRECTS = 50
HTML_TYPES = frozenset(("text/html", XHTML_TYPE))
_ARTICLES = "A/"  # of the old scheme, where - holds layout, I images, U, V, W, X what readers need
_BROKEN = (RuntimeError, IndexError, KeyError, ValueError, UnicodeError)  # what libzim raises on damaged archives
_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")

Kind = Literal["page", "asset", "redirects", "dangling_redirects", "cyclic_redirects", "other_namespaces", "unreadable"]


@dataclass(frozen=True)
class ZimItem:
    """A content entry that is no redirect: its path inside the archive (with ``A/`` in the old scheme)."""

    path: str
    title: str
    media_type: str
    size_bytes: int
    _item: Any

    @property
    def is_html(self) -> bool:
        """Whether it is a page."""
        return self.media_type in HTML_TYPES

    def read(self) -> bytes:
        """Its content. Raises ItemError if it can't be decompressed or is larger than MAX_FILE_BYTES."""
        if self.size_bytes > MAX_FILE_BYTES:
            raise ItemError(f"{self.path}: {self.size_bytes} bytes, at most {MAX_FILE_BYTES} are read")
        try:
            return bytes(self._item.content)
        except _BROKEN as error:
            raise ItemError(f"{self.path}: damaged in the archive ({error})") from error


class ZimArchive:
    """The archive at ``path``. Raises InputError if it is none, or without the extra ``zim``.

    ``root`` is the address its entries have for each other, ``https://{UUID}.zim.invalid/`` (.invalid is no host,
    RFC 2606). Both schemes of namespaces are read: the new one, whose paths name content alone, and the old one, where
    ``A/`` holds articles.
    """

    def __init__(self, path: Path) -> None:
        try:
            from libzim.reader import Archive  # type: ignore[import-untyped,unused-ignore]
        except ImportError as error:
            raise InputError("ZIM archives: wanted libzim: `pip install tilewright[zim]`") from error
        if not path.is_file():
            raise InputError(f"{path}: wanted a ZIM archive, found no such file")
        try:
            self._archive = Archive(path)
            self._new_scheme = bool(self._archive.has_new_namespace_scheme)
        except _BROKEN as error:
            raise InputError(f"{path}: not a readable ZIM archive ({error})") from error
        self.path = path
        self.root = f"https://{self._archive.uuid}.zim.invalid/"

    def __len__(self) -> int:
        return int(self._archive.all_entry_count)

    @property
    def date(self) -> str:
        """The day the archive was made, ISO 8601; "" if it doesn't say."""
        try:
            text = bytes(self._archive.get_metadata("Date")).decode("ascii")
        except _BROKEN:
            return ""
        return text if _DATE.fullmatch(text) else ""

    def kinds(self) -> Iterator[tuple[int, Kind]]:
        """(number, what it is) of every entry, in the archive's order of paths."""
        for number in range(len(self)):
            try:
                yield number, self._kind(self._archive._get_entry_by_id(number))
            except _BROKEN:
                yield number, "unreadable"

    def entry(self, number: int) -> ZimItem:
        """The entry of that number, which is no redirect. Raises ItemError if it can't be read."""
        try:
            return _item(self._archive._get_entry_by_id(number))
        except _BROKEN as error:
            raise ItemError(f"{self.path}: entry {number}: damaged ({error})") from error

    def find(self, url: str) -> ZimItem | None:
        """The content entry behind an address below ``root``, its redirects followed; None if there's none."""
        if not url.startswith(self.root):
            return None
        # no urlsplit: it would take the Category: of a relative path for a scheme
        path, _, query = (unquote(part) for part in url[len(self.root) :].partition("#")[0].partition("?"))
        for name in ([f"{path}?{query}"] if query else []) + [path]:
            try:
                if name and self._archive.has_entry_by_path(name):
                    entry, _ = _resolve(self._archive.get_entry_by_path(name))
                    return None if entry is None else _item(entry)
            except _BROKEN:
                continue
        return None

    def address(self, path: str) -> str:
        """The address of an entry below ``root``."""
        return self.root + quote(path.encode("utf-8", "surrogatepass"))

    def web_path(self, path: str) -> str:
        """An entry's path on the site that the archive was made of: without the old scheme's ``A/``."""
        return path if self._new_scheme else path.removeprefix(_ARTICLES)

    def _kind(self, entry: Any) -> Kind:
        if entry.is_redirect:
            _, reason = _resolve(entry)
            return reason if self._is_content(entry) else "other_namespaces"
        item = _item(entry)
        if not item.is_html:
            return "asset"
        return "page" if self._is_content(entry) else "other_namespaces"

    def _is_content(self, entry: Any) -> bool:
        if not self._new_scheme:
            return str(entry.path).startswith(_ARTICLES)
        # paths of metadata and indexes lack their namespace, too: what a path leads to tells them from content
        path = entry.path
        found = self._archive.has_entry_by_path(path) and self._archive.get_entry_by_path(path)
        return bool(found and found._index == entry._index)


def _item(entry: Any) -> ZimItem:
    item = entry.get_item()
    media_type = str(item.mimetype).partition(";")[0].strip().lower()
    return ZimItem(str(entry.path), str(entry.title), media_type, int(item.size), item)


def _resolve(
    entry: Any,
) -> tuple[Any | None, Literal["redirects", "dangling_redirects", "cyclic_redirects"]]:
    """(the entry that a chain of redirects ends in, or None; what the chain is)."""
    for _ in range(MAX_REDIRECTS):
        if not entry.is_redirect:
            return entry, "redirects"
        try:
            entry = entry.get_redirect_entry()
        except _BROKEN:
            return None, "dangling_redirects"
    return None, "cyclic_redirects"
