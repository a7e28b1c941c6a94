"""Check a tile store: pictures, hashes, ids, geometry. Every problem is reported with its tile; nothing is changed."""

import io
from collections import Counter, deque
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from PIL import Image

from tilewright.configs.errors import InputError
from tilewright.data_gen.images import FORMATS, decode_image, image_sha256
from tilewright.data_gen.records import Page, read_jsonl
from tilewright.data_gen.store.geometry import Rectangle, problems_of_page
from tilewright.data_gen.store.rows import IMAGE, TILE_ID, tile_schema
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import tile_id

_COLUMNS = ["tile_id", "page_id", "row", "column", "x_px", "y_px", "width_px", "height_px", "image_sha256"]
_AT_ONCE = 16
Row = dict[str, Any]


@dataclass(frozen=True)
class Problem:
    """What is wrong with a tile, a page or a file (``where``)."""

    where: str
    what: str


@dataclass(frozen=True)
class Report:
    """What ``verify`` found: counts by name, and every problem."""

    counts: dict[str, int]
    problems: list[Problem]


def verify(folder: Path, *, images: bool = True, threads: int = 2) -> Report:
    """Check the store in ``folder``; ``images=False`` leaves pictures undecoded.

    Checked: every picture decodes and has the row's size and pixel hash; ids are valid, ascending, each once, and say
    page, row and column of their tile; the tiles of a page that pages.jsonl calls complete cover each of its pixels
    once, those of other pages don't overlap; page records and tiles agree. Boxes of words and links that leave their
    tile are counted: a word may be cut by a tile's edge. Raises InputError if there's no store that can be opened.
    """
    store = TileStore.open(folder)
    counts: Counter[str] = Counter(tiles=len(store), shards=len(store.state.shards))
    problems = list(_file_problems(store))
    if any(problem.where != store.state.pages for problem in problems):  # rows can't be read safely
        return Report(dict(counts | Counter(problems=len(problems))), problems)
    problems += _id_problems(store)
    pages = _page_records(store)
    for page_id, batches in _pages(store):
        counts["pages"] += 1
        rows = [row for batch in batches for row in batch.select(_COLUMNS).to_pylist()]
        problems += [Problem(*found) for found in _row_problems(rows, page_id)]
        problems += [Problem(*found) for found in problems_of_page(_rectangles(rows), (pages or {}).pop(page_id, None))]
        counts["boxes_outside_tiles"] += sum(map(_boxes_outside, batches))
    problems += [
        Problem(page_id, f"its record says {page.tile_count} tiles, the store has none")
        for page_id, page in (pages or {}).items()
        if page.tile_count
    ]
    problems += _image_problems(store, threads, counts) if images else []
    counts["problems"] = len(problems)
    return Report(dict(counts), problems)


def _file_problems(store: TileStore) -> Iterator[Problem]:
    """Shards whose bytes aren't sound Arrow data of the right columns."""
    for number, shard in enumerate(store.state.shards):
        try:
            for batch in store.shard_batches(number):
                batch.validate(full=True)
                if batch.schema.types != tile_schema().types:
                    raise InputError("its columns have other types than a tile store's")
        except (InputError, pa.ArrowException, OSError) as error:
            yield Problem(shard.name, str(error))
    rows = np.sort(store.rows_of(range(len(store))))
    if not np.array_equal(rows, np.arange(len(store))):
        yield Problem(str(store.state.rows), "wanted each row once")
    if store.state.pages is not None:
        yield Problem(store.state.pages, "an edit was killed before pages.jsonl followed: any other edit finishes it")


def _id_problems(store: TileStore) -> Iterator[Problem]:
    """Ids of the wrong form or order, and rows that aren't the ones their ids lead to."""
    last = ""
    rows = (found for batch in store.slices() for found in batch.column("tile_id").to_pylist())
    for listed, found in zip(store.tile_ids, rows, strict=True):
        if not TILE_ID.fullmatch(found):
            yield Problem(repr(found), "wanted an id of the form {16 hex}-{row}-{column}")
        if found != listed:
            yield Problem(found, f"stands where {store.state.ids} says {listed}")
        if found <= last:
            yield Problem(found, f"stands after {last}: ids ascend, each once")
        last = found


