"""What add and remove check, and how a whole index is put into a new folder."""

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.mining.index_arrays import Array, decode_ids, encode_ids
from tilewright.mining.index_folder import (
    INDEX_JSON,
    TRAINED,
    IndexEntry,
    SegmentEntry,
    remove_leftovers,
    segment_name,
    write_entry,
    write_removed,
)
from tilewright.mining.index_quantiser import Quantiser
from tilewright.mining.index_segment import Segment
from tilewright.mining.index_source import Source


def refuse_known(segments: Sequence[Segment], source: Source) -> None:
    """Raise InputError if a tile of ``source`` is in ``segments``."""
    for ids, _ in source.parts():
        encoded = encode_ids(ids)
        for segment in segments:
            known = np.flatnonzero(segment.find(encoded) >= 0)
            if len(known):
                first = ids[int(known[0])]
                raise InputError(f"{len(known)} tiles are in the index already (first: {first}): remove them first")


def without_tiles(segments: Sequence[Segment], ids: Array) -> list[Segment]:
    """The segments with ``ids`` (bytes, different ones) removed. Raises InputError for an unknown one, and for all."""
    found = [segment.find(ids) for segment in segments]
    unknown = np.flatnonzero(np.all([rows < 0 for rows in found], axis=0))
    if len(unknown):
        first = decode_ids(ids[unknown[:1]])[0]
        raise InputError(f"{len(unknown)} of {len(ids)} tiles aren't in the index (first: {first})")
    if len(ids) == sum(len(segment.live) for segment in segments):
        raise InputError(
            f"these are all {len(ids)} tiles of the index: wanted at least one left; delete its folder instead"
        )
    return [
        segment.without(rows[rows >= 0]) if (rows >= 0).any() else segment
        for segment, rows in zip(segments, found, strict=True)
    ]


def make_new(folder: Path) -> None:
    """A folder for an index; what an unfinished one left there is deleted. Raises InputError if it holds an index."""
    if (folder / INDEX_JSON).exists():
        raise InputError(f"{folder} holds an index already: choose another folder, or delete it")
    folder.mkdir(parents=True, exist_ok=True)
    remove_leftovers(folder, ())


def publish(folder: Path, entry: IndexEntry, segments: Sequence[Segment], quantiser: Quantiser | None) -> None:
    """Make an index of ``folder``, where the arrays of ``segments`` are, numbered from 1."""
    if quantiser is not None:
        (folder / TRAINED).write_bytes(quantiser.to_bytes())
    stored = []
    for number, segment in enumerate(segments, 1):
        whole = SegmentEntry(segment_name(number), len(segment), "", 0)
        stored.append(write_removed(folder, whole, segment.removed, number) if len(segment.removed) else whole)
    write_entry(folder, replace(entry, segments=tuple(stored), generation=len(stored)))
