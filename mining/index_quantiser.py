"""The trained part of an IVF index: which list a vector belongs to, and how its code is made and read.

One is shared by all segments and shards of an index. FAISS does the training, the codes and the scanning; which lists a
vector goes to, and which a query searches, depends on nothing but the vector: near ties of centroids, which float32
would decide by the size of the block and the number of threads, are scored once more in float64.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cached_property
from typing import Any

import numpy as np

from tilewright.configs.errors import InputError
from tilewright.mining.faiss_import import import_faiss
from tilewright.mining.index_arrays import Array
from tilewright.mining.index_settings import Plan

_NOISE = 1e-5  # two float32 sums of the same 4096 products of unit vectors differ by less
_NEIGHBOURS = 16  # centroids looked at beyond nprobe
_BLAS_FROM_DSUB = 16  # from this length of a PQ's part FAISS encodes by BLAS, where a block's size changes the last bit


def noise_of(queries: Array) -> Array:
    """By how much two float32 scores of the same pair can differ, for each of ``queries`` [Q, D]."""
    lengths: Array = np.linalg.norm(queries, axis=1)
    return _NOISE * np.maximum(lengths, 1)


def required_faiss(what: str) -> Any:
    """The module faiss. Raises InputError if it can't be imported."""
    faiss = import_faiss()
    if faiss is None:
        raise InputError(f"{what}: FAISS can't be imported: install tilewright[cpu], or use kind flat")
    return faiss


