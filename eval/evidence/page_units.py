"""The units of pages, built once for each state of a page: in memory, and in a folder if one is given."""

import dataclasses
import hashlib
import json
from collections import OrderedDict
from pathlib import Path
from typing import Protocol

from tilewright.configs.partial import write_atomically
from tilewright.data_gen.records import from_json
from tilewright.eval.evidence.html_tree import parse_html
from tilewright.eval.evidence.prefilter import UnitIndex
from tilewright.eval.evidence.unit_builder import build_units
from tilewright.eval.evidence.units import BUILDER, Unit, UnitOptions

MEMORY_PAGES = 512


class PageSource(Protocol):
    """Where pages come from: ``html(page_id)`` is (HTML, title), None for a page that isn't there."""

    def html(self, page_id: str) -> tuple[str, str] | None: ...


class PageUnits:
    """Units by (page id, SHA-256 of its HTML and title, builder and its options)."""

    def __init__(self, pages: PageSource, options: UnitOptions, folder: Path | None = None) -> None:
        self._pages, self._options, self._folder = pages, options, folder
        self._version = f"{BUILDER}; {options}"
        self._kept: OrderedDict[str, UnitIndex] = OrderedDict()
        self.built = 0

    def of(self, page_id: str) -> UnitIndex | None:
        """A page's units, indexed; None if there is no such page."""
        found = self._pages.html(page_id)
        if found is None:
            return None
        key = _key(page_id, *found, self._version)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key]
        stored = self._read(key)
        index = UnitIndex.of(self._build(page_id, *found, key) if stored is None else stored)
        self._kept[key] = index
        if len(self._kept) > MEMORY_PAGES:
            self._kept.popitem(last=False)
        return index

    def _build(self, page_id: str, html: str, title: str, key: str) -> list[Unit]:
        self.built += 1
        units = build_units(parse_html(html), page_id=page_id, title=title, options=self._options)
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)
            rows = [dataclasses.asdict(unit) for unit in units]
            write_atomically(self._folder / f"{key}.json", json.dumps({"builder": self._version, "units": rows}) + "\n")
        return units

    def _read(self, key: str) -> list[Unit] | None:
        if self._folder is None or not (path := self._folder / f"{key}.json").is_file():
            return None
        rows = json.loads(path.read_text(encoding="utf-8"))["units"]
        return [from_json(Unit, row, str(path)) for row in rows]


def _key(*parts: str) -> str:
    digest = hashlib.sha256()
    for part in parts:
        data = part.encode("utf-8", "surrogatepass")
        digest.update(len(data).to_bytes(8, "big") + data)
    return digest.hexdigest()
