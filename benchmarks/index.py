"""The index of tiles: build, size, recall and speed of every kind, against raw FAISS. Prints one JSON line.

    python benchmarks/index.py                            (1 M x 256-d; see RESULTS.md for the time; 4 GB of disk)
    python benchmarks/index.py --tiles 50000 --nlist 512  (about 2 minutes)

The vectors are clustered, not white noise: a random tree of three levels (64 topics, 32 themes in each, tiles around
them), each level's offset 0.6 times as long as the one above, offsets within a random 32-dimensional subspace of their
topic plus 5 % noise in all dimensions; unit length. Queries are further draws, nearer or farther (their last offset is
up to twice as long). They are written as an fp16 store, as embed_tiles does, and read from there.

- ``table``: per kind seconds of building, bytes on the disk, recall@10 against exact search (of stored vectors, as the
  index states it, and of the queries), queries/s (k 10) of ours and of raw FAISS: the same quantiser, nprobe, threads,
  filled by FAISS in memory, all queries in one call. ``search_ratio``: ours over raw, median over rounds by turns, our
  exact scores and tile ids included; wanted >= 0.95.
- ``memory``: peak of building in a process of its own (VmHWM at the end, less VmRSS before), over the bytes of the
  vectors in float32; wanted <= 1.3 for flat, <= 0.5 for ivf_pq. Mapped pages count, those of the input too.
"""

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import faiss
import numpy as np
import torch

from tilewright.mining.index import TileIndex
from tilewright.mining.index_settings import KINDS, RecallSettings
from tilewright.mining.index_source import StoreSource
from tilewright.mining.vector_store import VectorStore
from tilewright.mining.vector_writer import VectorWriter

Array = np.ndarray[Any, Any]
HASH = "e" * 64
ANY = RecallSettings(floor=0.0)
TOPICS, THEMES, SUBSPACE, SHORTER, NOISE = 64, 32, 32, 0.6, 0.05
BUILD = """
import json, sys, time
from pathlib import Path
import faiss, torch
from tilewright.mining.index import TileIndex
from tilewright.mining.index_settings import IndexSettings, RecallSettings
from tilewright.mining.index_source import StoreSource
from tilewright.mining.vector_store import VectorStore

def status_kb(name):
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(name + ":"))

vectors, out, settings, threads = Path(sys.argv[1]), Path(sys.argv[2]), json.loads(sys.argv[3]), int(sys.argv[4])
faiss.omp_set_num_threads(threads)
torch.set_num_threads(threads)
source = StoreSource([VectorStore.open(vectors)])
before, start = status_kb("VmRSS"), time.perf_counter()
TileIndex.build_from(source, encoder_hash=source.encoder_hash, settings=IndexSettings(**settings),
                     recall=RecallSettings(floor=0.0), folder=out)
seconds = time.perf_counter() - start
print(json.dumps([seconds, (status_kb("VmHWM") - before) * 1024]))
"""


class Clusters:
    """Draws vectors of one random tree."""

    def __init__(self, dimension: int) -> None:
        draw = np.random.default_rng(0)
        self._dimension = dimension
        self._bases = draw.normal(size=(TOPICS, SUBSPACE, dimension)).astype(np.float32) / np.sqrt(dimension)
        self._topics = draw.normal(size=(TOPICS, dimension)).astype(np.float32) / np.sqrt(dimension)
        self._themes = self._offsets(draw, np.repeat(np.arange(TOPICS), THEMES)) * np.float32(SHORTER)

    def _offsets(self, draw: np.random.Generator, topics: Array) -> Array:
        inside = draw.normal(size=(len(topics), SUBSPACE)).astype(np.float32) / np.float32(np.sqrt(SUBSPACE))
        offsets = np.empty((len(topics), self._dimension), np.float32)
        for topic in range(TOPICS):
            offsets[topics == topic] = inside[topics == topic] @ self._bases[topic]
        return offsets

    def draw(self, count: int, seed: int, spread: float = 1.0) -> Array:
        """[count, D], unit length."""
        draw = np.random.default_rng(seed)
        themes = (draw.beta(0.5, 1.5, count) * TOPICS * THEMES).astype(int)  # some themes are crowded
        topics = themes // THEMES
        scale = np.float32(SHORTER**2) * draw.uniform(0.5, spread, (count, 1)).astype(np.float32)
        vectors = self._topics[topics] + self._themes[themes] + scale * self._offsets(draw, topics)
        vectors += NOISE * draw.normal(size=vectors.shape).astype(np.float32) / np.sqrt(self._dimension)
        unit: Array = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
        return unit.astype(np.float32)


