"""PDFs and picture files as sources of pages: a file is a page, its address is ``base_url`` + its path."""

import hashlib
import os
import re
import threading
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import quote, urljoin

from tilewright.configs.errors import InputError
from tilewright.configs.items import ItemError
from tilewright.data_gen.paged_documents import DocumentInfo, DocumentSizes, DocumentWorker
from tilewright.data_gen.picture_document import PICTURE_FORMATS
from tilewright.data_gen.sources.source import Document, Entry, one_line
from tilewright.data_gen.urls import canonical_url

MAX_FILE_BYTES = 1 << 30
_PDF_DATE = re.compile(r"(?:D:)?(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:Z|([+-])(\d\d)'?(\d\d)?)?")


class _FileFolder:
    """The files of some suffixes at or below ``path``. Raises InputError without ``base_url`` or for no such path."""

    def __init__(self, path: Path, base_url: str | None, suffixes: frozenset[str], kind: str) -> None:
        if not path.exists():
            raise InputError(f"{path}: wanted {kind} or a folder of them, found no such file or folder")
        if path.is_file() and path.suffix.lower() not in suffixes:
            raise InputError(f"{path}: wanted {kind} ({', '.join(sorted(suffixes))})")
        if not base_url:
            raise InputError(f"base_url: wanted the address of {path}: a PDF or picture doesn't name its own")
        self._path, self._suffixes = path, suffixes
        self._root = path.parent if path.is_file() else path
        self._base_url = base_url if base_url.endswith("/") else f"{base_url}/"

    def files(self) -> list[Path]:
        """In order of path."""
        if self._path.is_file():
            return [self._path]
        found = (path for path in self._path.rglob("*") if path.suffix.lower() in self._suffixes and path.is_file())
        return sorted(found, key=lambda path: path.relative_to(self._path).as_posix())

    def url(self, path: Path) -> str:
        """The canonical address of a file."""
        return canonical_url(urljoin(self._base_url, "./" + quote(os.fsencode(path.relative_to(self._root)))))

    def place(self, path: Path) -> str:
        """Where a file stands in the folder, for messages."""
        return path.relative_to(self._root).as_posix()


def _read(path: Path) -> bytes:
    """Raises ItemError for what is too large or empty."""
    size = path.stat().st_size
    if not 0 < size <= MAX_FILE_BYTES:
        raise ItemError(f"{path.name}: {size} bytes; wanted at least 1 and at most {MAX_FILE_BYTES}")
    return path.read_bytes()


class ImageFolder:
    """The pictures (png, jpg, webp, gif, tif, bmp) at or below ``path``; a page's title is its file's name."""

    def __init__(self, path: Path, base_url: str | None) -> None:
        self._folder = _FileFolder(path, base_url, frozenset(PICTURE_FORMATS), "a picture")

    def entries(self, skipped: Counter[str]) -> Iterator[Entry]:
        """One entry a file, in order of path; no file is opened."""
        for path in self._folder.files():
            yield Entry(self._folder.url(path), one_line(path.stem), self._folder.place(path))

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, Path]]:
        """(URL, file) of the first file with each wanted URL."""
        return _first_of_each(self._folder, wanted)

    def convert(self, url: str, raw: Path) -> Document:
        """The file as it is. Raises ItemError for an empty or huge one; what is no picture fails when it is drawn."""
        data = _read(raw)
        return Document(data, raw.suffix.lower(), hashlib.sha256(data).hexdigest())


class PdfFolder:
    """The PDFs at or below ``path``; a page's title is that of its metadata, else its file's name."""

    def __init__(self, path: Path, base_url: str | None) -> None:
        self._folder = _FileFolder(path, base_url, frozenset((".pdf",)), "a PDF")
        self._infos: dict[Path, DocumentInfo | ItemError] = {}
        self._lock = threading.Lock()

    def entries(self, skipped: Counter[str]) -> Iterator[Entry]:
        """One entry a file, in order of path; one that can't be opened gets its file's name, and fails in convert."""
        with DocumentWorker() as worker:
            for path in self._folder.files():
                info = self._info(path, worker)
                title = "" if isinstance(info, ItemError) else one_line(info.title)
                yield Entry(self._folder.url(path), title or one_line(path.stem), self._folder.place(path))

    def documents(self, wanted: set[str]) -> Iterator[tuple[str, Path]]:
        """(URL, file) of the first file with each wanted URL."""
        return _first_of_each(self._folder, wanted)

    def convert(self, url: str, raw: Path) -> Document:
        """The file as it is. Raises ItemError for one that is encrypted, broken or has no pages."""
        data = _read(raw)
        with self._lock, DocumentWorker() as worker:  # entries() asked already: no worker is started
            info = self._info(raw, worker)
        if isinstance(info, ItemError):
            raise info
        return Document(data, ".pdf", hashlib.sha256(data).hexdigest(), fetched=iso_date(info.revised))

    def _info(self, path: Path, worker: DocumentWorker) -> DocumentInfo | ItemError:
        if path not in self._infos:
            try:
                info = worker.open(path, DocumentSizes())
                self._infos[path] = DocumentInfo((), info.title, info.revised)  # sizes of many pages aren't kept
            except ItemError as error:
                self._infos[path] = error
        return self._infos[path]


def _first_of_each(folder: _FileFolder, wanted: set[str]) -> Iterator[tuple[str, Path]]:
    missing = set(wanted)
    for path in folder.files():
        url = folder.url(path)
        if url in missing:
            missing.discard(url)
            yield url, path


def iso_date(pdf_date: str) -> str:
    """``D:20240131120000+01'00'`` (PDF 1.7, 7.9.4) as ``2024-01-31T11:00:00Z``; "" for what is no date."""
    found = _PDF_DATE.match(pdf_date.strip())
    if not found:
        return ""
    *parts, sign, hours, minutes = found.groups()
    numbers = [int(part) if part else default for part, default in zip(parts, (1, 1, 1, 0, 0, 0), strict=True)]
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    try:
        moment = datetime(*numbers, tzinfo=UTC) - offset  # type: ignore[misc,arg-type]
    except (ValueError, OverflowError):
        return ""
    return moment.strftime("%Y-%m-%dT%H:%M:%SZ")
