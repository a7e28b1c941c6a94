"""A tile store written while its pages are still being made, in any order; a kill loses nothing that was finished.

Pages go into shards in order of ``page_id``, as far as all pages before them are known, and a page's working file is
deleted once its last tile is in a finished shard. Nothing else is remembered: after a kill the shards themselves say
what is done. A page that failed before and is there now has its place in a finished shard: that shard and those after
it become working files again, so that the bytes are the same as if it had never failed.
"""

import re
from bisect import bisect_left
from collections import defaultdict, deque
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc

from tilewright.configs.errors import InputError
from tilewright.data_gen.store.rows import read_batches, without_images
from tilewright.data_gen.store.shards import SHARD_BYTES, Ascending, ShardWriter, shard_name
from tilewright.data_gen.store.state import INFO, STATE, Shard, publish_state, write_state
from tilewright.data_gen.tiles import working_file

_OPEN, _FINISHED, _SKIPPED = 0, 1, 2
_OLD = re.compile(r"old-([0-9]{5,})\.arrow")
_CLOSING = "closing"
_PAGE_ID_LENGTH = 16


class StoreWriter:
    """Gathers ``work/{page_id}.arrow`` (``write_tiles``) of pages into the shards of ``folder``.

    ``page_ids``: all pages there may be. After a kill make it anew, tell every page that isn't in the shards again
    (telling others again does no harm), go on. ``keep_images=False`` leaves the pictures out.
    """

    def __init__(
        self,
        folder: Path,
        work: Path,
        page_ids: Iterable[str],
        shard_bytes: int = SHARD_BYTES,
        *,
        keep_images: bool = True,
    ) -> None:
        self._folder, self._work, self._shard_bytes, self._keep_images = folder, work, shard_bytes, keep_images
        self._pages = sorted(page_ids)
        doubled = next((page for page, other in pairwise(self._pages) if page == other), None)
        if doubled is not None:
            raise InputError(f"page_id {doubled!r} stands twice; wanted each page once")
        self._told = bytearray(len(self._pages))
        self._in_shards = bytearray(len(self._pages))
        self._old: dict[str, list[pa.RecordBatch]] = {}
        self._next = 0  # the first page that isn't known, as far as told
        self._used: deque[tuple[str, Path]] = deque()  # (last tile_id, working file) in order
        self._resume()

    def finish_page(self, page_id: str) -> None:
        """The page's tiles are in ``work/{page_id}.arrow``. Raises InputError for a page that isn't one of ours."""
        self._tell(page_id, _FINISHED)

    def skip_page(self, page_id: str) -> None:
        """The page gives no tiles: it has none, or it failed."""
        self._tell(page_id, _SKIPPED)

    def close(self) -> int:
        """Write what is left and the state that makes it a store; return its number of tiles.

        Raises InputError if pages were neither finished nor skipped.
        """
        if self._next < len(self._pages):
            raise InputError(f"{self._folder}: page {self._pages[self._next]} is neither finished nor skipped")
        (self._work / _CLOSING).touch()
        self._writer.close_or_write_empty()
        self._delete_used()
        publish_state(self._folder, write_state(self._folder, self._writer.shards, self._writer.number))
        for page_id in self._pages:
            self._working_file(page_id).unlink(missing_ok=True)  # pages in shards that were made again
        return sum(shard.rows for shard in self._writer.shards)

    def _tell(self, page_id: str, what: int) -> None:
        place = bisect_left(self._pages, page_id)
        if place == len(self._pages) or self._pages[place] != page_id:
            raise InputError(f"page {page_id!r} isn't among the {len(self._pages)} pages of this store")
        self._told[place] = what
        if what == _SKIPPED and self._in_shards[place]:
            self._reopen(page_id)
        if not self._in_shards[place]:
            self._next = min(self._next, place)  # it was skipped before
        self._advance()

    def _advance(self) -> None:
        """Write pages in order, up to the first one that isn't known yet."""
        while self._next < len(self._pages):
            page_id, told = self._pages[self._next], self._told[self._next]
            if told != _SKIPPED and not self._in_shards[self._next]:
                if told != _FINISHED and page_id not in self._old and page_id != self._last_page:
                    return
                if page_id < self._last_page:
                    self._reopen(page_id)
                    continue
                self._write_page(page_id)
            self._next += 1

    @property
    def _last_page(self) -> str:
        return self._ascending.last[:_PAGE_ID_LENGTH]

    def _write_page(self, page_id: str) -> None:
        path = self._working_file(page_id)
        if path.is_file():
            batches = read_batches(path)
        elif page_id in self._old or page_id == self._last_page:  # a page without a file is wholly in the shards
            batches = self._old.get(page_id, [])
        else:
            raise InputError(f"{path}: wanted the tiles of a finished page, found no such file")
        finished = False
        for batch in batches:
            is_fresh = pc.greater(batch.column("tile_id"), self._ascending.last)
            fresh = batch if pc.all(is_fresh).as_py() else batch.filter(is_fresh)
            if set(fresh.column("page_id").to_pylist()) - {page_id}:
                raise InputError(f"{path}: wanted tiles of page {page_id} alone")
            self._ascending.check(fresh)
            finished |= self._writer.write(fresh if self._keep_images else without_images(fresh))
        self._in_shards[self._next] = True
        if path.is_file() and self._last_page == page_id:
            self._used.append((self._ascending.last, path))
        if finished:
            self._delete_used()

    def _working_file(self, page_id: str) -> Path:
        return working_file(self._work, page_id, "arrow")

    def _delete_used(self) -> None:
        """Delete working files whose last tile stands in a finished shard."""
        last = _last_id(self._folder / self._writer.shards[-1].name)
        while self._used and self._used[0][0] <= last:
            self._used.popleft()[1].unlink(missing_ok=True)
        for path in self._old_files():
            if _last_id(path) <= last:
                path.unlink()

    def _resume(self) -> None:
        """Work out from the folder what is done. A killed ``close`` may have left a last shard that is too short."""
        self._folder.mkdir(parents=True, exist_ok=True)
        was_closing = (self._work / _CLOSING).exists() or (self._folder / STATE).exists()
        shards: list[Shard] = []
        while (path := self._folder / shard_name(len(shards))).is_file():
            pages = [page for batch in read_batches(path) for page in batch.column("page_id").to_pylist()]
            self._mark(pages, path)
            shards.append(Shard(path.name, len(pages), path.stat().st_size))
        self._start(shards)
        if was_closing and shards:
            self._set_aside(len(shards) - 1)
        for path in (self._folder / STATE, self._folder / INFO, self._work / _CLOSING):
            path.unlink(missing_ok=True)
        self._advance()

    def _mark(self, pages: Iterable[str], path: Path) -> None:
        for page_id in dict.fromkeys(pages):
            place = bisect_left(self._pages, page_id)
            if place == len(self._pages) or self._pages[place] != page_id:
                raise InputError(f"{path}: page {page_id} isn't among the pages of this store; delete {path.parent}")
            self._in_shards[place] = True

    def _reopen(self, page_id: str) -> None:
        """Set aside the shard that holds a page, or its place, and all after it."""
        self._writer.abandon()
        lasts = [_last_id(self._folder / shard.name) for shard in self._writer.shards]
        self._set_aside(next((number for number, last in enumerate(lasts) if last >= page_id), len(lasts)))

    def _set_aside(self, number: int) -> None:
        """Make working files of the shards from ``number`` on, the last one first: what stays is always a beginning."""
        free = 1 + max((_number(path) for path in self._old_files()), default=-1)
        shards = self._writer.shards
        for place, shard in enumerate(reversed(shards[number:])):
            (self._folder / shard.name).replace(self._work / f"old-{free + place:05d}.arrow")
        self._start(shards[:number])

    def _start(self, shards: list[Shard]) -> None:
        """Go on after ``shards``; the working files on disk are what comes after them."""
        self._writer = ShardWriter(self._folder, len(shards), self._shard_bytes)
        self._writer.shards = shards
        self._ascending = Ascending(_last_id(self._folder / shards[-1].name) if shards else "")
        redone = bisect_left(self._pages, self._last_page)
        self._next = min(self._next, redone)  # an earlier one may still be unknown
        self._used.clear()
        for place in range(redone, len(self._pages)):
            self._in_shards[place] = False
        self._old = self._old_pages()

    def _old_files(self) -> list[Path]:
        return sorted((path for path in self._work.iterdir() if _OLD.fullmatch(path.name)), key=_number)

    def _old_pages(self) -> dict[str, list[pa.RecordBatch]]:
        """The rows of shards that were set aside, by page, in order of id; some may stand in two of them."""
        found: dict[str, list[pa.RecordBatch]] = defaultdict(list)
        for path in self._old_files():
            for batch in read_batches(path):
                pages = batch.column("page_id").to_pylist()
                starts = [row for row in range(len(pages)) if not row or pages[row] != pages[row - 1]]
                for start, stop in pairwise([*starts, len(pages)]):
                    found[pages[start]].append(batch.slice(start, stop - start))
        return {
            page: sorted(rows, key=lambda batch: batch.column("tile_id")[0].as_py()) for page, rows in found.items()
        }


def _number(path: Path) -> int:
    match = _OLD.fullmatch(path.name)
    return int(match[1]) if match else -1


def _last_id(path: Path) -> str:
    """The last tile_id of a file of rows, "" if it has none."""
    batches = [batch for batch in read_batches(path) if len(batch)]
    return str(batches[-1].column("tile_id")[-1].as_py()) if batches else ""
