"""The index of tiles: exact inner product by FAISS, or by torch where FAISS is missing, with equal results.

Both only find candidates; scores are then computed once more, the same way for both, and ties go to the smaller
``tile_id``. So rankings depend neither on the backend nor on the order of the vectors.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, Protocol

import numpy as np
import torch
from torch import Tensor

from tilewright.configs.errors import InputError
from tilewright.configs.stage import write_atomically
from tilewright.mining.faiss_import import import_faiss
from tilewright.train.contract import check_same_space

INDEX_FAISS, INDEX_FLAT, TILE_IDS, INDEX_JSON = "index.faiss", "index.npy", "tile_ids.json", "index.json"
Backend = Literal["auto", "faiss", "torch"]
Hits = list[tuple[tuple[str, float], ...]]
Array = np.ndarray[Any, Any]
_QUERY_BLOCK = 256
_SCORES_BLOCK = 1 << 26  # scores held at once by the torch backend
_MARGIN = 16  # candidates fetched beyond k
_NOISE = 1e-5  # two float32 sums of the same 4096 products differ by less
_UNIT_TOLERANCE = 1e-2


class _Flat(Protocol):
    """Finds candidates; ``vectors`` gives rows back exactly."""

    def candidates(self, queries: Array, k: int) -> tuple[Array, Array]: ...  # scores [Q, k] descending, rows [Q, k]
    def vectors(self, rows: Array) -> Array: ...


class _TorchFlat:
    def __init__(self, vectors: Array) -> None:
        self._vectors = vectors
        self._tensor = torch.from_numpy(vectors)

    def candidates(self, queries: Array, k: int) -> tuple[Array, Array]:
        step = max(1, _SCORES_BLOCK // len(self._vectors))
        blocks = (torch.from_numpy(queries[start : start + step]) for start in range(0, len(queries), step))
        found = [torch.topk(block @ self._tensor.T, k, dim=1) for block in blocks]
        return (
            torch.cat([top.values for top in found]).numpy(),
            torch.cat([top.indices for top in found]).numpy(),
        )

    def vectors(self, rows: Array) -> Array:
        return self._vectors[rows]


class _FaissFlat:
    def __init__(self, index: Any) -> None:
        self.index = index

    def candidates(self, queries: Array, k: int) -> tuple[Array, Array]:
        scores, rows = self.index.search(np.ascontiguousarray(queries), k)
        return scores, rows

    def vectors(self, rows: Array) -> Array:
        return np.asarray(self.index.reconstruct_batch(rows))


class TileIndex:
    """Vectors of tiles by id. Made by ``build`` or ``load``; ``encoder_hash`` names the vectors' space."""

    def __init__(self, flat: _Flat, tile_ids: Sequence[str], dimension: int, encoder_hash: str) -> None:
        self._flat = flat
        self.tile_ids = tuple(tile_ids)
        self.dimension, self.encoder_hash = dimension, encoder_hash

    def __len__(self) -> int:
        return len(self.tile_ids)

    @property
    def backend(self) -> str:
        """What finds candidates: faiss or torch."""
        return "faiss" if isinstance(self._flat, _FaissFlat) else "torch"

    @classmethod
    def build(
        cls, vectors: Tensor | Array, tile_ids: Sequence[str], *, encoder_hash: str, backend: Backend = "auto"
    ) -> "TileIndex":
        """Index ``vectors`` [P, D] (unit length, float32 or float16) of ``tile_ids``.

        Raises InputError for no vectors, vectors that aren't finite and of unit length, ids that are too few, too many
        or given twice, or backend faiss without FAISS.
        """
        array = vectors.numpy(force=True) if isinstance(vectors, Tensor) else np.asarray(vectors)
        array = _checked(array, tile_ids)
        faiss = None if backend == "torch" else import_faiss()
        if faiss is None and backend == "faiss":
            raise InputError("backend faiss: FAISS can't be imported: install tilewright[cpu], or use backend torch")
        if faiss is None:
            return cls(_TorchFlat(array), tile_ids, array.shape[1], encoder_hash)
        index = faiss.IndexFlatIP(array.shape[1])
        index.add(array)
        return cls(_FaissFlat(index), tile_ids, array.shape[1], encoder_hash)

    def check_encoder(self, encoder_hash: str, where: str = "the index") -> None:
        """Raise InputError unless queries of the encoder ``encoder_hash`` may be searched here."""
        check_same_space(encoder_hash, self.encoder_hash, where)

    def search(self, queries: Tensor | Array, k: int) -> Hits:
        """For each of ``queries`` [Q, D] its min(k, P) best tiles, ((tile_id, score), ...), best first.

        Raises InputError for k below 1, another D, or queries that aren't finite.
        """
        array = queries.numpy(force=True) if isinstance(queries, Tensor) else np.asarray(queries)
        array = np.ascontiguousarray(array, dtype=np.float32)
        if k < 1:
            raise InputError(f"k: wanted at least 1, found {k}")
        if array.ndim != 2 or array.shape[1] != self.dimension:
            raise InputError(f"queries: wanted shape [Q, {self.dimension}], found {list(array.shape)}")
        if not np.isfinite(array).all():
            raise InputError("queries hold NaN or infinity: the query encoder is broken")
        k = min(k, len(self))
        hits: Hits = []
        for start in range(0, len(array), _QUERY_BLOCK):
            hits += self._search_block(array[start : start + _QUERY_BLOCK], k)
        return hits

    def _search_block(self, queries: Array, k: int) -> Hits:
        """Fetch more until no tile left out can tie with the k-th; then score, sort and cut."""
        wanted = min(k + _MARGIN, len(self))
        hits: list[tuple[tuple[str, float], ...] | None] = [None] * len(queries)
        todo = np.arange(len(queries))
        while len(todo):
            scores, rows = self._flat.candidates(queries[todo], wanted)
            whole = wanted == len(self)
            done = np.full(len(todo), whole) | (scores[:, -1] < scores[:, k - 1] - _NOISE)
            for i in np.flatnonzero(done):
                hits[todo[i]] = self._ranked(queries[todo[i]], rows[i], k)
            todo = todo[~done]
            wanted = min(2 * wanted, len(self))
        return [row for row in hits if row is not None]

    def _ranked(self, query: Array, rows: Array, k: int) -> tuple[tuple[str, float], ...]:
        products = self._flat.vectors(rows).astype(np.float64) * query.astype(np.float64)
        scores = products.sum(axis=1).astype(np.float32).tolist()  # a row's sum doesn't depend on its place
        found = sorted(
            zip((self.tile_ids[row] for row in rows), scores, strict=True), key=lambda hit: (-hit[1], hit[0])
        )
        return tuple(found[:k])

    def save(self, folder: Path) -> None:
        """Write ``index.faiss`` (``index.npy`` by the torch backend), ``tile_ids.json`` and, last, ``index.json``."""
        folder.mkdir(parents=True, exist_ok=True)
        if isinstance(self._flat, _FaissFlat):
            name = INDEX_FAISS
            import_faiss().write_index(self._flat.index, str(folder / name))  # type: ignore[union-attr]
        else:
            name = INDEX_FLAT
            np.save(folder / name, self._flat.vectors(np.arange(len(self))))
        write_atomically(folder / TILE_IDS, json.dumps(list(self.tile_ids), indent=0) + "\n")
        entry = {"kind": "flat", "metric": "inner product", "file": name, "tiles": len(self)}
        entry |= {"dimension": self.dimension, "encoder_hash": self.encoder_hash}
        write_atomically(folder / INDEX_JSON, json.dumps(entry, indent=1) + "\n")

    @classmethod
    def load(cls, folder: Path, *, backend: Backend = "auto") -> "TileIndex":
        """Read an index that ``save`` wrote, by either backend. Raises InputError if it isn't one or is damaged."""
        entry, tile_ids = _read_entry(folder)
        path = folder / entry["file"]
        shape = (entry["tiles"], entry["dimension"])
        faiss = None if backend == "torch" else import_faiss()
        try:
            if entry["file"] == INDEX_FAISS and faiss is not None:
                index = faiss.read_index(str(path))
                if (index.ntotal, index.d) != shape:
                    raise InputError(f"{path}: wanted {shape} vectors, found {(index.ntotal, index.d)}")
                return cls(_FaissFlat(index), tile_ids, shape[1], entry["encoder_hash"])
            vectors = _flat_file(path, shape)
        except (OSError, RuntimeError, ValueError) as error:
            raise InputError(f"{path}: not a readable index of shape {shape}: {error}") from error
        return cls.build(vectors, tile_ids, encoder_hash=entry["encoder_hash"], backend=backend)


