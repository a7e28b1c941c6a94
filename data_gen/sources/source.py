"""What a source of pages is: a cheap list of entries, then their documents as a stream, then HTML of each."""

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tilewright.data_gen.urls import page_id

_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f]")
_SURROGATES = re.compile(r"[\ud800-\udfff]")


def one_line(title: str) -> str:
    """``title`` with control characters and runs of white space as single blanks, and what is no character replaced."""
    return " ".join(_SURROGATES.sub("\ufffd", _CONTROLS.sub(" ", title)).split())


@dataclass(frozen=True)
class Entry:
    """A page of a source before its HTML is made; ``place`` says where it was found, for messages."""

    url: str
    title: str
    place: str

    @property
    def page_id(self) -> str:
        """16 hex of the URL."""
        return page_id(self.url)


class Source(Protocol):
    """A corpus of pages. Its documents are read as a stream: memory doesn't grow with the corpus."""

    def entries(self, skipped: Counter[str]) -> Iterable[Entry]:
        """All pages; what is no page is counted in ``skipped`` by reason. Raises InputError."""
        ...

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, Any]]:
        """(URL, document for ``html``) of the first page with each wanted URL."""
        ...

    def html(self, url: str, document: Any) -> tuple[str, dict[str, int]]:
        """A page's HTML and counts of what was left out of it; safe to call in threads. Raises ItemError."""
        ...

    def copy_assets(self, folder: Path) -> int:
        """Copy what pages need beside their HTML below ``folder``; return how many files."""
        ...
