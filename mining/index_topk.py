"""The k largest inner products of queries with a matrix: by FAISS or by torch, on the CPU or on a GPU."""

import warnings
from collections.abc import Callable
from typing import Any, Literal, Protocol

import numpy as np
import torch

from tilewright.configs.errors import InputError
from tilewright.mining.faiss_import import import_faiss, import_faiss_gpu
from tilewright.mining.index_arrays import BLOCK_BYTES, Array

Backend = Literal["auto", "faiss", "torch"]
Found = tuple[Array, Array]  # scores [Q, k] descending, rows [Q, k]; rows are -1 where there are no more
GPU_TOP_K = 2048  # FAISS on a GPU gives no more at once
_SCORES_BLOCK = 1 << 26  # scores held at once by torch


class TopK(Protocol):
    """``held`` is what ``hold`` made of a matrix [P, D] (on a GPU: a copy there)."""

    name: str

    def hold(self, matrix: Array) -> Any: ...
    def __call__(self, queries: Array, held: Any, k: int) -> Found: ...


class FaissTopK:
    """FAISS on the CPU; a mapped matrix is read where it lies."""

    name = "faiss"

    def __init__(self, faiss: Any) -> None:
        self._faiss = faiss

    def hold(self, matrix: Array) -> Array:
        """The matrix itself."""
        return matrix

    def __call__(self, queries: Array, held: Array, k: int) -> Found:
        scores, rows = self._faiss.knn(queries, held, k, metric=self._faiss.METRIC_INNER_PRODUCT)
        return scores, rows


class TorchTopK:
    """Exact search by torch on any device."""

    name = "torch"

    def __init__(self, device: str) -> None:
        self._device = torch.device(device)

    def hold(self, matrix: Array) -> torch.Tensor:
        """The matrix on the device; on the CPU the same memory."""
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*not writable")  # a mapped index is only read
            return torch.from_numpy(matrix).to(self._device)

    def __call__(self, queries: Array, held: torch.Tensor, k: int) -> Found:
        step = max(1, _SCORES_BLOCK // len(held))
        found = []
        for start in range(0, len(queries), step):
            block = torch.from_numpy(queries[start : start + step]).to(self._device)
            found.append(torch.topk(block @ held.T, k, dim=1))
        return (
            torch.cat([top.values for top in found]).cpu().numpy(),
            torch.cat([top.indices for top in found]).cpu().numpy(),
        )


class FaissGpuTopK:
    """FAISS on a GPU, torch there for more than it can give."""

    name = "faiss"

    def __init__(self, faiss: Any, device: str) -> None:
        self._faiss, self._device = faiss, torch.device(device)
        self._resources = faiss.StandardGpuResources()
        self._torch = TorchTopK(device)

    def hold(self, matrix: Array) -> torch.Tensor:
        """A copy on the GPU."""
        return self._torch.hold(matrix)

    def __call__(self, queries: Array, held: torch.Tensor, k: int) -> Found:
        if k > GPU_TOP_K:
            return self._torch(queries, held, k)
        block = torch.from_numpy(queries).to(self._device)
        metric = self._faiss.METRIC_INNER_PRODUCT
        scores, rows = self._faiss.knn_gpu(self._resources, block, held, k, metric=metric)
        return scores.cpu().numpy(), rows.cpu().numpy()


def choose_top_k(backend: Backend, device: str = "cpu", *, exact: bool = True) -> TopK:
    """What searches exactly: on a GPU FAISS if it was built for one, else torch; on the CPU FAISS if it is there.

    Raises InputError for backend faiss without FAISS, or for a GPU without a build for it, and for a missing device,
    and for torch where not ``exact`` search is wanted, but inverted lists.
    """
    if backend == "torch" and not exact:
        raise InputError("backend torch: searches kind flat only: use backend auto or faiss")
    if torch.device(device).type != "cpu":
        if not torch.cuda.is_available():
            raise InputError(f"device: wanted one that is here, found {device}: torch sees no GPU")
        gpu = None if backend == "torch" else import_faiss_gpu()
        if gpu is None and backend == "faiss":
            raise InputError(
                f"backend faiss on {device}: no FAISS built for GPUs: install tilewright[gpu], or use torch"
            )
        return TorchTopK(device) if gpu is None else FaissGpuTopK(gpu, device)
    faiss = None if backend == "torch" else import_faiss()
    if faiss is None and backend == "faiss":
        raise InputError("backend faiss: FAISS can't be imported: install tilewright[cpu], or use backend torch")
    return TorchTopK("cpu") if faiss is None else FaissTopK(faiss)


def merge_found(parts: list[Found], k: int) -> Found:
    """The k best of several results for the same queries, padded with rows of -1."""
    scores = np.concatenate([part[0] for part in parts], axis=1)
    rows = np.concatenate([part[1] for part in parts], axis=1)
    best = np.argsort(-scores, axis=1, kind="stable")[:, :k]
    return np.take_along_axis(scores, best, 1), np.take_along_axis(rows, best, 1)


def padded(scores: Array, rows: Array, k: int) -> Found:
    """``scores`` and ``rows`` [Q, fewer than k] filled up with -inf and -1."""
    missing = ((0, 0), (0, k - scores.shape[1]))
    return np.pad(scores, missing, constant_values=-np.inf), np.pad(rows, missing, constant_values=-1)


def top_k_of_rows(
    top_k: TopK, vectors: Callable[[Array], Array], dimension: int, rows: Array, queries: Array, k: int
) -> Found:
    """The k best of ``rows`` [n], whose vectors are fetched in blocks of a bounded size."""
    step = max(1, BLOCK_BYTES // (4 * dimension))
    best: Found = (np.empty((len(queries), 0), np.float32), np.empty((len(queries), 0), np.int64))
    for start in range(0, len(rows), step):
        block = rows[start : start + step]
        scores, places = top_k(queries, top_k.hold(vectors(block)), min(k, len(block)))
        best = merge_found([best, (scores, block[places])], k)
    return padded(*best, k)
