"""What a source of pages is: a cheap list of entries, then their documents as a stream, then a page of each."""

import mimetypes
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol
from urllib.parse import urlsplit

from tilewright.data_gen.urls import page_id

MAX_FILE_BYTES = 64 << 20  # of a page or a file that it shows, in folders and archives
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def one_line(title: str) -> str:
    """``title`` with control characters and runs of white space as single blanks, and what is no character replaced."""
    return " ".join(_SURROGATES.sub("\ufffd", _CONTROLS.sub(" ", title)).split())


def media_type_of(url: str, named: str = "") -> str:
    """``named``, which its server or archive gives a file; without it that of the address's suffix."""
    return named or mimetypes.guess_type(urlsplit(url).path)[0] or "application/octet-stream"


@dataclass(frozen=True)
class Entry:
    """A page of a source before its document is made; ``place`` says where it was found, for messages."""

    url: str
    title: str
    place: str

    @property
    def page_id(self) -> str:
        """16 hex of the URL."""
        return page_id(self.url)


@dataclass(frozen=True)
class Resource:
    """A file that a page shows or is styled by: its absolute URL as the page asks for it (no fragment), its bytes."""

    url: str
    media_type: str
    data: bytes


@dataclass(frozen=True)
class Document:
    """A page as its source gives it.

    ``data``: UTF-8 HTML, a PDF or an encoded picture, as ``suffix`` (".html", ".pdf", ".png", ...) says; None if the
    renderer reads it from the source itself. ``content_sha256``: of the source's own bytes. ``fetched``: when they were
    fetched or last revised, ISO 8601 UTC, "" if the source doesn't say. ``document_url``: what relative references
    resolve against, "" for the page's URL. ``counts``: what was left out of the page, by reason.
    """

    data: bytes | None
    suffix: str
    content_sha256: str
    fetched: str = ""
    document_url: str = ""
    resources: Iterable[Resource] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


class Source(Protocol):
    """A corpus of pages. Its documents are read as a stream: memory doesn't grow with their size."""

    def entries(self, skipped: Counter[str]) -> Iterable[Entry]:
        """All pages; what is no page is counted in ``skipped`` by reason. Raises InputError."""
        ...

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, Any]]:
        """(URL, raw document for ``convert``) of the first page with each wanted URL."""
        ...

    def convert(self, url: str, raw: Any) -> Document:
        """The page of ``raw``; safe to call in threads. Raises ItemError."""
        ...
