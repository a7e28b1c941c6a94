"""Exact search of tiles on a GPU, by FAISS built for GPUs and by torch, against FAISS on the CPU. Prints one JSON line.

    python benchmarks/gpu_index.py [--tiles 1000000] [--dimension 2048]   (one GPU; 8 GB of its and of main memory)

Per backend that is here: whether its hits are those of the CPU, ids and scores, at k 10 and at k 3,000, which is more
than FAISS gives at once on a GPU (2,048); and queries/s at k 10, the median over rounds after a first one that copies
the vectors to the GPU.
"""

import argparse
import json
import statistics
import time
from typing import Any

import torch

from tilewright.mining.faiss_import import import_faiss, import_faiss_gpu
from tilewright.mining.index import TileIndex
from tilewright.mining.index_topk import Backend

HASH = "e" * 64


def unit(count: int, dimension: int, seed: int) -> Any:
    """Random vectors around 1,000 centres."""
    generator = torch.Generator().manual_seed(seed)
    centres = torch.randn(1000, dimension, generator=torch.Generator().manual_seed(0))
    chosen = torch.randint(1000, (count,), generator=generator)
    vectors = torch.nn.functional.normalize(
        centres[chosen] + 0.7 * torch.randn(count, dimension, generator=generator), dim=1
    )
    return vectors.numpy()


def queries_per_s(index: TileIndex, queries: Any, rounds: int) -> float:
    """At k 10; the first round warms up."""
    seconds = []
    for _ in range(rounds + 1):
        start = time.perf_counter()
        index.search(queries, 10)
        seconds.append(time.perf_counter() - start)
    return len(queries) / statistics.median(seconds[1:])


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tiles", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=2048)
    parser.add_argument("--queries", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    if not torch.cuda.is_available():
        raise SystemExit("no GPU: torch sees none")
    vectors = unit(options.tiles, options.dimension, 1)
    queries = unit(options.queries, options.dimension, 2)
    ids = [f"{row // 10:016x}-{row % 10:04d}-00" for row in range(options.tiles)]
    cpu = TileIndex.build(vectors, ids, encoder_hash=HASH)
    wanted = {k: cpu.search(queries[:50], k) for k in (10, 3000)}
    faiss = import_faiss()
    result: dict[str, Any] = {name: getattr(options, name) for name in ("tiles", "dimension", "queries")}
    result |= {"gpu": torch.cuda.get_device_name(), "faiss": faiss and faiss.__version__, "torch": torch.__version__}
    result["cpu"] = {"backend": cpu.backend, "queries_per_s": queries_per_s(cpu, queries[:200], 1)}
    backends: list[Backend] = ["torch", "faiss"] if import_faiss_gpu() is not None else ["torch"]
    for backend in backends:
        index = TileIndex.build(vectors, ids, encoder_hash=HASH, backend=backend, device="cuda")
        same = {f"same_as_cpu_at_{k}": index.search(queries[:50], k) == hits for k, hits in wanted.items()}
        result[f"gpu_{backend}"] = same | {"queries_per_s": queries_per_s(index, queries, options.rounds)}
    result["speed_up"] = (
        max(result[f"gpu_{name}"]["queries_per_s"] for name in backends) / result["cpu"]["queries_per_s"]
    )
    print(json.dumps(result))


if __name__ == "__main__":
    main()