class Quantiser:
    """A trained, empty FAISS IVF index. ``dimension``, ``nlist``, ``code_size`` (bytes)."""

    def __init__(self, index: Any) -> None:
        self._index = index
        self.dimension, self.nlist, self.code_size = int(index.d), int(index.nlist), int(index.code_size)

    @classmethod
    def train(cls, plan: Plan, sample: Array) -> "Quantiser":
        """Train by ``sample`` [n, D] float32. Raises InputError without FAISS."""
        faiss = required_faiss(f"kind {plan.kind}")
        dimension, metric = sample.shape[1], faiss.METRIC_INNER_PRODUCT
        coarse = faiss.IndexFlatIP(dimension)
        if plan.kind == "ivf":
            index = faiss.IndexIVFFlat(coarse, dimension, plan.nlist, metric)
        elif plan.kind == "ivf_sq8":
            scalar = faiss.ScalarQuantizer.QT_8bit
            index = faiss.IndexIVFScalarQuantizer(coarse, dimension, plan.nlist, scalar, metric)
        else:
            index = faiss.IndexIVFPQ(coarse, dimension, plan.nlist, plan.m, plan.nbits, metric)
            index.pq.cp.seed = plan.seed
        index.cp.seed = plan.seed
        index.train(sample)
        return cls(index)

    @classmethod
    def from_bytes(cls, data: bytes, plan: Plan, dimension: int, where: str) -> "Quantiser":
        """What ``to_bytes`` gave. Raises InputError if it isn't one of ``plan`` and ``dimension``, or without FAISS."""
        faiss = required_faiss(where)
        try:
            index = faiss.deserialize_index(np.frombuffer(data, np.uint8))
        except RuntimeError as error:
            raise InputError(f"{where}: not a readable FAISS index: {error}") from error
        kind = {"ivf": "IndexIVFFlat", "ivf_sq8": "IndexIVFScalarQuantizer", "ivf_pq": "IndexIVFPQ"}[plan.kind]
        found = (type(index).__name__, index.d, getattr(index, "nlist", 0), index.is_trained, index.ntotal)
        if found != (kind, dimension, plan.nlist, True, 0) or index.metric_type != faiss.METRIC_INNER_PRODUCT:
            raise InputError(
                f"{where}: wanted a trained {kind} of {plan.nlist} lists, dimension {dimension}; found {found}"
            )
        return cls(index)

    def to_bytes(self) -> bytes:
        """It as a FAISS file."""
        data: Array = required_faiss("save").serialize_index(self._index)
        return data.tobytes()

    @cached_property
    def digest(self) -> str:
        """SHA-256 of ``to_bytes``: equal quantisers make mergeable shards."""
        return hashlib.sha256(self.to_bytes()).hexdigest()

    @cached_property
    def centroids(self) -> Array:
        """[nlist, D]."""
        centroids: Array = self._index.quantizer.reconstruct_n(0, self.nlist)
        return centroids

    def nearest_lists(self, vectors: Array, nprobe: int) -> tuple[Array, Array]:
        """The ``nprobe`` lists [Q, nprobe] nearest to ``vectors`` [Q, D], and the centroids' scores."""
        faiss = required_faiss("search")
        wanted = min(nprobe + _NEIGHBOURS, self.nlist)
        scores, lists = faiss.knn(vectors, self.centroids, wanted, metric=faiss.METRIC_INNER_PRODUCT)
        if wanted > nprobe:
            noise = 2 * noise_of(vectors)
            for query in np.flatnonzero(scores[:, nprobe - 1] - scores[:, nprobe] <= noise):
                self._decide(vectors[query], scores[query], lists[query], nprobe, noise[query])
        return np.ascontiguousarray(lists[:, :nprobe]), np.ascontiguousarray(scores[:, :nprobe])

    def _decide(self, vector: Array, scores: Array, lists: Array, nprobe: int, noise: float) -> None:
        """Put into the first ``nprobe`` places those that float64 says; ties go to the smaller list."""
        limit = scores[nprobe - 1]
        if scores[-1] >= limit - noise and len(lists) < self.nlist:  # ties go on beyond what was fetched
            rivals, first = np.arange(self.nlist), 0
        else:
            first = int(np.argmax(scores <= limit + noise))
            rivals = lists[first : int(np.sum(scores >= limit - noise))]
        exact = (self.centroids[rivals].astype(np.float64) * vector.astype(np.float64)).sum(axis=1)
        best = np.lexsort((rivals, -exact))[: nprobe - first]
        lists[first:nprobe], scores[first:nprobe] = rivals[best], exact[best]

    def encode(self, vectors: Array, lists: Array) -> Array:
        """Codes [n, code_size] uint8 of ``vectors`` [n, D] in ``lists`` [n]."""
        faiss = required_faiss("encode")
        vectors, lists = np.ascontiguousarray(vectors), np.ascontiguousarray(lists, np.int64)
        codes = np.empty((len(vectors), self.code_size), np.uint8)
        pointers = [faiss.swig_ptr(array) for array in (vectors, lists, codes)]
        with self._one_by_one(faiss):
            self._index.encode_vectors(len(vectors), *pointers, False)
        return codes

    @contextmanager
    def _one_by_one(self, faiss: Any) -> Iterator[None]:
        """A vector's code must not depend on its neighbours in a block: shards that are merged equal one index."""
        pq = getattr(self._index, "pq", None)
        if pq is None or pq.dsub < _BLAS_FROM_DSUB:
            yield
            return
        before = faiss.cvar.product_quantizer_compute_codes_bs
        faiss.cvar.product_quantizer_compute_codes_bs = 1
        try:
            yield
        finally:
            faiss.cvar.product_quantizer_compute_codes_bs = before

    def decode(self, codes: Array, lists: Array) -> Array:
        """The vectors [n, D] that ``codes`` stand for."""
        if self.code_size == 4 * self.dimension:  # of kind ivf codes are the vectors
            return codes.view(np.float32)
        number_bytes = int(self._index.sa_code_size()) - self.code_size
        numbers = lists.astype("<i8")[:, None].view(np.uint8)[:, :number_bytes]
        vectors: Array = self._index.sa_decode(np.ascontiguousarray(np.concatenate([numbers, codes], axis=1)))
        return vectors

    def over(self, inverted_lists: Any, count: int) -> Any:
        """A FAISS index that scans ``inverted_lists`` with ``count`` entries."""
        index = required_faiss("search").clone_index(self._index)
        index.replace_invlists(inverted_lists, False)
        index.ntotal = count
        return index
