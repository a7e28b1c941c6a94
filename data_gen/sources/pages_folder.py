"""The folder of make_pages: a document a page, and the files that pages show, each kept once by content.

``documents/{page_id}{suffix}`` · ``documents/{page_id}.resources.json`` (only where a page has resources):
``{URL: {"sha256", "media_type"}}`` · ``resources/{2 hex}/{SHA-256}``. A page is served these and nothing else.
"""

import hashlib
import json
import os
import re
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.data_gen.sources.source import Document, Resource

_SHA256 = re.compile(r"[0-9a-f]{64}")
DOCUMENTS, RESOURCES, TEMPORARY = "documents", "resources", ".tmp"


class PagesFolder:
    """Writes and reads the documents below ``folder``; safe to use in threads."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def write(self, page_id: str, document: Document) -> tuple[str, int]:
        """Store a page; return (its document's relative path, or "" without one, number of resources)."""
        if document.data is None:
            return "", 0
        table = {}
        for resource in document.resources:
            digest = hashlib.sha256(resource.data).hexdigest()
            place = self._folder / RESOURCES / digest[:2] / digest
            if not place.exists():
                self._write(place, resource.data)
            table[resource.url] = {"sha256": digest, "media_type": resource.media_type}
        path = f"{DOCUMENTS}/{page_id}{document.suffix}"
        if table:
            text = json.dumps(table, ensure_ascii=False, sort_keys=True, indent=0)
            self._write(self._table_path(path), text.encode("utf-8", "surrogatepass"))
        self._write(self._folder / path, document.data)
        return path, len(table)

    def document(self, html_path: str) -> bytes:
        """A page's document. Raises InputError if it isn't there or leads out of the folder."""
        return self.document_path(html_path).read_bytes()

    def document_path(self, html_path: str) -> Path:
        """Where a page's document lies. Raises InputError if it isn't there or leads out of the folder."""
        return self._inside(html_path)

    def resources(self, html_path: str) -> Mapping[str, Any]:
        """{URL: {"sha256", "media_type"}} of a page; empty if it has none. Raises InputError for another table."""
        path = self._table_path(html_path)
        if not path.is_file():
            return {}
        try:
            table = json.loads(path.read_bytes())
        except (ValueError, RecursionError) as error:
            raise InputError(f"{path}: not JSON ({error})") from error
        if not isinstance(table, dict):
            raise InputError(f"{path}: wanted a mapping of URLs, found {type(table).__name__}")
        return table

    def resource(self, url: str, entry: Any) -> Resource:
        """The file behind an entry of ``resources``. Raises InputError for what is no entry, or a file that is gone."""
        digest, media_type = (
            (entry.get(key) for key in ("sha256", "media_type")) if isinstance(entry, dict) else ("", "")
        )
        if not (isinstance(digest, str) and _SHA256.fullmatch(digest) and isinstance(media_type, str)):
            raise InputError(f"{self._folder}: {url}: wanted a SHA-256 and a media type, found {str(entry)[:100]}")
        return Resource(url, media_type, self._inside(f"{RESOURCES}/{digest[:2]}/{digest}").read_bytes())

    def _table_path(self, html_path: str) -> Path:
        return (self._folder / html_path).with_suffix(".resources.json")

    def _inside(self, relative: str) -> Path:
        path = (self._folder / relative).resolve()
        if not path.is_relative_to(self._folder.resolve()) or not path.is_file():
            raise InputError(f"{self._folder}: {relative!r}: wanted a file of this folder")
        return path

    def _write(self, path: Path, data: bytes) -> None:
        temporary = self._folder / TEMPORARY / f"{path.name}.{os.getpid()}.{threading.get_ident()}"
        for folder in (path.parent, temporary.parent):
            folder.mkdir(parents=True, exist_ok=True)
        temporary.write_bytes(data)
        temporary.replace(path)
