"""The index of tiles: exact, or inverted lists whose codes are vectors, bytes or products of small codebooks.

What finds candidates is FAISS, or torch for kind flat where FAISS is missing or has no GPU build, with equal results:
scores are computed once more, the same way for both, and ties go to the smaller ``tile_id``. Rankings depend neither on
the backend nor on the order of the vectors, the block of queries or the threads.

With little storage keep a quantised index (ivf_pq: ``m`` bytes a tile) and no pictures: ``tilewright tiles render``
makes the few tiles that a search finds again from their pages (``data_gen/render_again.py``).
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from tilewright.configs.digests import plain
from tilewright.configs.errors import InputError
from tilewright.mining.index_arrays import Array, InFolder, InMemory, decode_ids, encode_ids
from tilewright.mining.index_build import copy_segment, train_quantiser, write_segment
from tilewright.mining.index_edit import make_new, publish, refuse_known, without_tiles
from tilewright.mining.index_folder import (
    IndexEntry,
    SegmentEntry,
    edit_lock,
    new_entry,
    open_quantiser,
    open_segments,
    read_entry,
    remove_leftovers,
    segment_name,
    write_entry,
    write_removed,
)
from tilewright.mining.index_quantiser import Quantiser
from tilewright.mining.index_recall import DEPTH, check_recall, recall_vs_exact
from tilewright.mining.index_search import Hits, Searcher
from tilewright.mining.index_segment import Segment, first_beyond, missing_from
from tilewright.mining.index_settings import FLAT, RECALL, IndexSettings, RecallSettings, make_plan
from tilewright.mining.index_source import InMemorySource, Source, sample_of
from tilewright.mining.index_topk import Backend, TopK, choose_top_k
from tilewright.train.contract import check_same_space

__all__ = ["Backend", "Hits", "TileIndex"]


class TileIndex:
    """Vectors of tiles by id. Made by ``build``, ``build_from`` or ``load``; ``encoder_hash`` names the
    vectors' space. In a ``folder`` it is mapped and read-only: ``add`` and ``remove`` write new files there."""

    def __init__(
        self,
        entry: IndexEntry,
        segments: Sequence[Segment],
        quantiser: Quantiser | None,
        top_k: TopK,
        folder: Path | None,
    ) -> None:
        self.entry, self.folder = entry, folder
        self.kind, self.dimension, self.encoder_hash = entry.kind, entry.dimension, entry.encoder_hash
        self.quantiser, self.top_k = quantiser, top_k
        self.segments = list(segments)

    def __len__(self) -> int:
        return sum(len(segment.live) for segment in self.segments)

    def __contains__(self, tile_id: str) -> bool:
        return not self.missing([tile_id])

    def missing(self, tile_ids: Sequence[str]) -> list[str]:
        """Those of ``tile_ids`` that aren't in the index."""
        return missing_from(self.segments, tile_ids)

    def first_beyond(self, tile_ids: Sequence[str]) -> str | None:
        """A tile of the index that isn't among ``tile_ids``, which are read in blocks; None if there is none."""
        return first_beyond(self.segments, tile_ids)

    @property
    def backend(self) -> str:
        """What finds candidates: faiss or torch."""
        return self.top_k.name

    @cached_property
    def tile_ids(self) -> tuple[str, ...]:
        """The ids of all tiles; of kind flat in the order they came in. ``in`` needs no such list."""
        return tuple(tile_id for segment in self.segments for tile_id in decode_ids(segment.ids[segment.live_rows()]))

    def tiles_of(self, pages: Collection[str]) -> list[str]:
        """The ids of all tiles of ``pages``."""
        found = ((segment, segment.of_pages(pages).rows) for segment in self.segments)
        return [tile_id for segment, rows in found if rows is not None for tile_id in decode_ids(segment.ids[rows])]

    @classmethod
    def build(
        cls,
        vectors: Tensor | Array,
        tile_ids: Sequence[str],
        *,
        encoder_hash: str,
        settings: IndexSettings = FLAT,
        recall: RecallSettings = RECALL,
        backend: Backend = "auto",
        device: str = "cpu",
    ) -> "TileIndex":
        """Index ``vectors`` [P, D] (unit length, float32 or float16) of ``tile_ids`` in memory; kind flat doesn't copy
        float32 ones, so leave them as they are.

        Raises InputError for no vectors, vectors that aren't finite and of unit length, ids that are too few, too many
        or given twice, backend faiss without FAISS, and as ``build_from``.
        """
        source = InMemorySource(_as_array(vectors), tile_ids)
        return cls.build_from(
            source, encoder_hash=encoder_hash, settings=settings, recall=recall, backend=backend, device=device
        )

    @classmethod
    def build_from(
        cls,
        source: Source,
        *,
        encoder_hash: str,
        settings: IndexSettings = FLAT,
        recall: RecallSettings = RECALL,
        like: "TileIndex | None" = None,
        folder: Path | None = None,
        backend: Backend = "auto",
        device: str = "cpu",
    ) -> "TileIndex":
        """Index all of ``source``, in memory or, read and written in blocks, in ``folder``.

        ``like``: an index whose trained quantiser is used instead of its own: shards that share one merge exactly.
        Raises InputError if ``folder`` holds an index, for an encoder or dimension other than that of ``like``, as
        ``make_plan``, and if recall@10 against exact search is below the floor.
        """
        plan = make_plan(settings, len(source), source.dimension) if like is None else like.entry.parameters
        top_k = choose_top_k(backend, device, exact=plan.kind == "flat")
        if like is None:
            quantiser = train_quantiser(source, plan)
        else:
            like.check_vectors(encoder_hash, source.dimension)
            quantiser = like.quantiser
        if folder is not None:
            make_new(folder)
        arrays = InMemory() if folder is None else InFolder(folder / segment_name(1))
        segment = write_segment(arrays, source, quantiser)
        entry = new_entry(plan, source.dimension, encoder_hash, quantiser)
        index = cls(entry, [segment], quantiser, top_k, None)
        index.measure(source, recall)
        if folder is None:
            return index
        publish(folder, index.entry, index.segments, quantiser)
        return cls.load(folder, backend=backend, device=device)

    def measure(self, source: Source | None, recall: RecallSettings) -> None:
        """Measure recall@10 against exact search of ``source``, all the index's vectors; kind flat needs none.

        Raises InputError if it is below the floor.
        """
        if self.kind == "flat" or source is None:
            self.entry = replace(self.entry, recall_at_10_vs_exact=1.0 if self.kind == "flat" else None)
            return
        ids, queries = sample_of(source, recall.queries, recall.seed)
        found = recall_vs_exact(self.search(queries, DEPTH + 1), ids, queries, source, self.top_k)
        check_recall(found, recall, self.entry.parameters)
        self.entry = replace(self.entry, recall_at_10_vs_exact=found, recall_queries=len(ids))

    def check_encoder(self, encoder_hash: str, where: str = "the index") -> None:
        """Raise InputError unless queries of the encoder ``encoder_hash`` may be searched here."""
        check_same_space(encoder_hash, self.encoder_hash, where)

    def check_vectors(self, encoder_hash: str, dimension: int) -> None:
        """Raise InputError unless vectors of this encoder and dimension may be added here."""
        if (encoder_hash, dimension) != (self.encoder_hash, self.dimension):
            raise InputError(
                f"{self.folder or 'the index'}: wanted vectors of encoder {self.encoder_hash[:16]}, dimension"
                f" {self.dimension}; found encoder {encoder_hash[:16]}, dimension {dimension}"
            )

    def search(
        self, queries: Tensor | Array, k: int, *, pages: Collection[str] | None = None, nprobe: int | None = None
    ) -> Hits:
        """For each of ``queries`` [Q, D] its min(k, P) best tiles, ((tile_id, score), ...), best first.

        ``pages``: tiles of these pages only; k hits, or all that there are (up to 50,000 tiles are compared one by
        one). ``nprobe``: lists searched, instead of the index's own; more where they hold fewer than k tiles.
        Raises InputError for k or nprobe below 1, another D, or queries that aren't finite.
        """
        array = np.ascontiguousarray(_as_array(queries), dtype=np.float32)
        nprobe = self.entry.parameters.nprobe if nprobe is None else nprobe
        if k < 1 or (nprobe < 1 and self.quantiser is not None):
            raise InputError(f"{'k' if k < 1 else 'nprobe'}: wanted at least 1, found {k if k < 1 else nprobe}")
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise InputError(f"queries: wanted shape [Q, {self.dimension}], found {list(array.shape)}")
        if not np.isfinite(array).all():
            raise InputError("queries hold NaN or infinity: the query encoder is broken")
        if self.quantiser is not None:
            nprobe = min(nprobe, self.quantiser.nlist)
        return Searcher(self.segments, self.top_k, self.quantiser, pages).search(array, k, nprobe)

    def add(self, vectors: Tensor | Array, tile_ids: Sequence[str], *, encoder_hash: str | None = None) -> None:
        """Add ``vectors`` [P, D] of ``tile_ids`` as a new segment. Raises InputError as ``build`` and ``add_from``."""
        self.add_from(InMemorySource(_as_array(vectors), tile_ids), encoder_hash or self.encoder_hash)

    def add_from(self, source: Source, encoder_hash: str) -> None:
        """Add all of ``source`` as a new segment.

        Raises InputError for another encoder or dimension, an id that is in the index, and a folder that is the result
        of a stage; FolderBusyError if another process changes the folder.
        """
        self.check_vectors(encoder_hash, source.dimension)
        if self.folder is None:
            refuse_known(self.segments, source)
            self._now([*self.segments, write_segment(InMemory(), source, self.quantiser)])
            return
        with edit_lock(self.folder):
            entry = self._refreshed()
            refuse_known(self.segments, source)
            name = segment_name(entry.generation + 1)
            segment = write_segment(InFolder(self.folder / name), source, self.quantiser)
            stored = SegmentEntry(name, len(segment), "", 0)
            self._commit(replace(entry, segments=(*entry.segments, stored)))

    def remove(self, tile_ids: Iterable[str]) -> None:
        """Remove tiles. Raises InputError for an unknown id, for all tiles, and as ``add_from``."""
        ids = encode_ids(sorted(set(tile_ids)))
        if self.folder is None:
            self._now(without_tiles(self.segments, ids))
            return
        with edit_lock(self.folder):
            entry = self._refreshed()
            segments, number = without_tiles(self.segments, ids), entry.generation + 1
            stored = [
                old
                if len(segment.removed) == old.removed_tiles
                else write_removed(self.folder, old, segment.removed, number)
                for old, segment in zip(entry.segments, segments, strict=True)
            ]
            self._commit(replace(entry, segments=tuple(stored)))

    def _now(self, segments: list[Segment]) -> None:
        self.segments = segments
        self.__dict__.pop("tile_ids", None)
        self.entry = replace(self.entry, tiles=len(self))

    def _refreshed(self) -> IndexEntry:
        """The folder as another process may have left it since we loaded it."""
        assert self.folder is not None
        entry = read_entry(self.folder)
        if entry.generation != self.entry.generation:
            self._open(entry)
        remove_leftovers(self.folder, entry.segments)
        return entry

    def _commit(self, entry: IndexEntry) -> None:
        assert self.folder is not None
        write_entry(self.folder, replace(entry, generation=entry.generation + 1))
        self._open(read_entry(self.folder))

    def _open(self, entry: IndexEntry) -> None:
        assert self.folder is not None
        self.entry = entry
        self._now(open_segments(self.folder, entry, self.quantiser))

    def save(self, folder: Path) -> None:
        """Write the index to a new ``folder``, ``index.json`` last. Raises InputError if it holds an index."""
        make_new(folder)
        for number, segment in enumerate(self.segments, 1):
            copy_segment(InFolder(folder / segment_name(number)), segment)
        publish(folder, self.entry, self.segments, self.quantiser)

    @classmethod
    def load(cls, folder: Path, *, backend: Backend = "auto", device: str = "cpu") -> "TileIndex":
        """Map an index that was saved or built in ``folder``. Raises InputError if it isn't one or is damaged."""
        entry = read_entry(folder)
        top_k = choose_top_k(backend, device, exact=entry.kind == "flat")
        quantiser = open_quantiser(folder, entry)
        return cls(entry, open_segments(folder, entry, quantiser), quantiser, top_k, folder)

    def info(self) -> dict[str, Any]:
        """Kind, sizes, parameters, recall, as plain values."""
        removed = sum(len(segment.removed) for segment in self.segments)
        entry = plain(replace(self.entry, segments=()))
        counts = {
            "tiles": len(self),
            "segments": len(self.segments),
            "removed_tiles": removed,
            "backend": self.backend,
        }
        if self.folder is not None:
            counts["bytes"] = sum(path.stat().st_size for path in self.folder.rglob("*") if path.is_file())
        return {key: value for key, value in entry.items() if key != "format"} | counts


def _as_array(vectors: Tensor | Array) -> Array:
    return vectors.numpy(force=True) if isinstance(vectors, Tensor) else np.asarray(vectors)