def _flat_file(path: Path, shape: tuple[int, int]) -> Array:
    """The vectors of ``index.npy``, or of a flat ``index.faiss``, whose last P · D float32 they are."""
    if path.suffix == ".npy":
        array: Array = np.load(path, allow_pickle=False)
        if array.shape != shape:
            raise ValueError(f"it has shape {array.shape}")
        return array
    header = path.stat().st_size - 4 * shape[0] * shape[1]
    if not 0 < header < 256:
        raise ValueError(f"it has {path.stat().st_size} bytes")
    return np.fromfile(path, dtype=np.float32, offset=header).reshape(shape)


def _read_entry(folder: Path) -> tuple[dict[str, Any], list[str]]:
    try:
        entry = json.loads((folder / INDEX_JSON).read_text(encoding="utf-8"))
        tile_ids = json.loads((folder / TILE_IDS).read_text(encoding="utf-8"))
        known = entry["kind"] == "flat" and entry["file"] in (INDEX_FAISS, INDEX_FLAT)
        if not known or len(tile_ids) != entry["tiles"] or not isinstance(entry["encoder_hash"], str):
            raise ValueError(f"kind {entry['kind']!r}, {entry['tiles']} tiles, {len(tile_ids)} ids")
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: not an index that we can read: {error}; run build_index") from error
    return entry, tile_ids


def _checked(vectors: Array, tile_ids: Sequence[str]) -> Array:
    if vectors.ndim != 2 or not vectors.size:
        raise InputError(f"vectors: wanted shape [P, D] with at least one tile, found {list(vectors.shape)}")
    if len(tile_ids) != len(vectors):
        raise InputError(f"{len(tile_ids)} tile ids for {len(vectors)} vectors")
    if len(set(tile_ids)) != len(tile_ids):
        raise InputError("a tile id stands twice in the index")
    array = np.ascontiguousarray(vectors, dtype=np.float32)
    lengths = np.linalg.norm(array, axis=1)
    bad = np.flatnonzero(~(np.abs(lengths - 1) <= _UNIT_TOLERANCE))
    if len(bad):
        raise InputError(
            f"{len(bad)} vectors aren't of unit length (first: {tile_ids[bad[0]]}, length {lengths[bad[0]]})"
        )
    return array / lengths[:, None] if vectors.dtype != np.float32 else array
