"""Shards of one index: train a quantiser once, build with it anywhere, merge. One index merged drops removed tiles.

Nothing is encoded again. The merged lists hold, each, the parts' entries one after another: what an index of all
vectors at once holds, byte for byte.
"""

from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np

from tilewright.configs.digests import plain
from tilewright.configs.errors import InputError
from tilewright.configs.requests import differences
from tilewright.mining.index import TileIndex
from tilewright.mining.index_arrays import BLOCK_BYTES, Array, InFolder, decode_ids, release
from tilewright.mining.index_build import train_quantiser, unique_order, write_lists, write_segment
from tilewright.mining.index_edit import make_new, publish
from tilewright.mining.index_folder import new_entry, segment_name
from tilewright.mining.index_lists import InvertedLists
from tilewright.mining.index_quantiser import Quantiser
from tilewright.mining.index_segment import Segment
from tilewright.mining.index_settings import RECALL, IndexSettings, RecallSettings, make_plan
from tilewright.mining.index_source import Source


def train_index(source: Source, folder: Path, *, encoder_hash: str, settings: IndexSettings) -> TileIndex:
    """An index in ``folder`` without tiles, its quantiser trained by a sample of ``source``, for ``build_from(like=)``.

    Raises InputError for kind flat, which has nothing to train, as ``make_plan``, and if ``folder`` holds an index.
    """
    plan = make_plan(settings, len(source), source.dimension)
    quantiser = train_quantiser(source, plan)
    if quantiser is None:
        raise InputError("kind flat has nothing to train: build its shards as they are")
    make_new(folder)
    publish(folder, new_entry(plan, source.dimension, encoder_hash, quantiser), [], quantiser)
    return TileIndex.load(folder)


def merge_indexes(
    parts: Sequence[TileIndex], folder: Path, *, source: Source | None = None, recall: RecallSettings = RECALL
) -> TileIndex:
    """The tiles of ``parts``, in order, as one segment in the new ``folder``.

    ``source``: all their vectors, to measure recall by; without, a merged IVF index has none.
    Raises InputError for parts of another encoder, kind, parameters or quantiser, for a tile in two of them, and for
    recall below the floor.
    """
    first = _checked(parts)
    segments = [segment for part in parts for segment in part.segments if len(segment.live)]
    if not segments:
        raise InputError("parts: wanted at least one tile, found none")
    make_new(folder)
    arrays, quantiser = InFolder(folder / segment_name(1)), first.quantiser
    if quantiser is None:
        segment = write_segment(arrays, _SegmentSource(segments, first.dimension), None)
    else:
        segment = _merged_lists(arrays, segments, quantiser)
    entry = new_entry(first.entry.parameters, first.dimension, first.encoder_hash, quantiser)
    merged = TileIndex(entry, [segment], quantiser, first.top_k, None)
    merged.measure(source, recall)
    publish(folder, merged.entry, merged.segments, quantiser)
    return TileIndex.load(folder)


def _checked(parts: Sequence[TileIndex]) -> TileIndex:
    """The first part. Raises InputError unless the others fit it."""
    if not parts:
        raise InputError("parts: wanted at least one index, found none")
    identities = [
        {name: plain(getattr(part.entry, name)) for name in ("kind", "dimension", "encoder_hash", "parameters")}
        | {"trained_sha256": part.entry.trained_sha256}
        for part in parts
    ]
    for part, identity in zip(parts, identities, strict=True):
        found = differences(identities[0], identity)
        if found:
            key, wanted, other = found[0]
            raise InputError(
                f"{part.folder}: {key}: wanted {wanted} as in {parts[0].folder}, found {other}: shards that are merged"
                " share one encoder and one trained quantiser (train_index)"
            )
    return parts[0]


class _SegmentSource:
    """The live tiles of flat segments."""

    def __init__(self, segments: Sequence[Segment], dimension: int) -> None:
        self._segments, self.dimension = segments, dimension

    def __len__(self) -> int:
        return sum(len(segment.live) for segment in self._segments)

    def parts(self) -> Iterator[tuple[Sequence[str], Array]]:
        """In blocks."""
        for segment, rows in _blocks(self._segments, 4 * self.dimension):
            yield decode_ids(segment.ids[rows]), segment.vectors(rows)


def _blocks(segments: Sequence[Segment], row_bytes: int) -> Iterator[tuple[Segment, Array]]:
    """(segment, live rows) in blocks of a bounded size."""
    step = max(1, BLOCK_BYTES // row_bytes)
    for segment in segments:
        rows = segment.live_rows()
        for start in range(0, len(rows), step):
            yield segment, rows[start : start + step]


def _merged_lists(arrays: InFolder, segments: Sequence[Segment], quantiser: Quantiser) -> Segment:
    ids = np.concatenate([segment.ids[segment.live_rows()] for segment in segments])
    unique_order(ids)
    numbers = np.concatenate([_lists(segment).layout.lists_of(segment.live_rows()) for segment in segments])

    def codes() -> Iterator[tuple[int, Array]]:
        start = 0
        for segment, rows in _blocks(segments, quantiser.code_size):
            lists = _lists(segment)
            yield start, lists.codes(rows)
            release(lists.raw)
            start += len(rows)

    return write_lists(arrays, ids, numbers.astype(np.int32), codes, quantiser)


def _lists(segment: Segment) -> InvertedLists:
    assert isinstance(segment.stored, InvertedLists)
    return segment.stored
