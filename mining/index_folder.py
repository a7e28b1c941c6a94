"""An index on disk: ``index.json``, written last, names its segments and what is removed of each; files never change.

    index.json    trained.faiss (IVF kinds)
    segment-000001/  tile_ids.npy  order.npy  and vectors.npy, or list_sizes.npy and lists.npy
    removed-000002-000001.npy         rows of segment 1 that are removed since generation 2

add and remove write new files, then replace ``index.json``: a kill leaves the index as it was or as it is after. What a
killed one left, and what the one before last superseded, is deleted by the next.
"""

import hashlib
import json
import re
import shutil
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from tilewright.configs.digests import plain
from tilewright.configs.errors import InputError
from tilewright.configs.locks import FolderBusyError, folder_lock
from tilewright.configs.manifest import MANIFEST, read_manifest
from tilewright.configs.partial import write_atomically
from tilewright.data_gen.records import from_json
from tilewright.data_gen.store.edit import OLD_MANIFEST
from tilewright.mining.faiss_import import import_faiss
from tilewright.mining.index_arrays import Array, InFolder, open_array
from tilewright.mining.index_build import open_segment
from tilewright.mining.index_quantiser import Quantiser
from tilewright.mining.index_segment import Segment
from tilewright.mining.index_settings import KINDS, Plan

INDEX_JSON, TRAINED = "index.json", "trained.faiss"
FORMAT = "tilewright index 2"
_SEGMENT, _REMOVED = re.compile(r"segment-\d{6}"), re.compile(r"removed-\d{6}-\d{6}\.npy")


@dataclass(frozen=True)
class SegmentEntry:
    """A segment's folder, its tiles, the file of its removed rows ("": none) and their number."""

    name: str
    tiles: int
    removed: str
    removed_tiles: int


@dataclass(frozen=True)
class IndexEntry:
    """``index.json``. ``tiles``: without removed ones; ``parameters``: how it was built; ``generation`` counts edits.

    ``recall_at_10_vs_exact``: measured at build with ``recall_queries`` of the indexed vectors; None: wasn't.
    """

    format: str
    kind: str
    metric: str
    dimension: int
    encoder_hash: str
    tiles: int
    generation: int
    parameters: Plan
    trained_sha256: str
    recall_at_10_vs_exact: float | None
    recall_queries: int
    faiss: str | None
    segments: tuple[SegmentEntry, ...]


def new_entry(plan: Plan, dimension: int, encoder_hash: str, quantiser: Quantiser | None) -> IndexEntry:
    """The entry of an index without tiles."""
    faiss = import_faiss()
    return IndexEntry(
        FORMAT,
        plan.kind,
        "inner product",
        dimension,
        encoder_hash,
        0,
        0,
        plan,
        "" if quantiser is None else quantiser.digest,
        None,
        0,
        None if faiss is None else str(faiss.__version__),
        (),
    )


def read_entry(folder: Path) -> IndexEntry:
    """Read ``index.json``. Raises InputError if it isn't one of ours."""
    path = folder / INDEX_JSON
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise InputError(f"{folder}: not an index that we can read: {error}; run build_index") from error
    found = data.get("format") if isinstance(data, dict) else None
    if found != FORMAT:
        raise InputError(
            f"{path}: not an index that we can read: wanted format {FORMAT!r}, found {found!r}; run build_index"
        )
    entry = from_json(IndexEntry, data, str(path))
    live = sum(segment.tiles - segment.removed_tiles for segment in entry.segments)
    names_fit = all(
        _SEGMENT.fullmatch(segment.name) and (not segment.removed or _REMOVED.fullmatch(segment.removed))
        for segment in entry.segments
    )
    if entry.kind not in KINDS or entry.parameters.kind != entry.kind or entry.tiles != live or not names_fit:
        raise InputError(
            f"{path}: not an index that we can read: kind {entry.kind!r}, {entry.tiles} tiles, {live} in its segments;"
            " run build_index"
        )
    return entry