def _page_records(store: TileStore) -> dict[str, Page] | None:
    path = store.folder.parent / "pages.jsonl"
    if store.folder.name != "store" or not path.is_file():
        return None
    return {page.page_id: page for page in read_jsonl(path, Page, unique="page_id")}


def _pages(store: TileStore) -> Iterator[tuple[str, list[pa.RecordBatch]]]:
    """(page_id, its rows); pages in ascending order."""
    gathered: list[pa.RecordBatch] = []
    current = ""
    for page_id, batch in store.page_slices():
        if page_id != current and gathered:
            yield current, gathered
            gathered = []
        current = page_id
        gathered.append(batch)
    if gathered:
        yield current, gathered


def _row_problems(rows: list[Row], page_id: str) -> Iterator[tuple[str, str]]:
    for row in rows:
        expected = tile_id(page_id, row["row"], row["column"])
        if row["tile_id"] != expected:
            yield row["tile_id"], f"is row {row['row']}, column {row['column']} of page {page_id}: wanted {expected}"


def _rectangles(rows: list[Row]) -> list[Rectangle]:
    return [Rectangle(row["tile_id"], row["x_px"], row["y_px"], row["width_px"], row["height_px"]) for row in rows]


def _boxes_outside(batch: pa.RecordBatch) -> int:
    """How many boxes of words and links reach out of their tile."""
    outside = 0
    sizes = [batch.column(name).to_numpy(zero_copy_only=False) for name in ("width_px", "height_px")]
    for name in ("words", "links"):
        lists = batch.column(name)
        boxes, parents = lists.flatten(), np.asarray(lists.value_parent_indices())
        x, y, width, height = (
            boxes.field(part).to_numpy(zero_copy_only=False) for part in ("x_px", "y_px", "width_px", "height_px")
        )
        wrong = (x < 0) | (y < 0) | (x + width > sizes[0][parents] + 1e-6) | (y + height > sizes[1][parents] + 1e-6)
        outside += int(wrong.sum())
    return outside


def _image_problems(store: TileStore, threads: int, counts: "Counter[str]") -> list[Problem]:
    """Problems of the pictures, decoded by ``threads`` threads, a few in memory at a time."""
    problems: list[Problem] = []
    waiting: deque[Future[list[tuple[str, str]]]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        for batch in store.slices():
            for start in range(0, len(batch), _AT_ONCE):
                rows = batch.slice(start, _AT_ONCE).select([*_COLUMNS, IMAGE]).to_pylist()
                counts["images_left_out"] += sum(not (row[IMAGE] or {}).get("bytes") for row in rows)
                waiting.append(pool.submit(_check_images, rows))
                if len(waiting) > 2 * threads:
                    problems += [Problem(*found) for found in waiting.popleft().result()]
        problems += [Problem(*found) for future in waiting for found in future.result()]
    return problems


def _check_images(rows: list[Row]) -> list[tuple[str, str]]:
    found = [(row["tile_id"], _image_problem(row)) for row in rows if row[IMAGE] and row[IMAGE]["bytes"]]
    return [(where, what) for where, what in found if what is not None]


def _image_problem(row: Row) -> str | None:
    wanted = (row["width_px"], row["height_px"])
    try:
        with Image.open(
            io.BytesIO(row[IMAGE]["bytes"]), formats=FORMATS
        ) as image:  # the head only: a bomb isn't decoded
            if image.size != wanted:
                return f"its image is {image.size[0]} x {image.size[1]} px, wanted {wanted[0]} x {wanted[1]}"
        digest = image_sha256(decode_image(row[IMAGE]["bytes"]))
    except Exception as error:  # noqa: BLE001 -- a decoder raises anything on bad data; it is reported
        return f"its image can't be decoded ({error})"
    return None if digest == row["image_sha256"] else f"its pixels hash to {digest}, wanted {row['image_sha256']}"
