"""A local mirror of web pages: ``mirror.jsonl`` (a record a URL) and ``objects/{2 hex}/{SHA-256}``, the bytes."""

import hashlib
import os
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import iterate_jsonl

MIRROR, FAILED, OBJECTS = "mirror.jsonl", "failed.jsonl", "objects"


@dataclass(frozen=True)
class MirrorRecord:
    """A URL that was fetched; ``kind``: "page" (of the list) or "resource" (that pages show).

    ``url``: as asked; ``final_url``: where it was found, after ``redirects`` (the addresses passed, ``url`` first).
    ``media_type``, ``charset``, ``etag``, ``last_modified``: of its headers, "" without. ``fetched``: when its bytes
    came, ``checked``: when the server last said that they are current (ISO 8601 UTC); ``not_modified``: it said so
    of the bytes in an earlier mirror. ``resources``: what the HTML or stylesheet asks for, absolute and sorted.
    """

    url: str
    canonical_url: str
    kind: str
    final_url: str
    redirects: tuple[str, ...]
    status: int
    media_type: str
    charset: str
    fetched: str
    checked: str
    not_modified: bool
    etag: str
    last_modified: str
    sha256: str
    size_bytes: int
    resources: tuple[str, ...]


@dataclass(frozen=True)
class Failure:
    """A URL that isn't in the mirror, and why. ``reason`` is what the stage counts."""

    url: str
    kind: str
    reason: str
    detail: str


class Objects:
    """Bytes by their SHA-256 below ``folder``, each once; safe to use in threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def put(self, data: bytes) -> str:
        """Store ``data``; return its SHA-256."""
        digest = hashlib.sha256(data).hexdigest()
        path = self.path(digest)
        if not path.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
            temporary = path.with_name(f".{digest}.{os.getpid()}.{threading.get_ident()}")
            temporary.write_bytes(data)
            temporary.replace(path)
        return digest

    def get(self, digest: str) -> bytes | None:
        """The bytes; None if they are gone or damaged."""
        try:
            data = self.path(digest).read_bytes()
        except OSError:
            return None
        return data if hashlib.sha256(data).hexdigest() == digest else None

    def path(self, digest: str) -> Path:
        """Where the bytes are. Raises InputError for what is no SHA-256."""
        if len(digest) != 64 or not set(digest) <= set("0123456789abcdef"):
            raise InputError(f"{self._folder}: wanted a SHA-256 of 64 hex digits, found {digest[:80]!r}")
        return self._folder / digest[:2] / digest

    def keep_only(self, digests: set[str]) -> None:
        """Delete all other files: what a killed run left."""
        for path in self._folder.rglob("*") if self._folder.is_dir() else ():
            if path.is_file() and path.name not in digests:
                path.unlink()
        for folder in self._folder.glob("*"):
            if not any(folder.iterdir()):
                folder.rmdir()


class Mirror:
    """Reads a mirror that fetch_pages wrote."""

    def __init__(self, folder: Path) -> None:
        if not (folder / MIRROR).is_file():
            raise InputError(f"{folder}: wanted a mirror as fetch_pages writes it, found no {MIRROR} in it")
        self._path = folder / MIRROR
        self._objects = Objects(folder / OBJECTS)

    def records(self) -> Iterator[MirrorRecord]:
        """All records, in their order (by canonical URL)."""
        return iterate_jsonl(self._path, MirrorRecord)

    def body(self, record: MirrorRecord) -> bytes | None:
        """The bytes of a record; None if they are gone or damaged."""
        return self._objects.get(record.sha256)