def open_quantiser(folder: Path, entry: IndexEntry) -> Quantiser | None:
    """The trained part; None for kind flat. Raises InputError if it isn't the one that the index was built with."""
    if entry.kind == "flat":
        return None
    path = folder / TRAINED
    try:
        data = path.read_bytes()
    except OSError as error:
        raise InputError(f"{path}: not a readable index: {error}") from error
    found = hashlib.sha256(data).hexdigest()
    if found != entry.trained_sha256:
        raise InputError(f"{path}: not a readable index: wanted SHA-256 {entry.trained_sha256}, found {found}")
    return Quantiser.from_bytes(data, entry.parameters, entry.dimension, str(path))


def open_segments(folder: Path, entry: IndexEntry, quantiser: Quantiser | None) -> list[Segment]:
    """Map every segment. Raises InputError for a damaged file."""
    segments = []
    for stored in entry.segments:
        removed = _open_removed(folder, stored)
        segments.append(open_segment(folder / stored.name, stored.tiles, entry.dimension, quantiser, removed))
    return segments


def _open_removed(folder: Path, stored: SegmentEntry) -> Array:
    if not stored.removed:
        return np.empty(0, np.int64)
    path = folder / stored.removed
    rows = np.array(open_array(path, np.int64, (stored.removed_tiles,)))
    if len(rows) and (rows[0] < 0 or rows[-1] >= stored.tiles or (np.diff(rows) <= 0).any()):
        raise InputError(f"{path}: wanted ascending rows of {stored.tiles} tiles; build the index again")
    return rows


@contextmanager
def detached(folder: Path, detach: bool) -> Iterator[None]:
    """With ``detach`` make a stage's result a folder of the user's own, which the block may edit: its manifest is put
    aside. If the block fails and the index is as it was, the manifest comes back."""
    manifest, aside = folder / MANIFEST, folder / OLD_MANIFEST
    if not detach or read_manifest(folder) is None:
        yield
        return
    before = (folder / INDEX_JSON).read_bytes()
    manifest.replace(aside)
    try:
        yield
    except BaseException:
        if (folder / INDEX_JSON).read_bytes() == before:
            aside.replace(manifest)
        raise


@contextmanager
def edit_lock(folder: Path) -> Iterator[None]:
    """Hold the folder while the block edits it. Raises FolderBusyError if another process does, InputError if it is the
    result of a stage."""
    if read_manifest(folder) is not None:
        raise InputError(
            f"{folder} is the result of a stage, as its {MANIFEST} says: edit a copy, or detach it first (`--detach`):"
            " then it is a folder of your own"
        )
    try:
        with folder_lock(folder):
            yield
    except FolderBusyError as error:
        raise FolderBusyError(
            f"another process is changing {folder}: run the same command again when it is done"
        ) from error


def remove_leftovers(folder: Path, segments: Collection[SegmentEntry]) -> None:
    """Delete what isn't of ``segments``: a killed edit's files, superseded ones."""
    known = {segment.name for segment in segments} | {segment.removed for segment in segments}
    for path in folder.iterdir():
        if path.name in known:
            continue
        if _SEGMENT.fullmatch(path.name):
            shutil.rmtree(path)
        elif _REMOVED.fullmatch(path.name):
            path.unlink()


def segment_name(number: int) -> str:
    """The folder of the segment that came with generation ``number``."""
    return f"segment-{number:06d}"


def write_removed(folder: Path, stored: SegmentEntry, rows: Array, generation: int) -> SegmentEntry:
    """Write a segment's removed rows; return its new entry."""
    name = f"removed-{generation:06d}-{stored.name.removeprefix('segment-')}"
    arrays = InFolder(folder)
    removed = arrays.new(name, rows.shape, np.int64)
    removed[:] = rows
    arrays.close(removed)
    return replace(stored, removed=f"{name}.npy", removed_tiles=len(rows))


def write_entry(folder: Path, entry: IndexEntry) -> None:
    """Publish: from now on the index is what ``entry`` says."""
    tiles = sum(segment.tiles - segment.removed_tiles for segment in entry.segments)
    text = json.dumps(plain(replace(entry, tiles=tiles)), indent=1, allow_nan=False)
    write_atomically(folder / INDEX_JSON, text + "\n")