def write_store(folder: Path, clusters: Clusters, count: int, dimension: int) -> VectorStore:
    """An fp16 store of ``count`` tiles, ten a page."""
    folder.mkdir()
    writer = VectorWriter(folder, tiles=count, dimension=dimension, dtype="float16", encoder_hash=HASH)
    shards = []
    for number, rows in enumerate(writer.ranges()):
        ids = [f"{row // 10:016x}-{row % 10:04d}-00" for row in rows]
        step = 50_000
        parts = [clusters.draw(min(step, rows.stop - at), 1 + at) for at in range(rows.start, rows.stop, step)]
        shards.append(
            writer.write_shard(number, ids, ["0" * 64] * len(ids), [part.astype(np.float16) for part in parts])
        )
    return writer.finish(shards)


def built(store: Path, out: Path, settings: dict[str, Any], threads: int) -> tuple[float, float]:
    """Seconds and peak bytes of building in a process of its own."""
    command = [sys.executable, "-c", BUILD, str(store), str(out), json.dumps(settings), str(threads)]
    seconds, peak_bytes = json.loads(subprocess.run(command, check=True, capture_output=True, text=True).stdout)
    return seconds, peak_bytes


def raw_index(index: TileIndex, store: VectorStore) -> Any:
    """FAISS's own index of the same vectors, in memory."""
    if index.quantiser is None:
        raw = faiss.IndexFlatIP(index.dimension)
    else:
        raw = faiss.deserialize_index(np.frombuffer(index.quantiser.to_bytes(), np.uint8))
        raw.nprobe = index.entry.parameters.nprobe
    for _, part in store.shards():
        vectors = part.astype(np.float32)
        raw.add(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))
    return raw


def speeds(index: TileIndex, raw: Any, queries: Array, rounds: int) -> dict[str, float]:
    """Queries/s of both, by turns; the first turn warms up."""
    times: dict[str, list[float]] = {"ours": [], "raw": []}
    search = {"ours": lambda: index.search(queries, 10), "raw": lambda: raw.search(queries, 10)}
    for turn in range(rounds + 1):
        for name in ("ours", "raw") if turn % 2 else ("raw", "ours"):
            start = time.perf_counter()
            search[name]()
            if turn:
                times[name].append(time.perf_counter() - start)
    ratios = [raw_s / own_s for own_s, raw_s in zip(times["ours"], times["raw"], strict=True)]
    return {
        "queries_per_s": len(queries) / statistics.median(times["ours"]),
        "raw_queries_per_s": len(queries) / statistics.median(times["raw"]),
        "search_ratio": statistics.median(ratios),
        "search_ratio_worst": min(ratios),
    }


def recall(found: list[Any], exact: list[Any]) -> float:
    """Share of the exact ten that were found."""
    pairs = zip(found, exact, strict=True)
    return float(np.mean([len({a for a, _ in own} & {b for b, _ in best}) / len(best) for own, best in pairs]))


def main() -> None:
    """Measure, print."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("--tiles", type=int, default=1_000_000)
    parser.add_argument("--dimension", type=int, default=256)
    parser.add_argument("--queries", type=int, default=1000)
    parser.add_argument("--nlist", type=int)
    parser.add_argument("--nprobe", type=int)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    options = parser.parse_args()
    faiss.omp_set_num_threads(options.threads)
    torch.set_num_threads(options.threads)
    result: dict[str, Any] = {name: getattr(options, name) for name in ("tiles", "dimension", "queries", "threads")}
    with tempfile.TemporaryDirectory() as folder:
        root, clusters = Path(folder), Clusters(options.dimension)
        store = write_store(root / "vectors", clusters, options.tiles, options.dimension)
        queries = clusters.draw(options.queries, 0, spread=2.0)
        flat = TileIndex.build_from(StoreSource([store]), encoder_hash=HASH, folder=root / "exact")
        exact = flat.search(queries, 10)
        vectors_bytes = 4 * options.tiles * options.dimension
        result["table"], result["memory"] = {}, {}
        for kind in options.kinds:
            lists = {name: getattr(options, name) for name in ("nlist", "nprobe") if kind != "flat"}
            seconds, peak_bytes = built(store.folder, root / kind, {"kind": kind} | lists, options.threads)
            index = TileIndex.load(root / kind)
            row = {"build_s": seconds, "bytes": index.info()["bytes"]}
            row |= {"recall_at_10_vs_exact": index.entry.recall_at_10_vs_exact or 0.0}
            row |= {"recall_at_10_of_queries": recall(index.search(queries, 10), exact)}
            row |= speeds(index, raw_index(index, store), queries, options.rounds)
            result["table"][kind] = row | {
                name: vars(index.entry.parameters)[name] for name in ("nlist", "nprobe", "m")
            }
            result["memory"][kind] = peak_bytes / vectors_bytes
    print(json.dumps(result))


if __name__ == "__main__":
    main()
