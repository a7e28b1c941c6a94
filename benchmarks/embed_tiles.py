"""embed_tiles against the bare forward on prepared tensors, its memory, and reuse; nano as model. Prints one JSON line.

    python benchmarks/embed_tiles.py                (1,000 tiles: about 30 minutes on 2 idle cores)
    python benchmarks/embed_tiles.py --tiles 60     (a look: about 3 minutes)
    python benchmarks/embed_tiles.py --only memory

Tiles are 875 x 1024 px PNGs of drawn text, each with pixels of its own. In every round, by turns on the same tiles: the
forward of prepared batches (F), decoding, resizing and cutting into patches by the stage's threads without a model (D),
and the stage. Torch and the stage's threads both use all cores.

- ``ratio``: F over the time of the stage (plan, embedding, writing; loading the model apart); ``ratio_with_loading``.
  On a GPU wanted >= 0.95, on two cores >= 0.95 x ``bound``, with ``bound`` = F / (F + D): all cores busy all the time.
- ``decode_speedup``: of ``workers`` threads over one.
- ``memory``: of a process of its own that embeds all tiles, at a third of their sides in batches of 512 visual tokens:
  its anonymous memory (no file that is mapped) beyond that before the stage, sampled 20 times a second, median and
  peak of every quarter of the time; ``kb_a_tile``: from the second quarter's median to the last one's, by the tiles
  between them (a tile's vector takes 8 kB on disk).
- ``reuse``: counts and share of the time of all tiles where 1 % of them are new.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from functools import cache
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image
from tile_store import EVIDENCE, picture

from tilewright.configs.stage import run_stage
from tilewright.data_gen.images import decode_image, encode_png, image_sha256
from tilewright.data_gen.records import Tile
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.mining.embed_blocks import prefetch
from tilewright.mining.embed_tiles import STAGE, Config
from tilewright.train import make_nano
from tilewright.train.distributed import choose_device
from tilewright.train.encoder import Batch, Encoder, evaluating, load_encoder, token_batches

TILE_PX, SMALL_PX = (875, 1024), (291, 341)
SMALL_TOKENS = 512


@cache
def drawn() -> list[np.ndarray[Any, Any]]:
    """Pictures of text (with noise: others in every process)."""
    return [np.asarray(decode_image(picture(number, *TILE_PX))) for number in range(8)]


def tiles(first: int, count: int, size_px: tuple[int, int]) -> Iterator[Tile]:
    """``count`` tiles of drawn text, ten a page, no two with the same pixels."""
    for number in range(first, first + count):
        image = Image.fromarray(np.roll(drawn()[number % 8], 1 + number // 8, axis=0)).resize(size_px)
        page, row = f"{number // 10:016x}", number % 10
        place = (row, 0, 0, row * size_px[1], *size_px)
        content = (encode_png(image), image_sha256(image), "text", EVIDENCE)
        yield Tile(f"{page}-{row:04d}-00", page, "https://example.com/", "Title", *place, *content)


def timed(work: Any) -> float:
    """Seconds of a call, the device's work in it."""
    start = time.perf_counter()
    work()
    if torch.cuda.is_available():
        torch.cuda.synchronize()
    return time.perf_counter() - start


def batches(encoder: Encoder, store: TileStore, config: Config, workers: int) -> Iterator[Batch]:
    """The stage's batches, made by its threads."""
    ids = list(store.tile_ids)
    groups = token_batches([encoder.tokens(*store.size_px(tile_id)) for tile_id in ids], config.batch_tokens)
    made = prefetch(groups, lambda rows: encoder.tile_batch([store.image(ids[row]) for row in rows]), workers)
    return (batch for _, batch in made)


def forward(encoder: Encoder, prepared: list[Batch]) -> None:
    """The model alone."""
    with evaluating(encoder.model):
        for batch in prepared:
            encoder.forward(batch)


def one_round(encoder: Encoder, config: Config) -> dict[str, float]:
    """Seconds of forward, decoding (also by one thread), loading and the stage, on the tiles of ``config``."""
    store = TileStore.open(config.tiles)
    prepared = list(batches(encoder, store, config, config.workers))
    seconds = {"forward": timed(lambda: forward(encoder, prepared))}
    prepared.clear()
    for name, workers in (("decode", config.workers), ("decode_one_thread", 1)):
        seconds[name] = timed(lambda workers=workers: [None for _ in batches(encoder, store, config, workers)])
    seconds["load"] = timed(lambda: load_encoder(config.checkpoint, device=encoder.device))
    seconds["stage"] = timed(lambda: run_stage(STAGE, config))
    return seconds


def speed(folder: Path, count: int, rounds: int, workers: int) -> dict[str, Any]:
    """The ratios, each the median of the rounds."""
    encoder = load_encoder(folder / "nano/embedder", device=choose_device())
    size = max(1, count // rounds)
    found = []
    for number in range(rounds):
        write_store(folder / f"tiles{number}", tiles(number * size, size, TILE_PX))
        config = Config(
            folder / f"vectors{number}", folder / "nano/embedder", folder / f"tiles{number}", workers=workers
        )
        found.append(one_round(encoder, config))
    ratios = {
        "ratio": [each["forward"] / (each["stage"] - each["load"]) for each in found],
        "ratio_with_loading": [each["forward"] / each["stage"] for each in found],
        "bound": [each["forward"] / (each["forward"] + each["decode"]) for each in found],
        "decode_speedup": [each["decode_one_thread"] / each["decode"] for each in found],
        "forward_tiles_s": [size / each["forward"] for each in found],
    }
    medians = {name: round(statistics.median(values), 3) for name, values in ratios.items()}
    return medians | {"ratio_over_bound": round(medians["ratio"] / medians["bound"], 3), "tiles": rounds * size}


def small(folder: Path, out: str, store: str, workers: int, reuse: tuple[Path, ...] = ()) -> Config:
    """The stage on small tiles."""
    return Config(
        folder / out, folder / "nano/embedder", folder / store, reuse, batch_tokens=SMALL_TOKENS, workers=workers
    )


def child(folder: Path, count: int, workers: int) -> None:
    """Embed ``count`` small tiles in this process; print the memory that it takes over time, in MB."""
    encoder = load_encoder(folder / "nano/embedder", device=choose_device())
    config = small(folder, "small_vectors", "small", workers)
    forward(encoder, list(islice(batches(encoder, TileStore.open(config.tiles), config, workers), 1)))
    before, samples, ended = anonymous_mb(), list[float](), threading.Event()

    def sample() -> None:
        while not ended.wait(0.05):
            samples.append(anonymous_mb() - before)

    watch = threading.Thread(target=sample)
    watch.start()
    run_stage(STAGE, config)
    ended.set()
    watch.join()
    quarters = np.array_split(np.array(samples), 4)
    medians = [float(np.median(quarter)) for quarter in quarters]
    found = {"tiles": count, "median_mb": medians, "peak_mb": [float(quarter.max()) for quarter in quarters]}
    a_tile = 1024 * (medians[3] - medians[1]) / (count / 2)
    rounded = {
        name: [round(one, 1) for one in value] if isinstance(value, list) else value for name, value in found.items()
    }
    print(json.dumps(rounded | {"kb_a_tile": round(a_tile, 2)}))


def anonymous_mb() -> float:
    """Memory of this process that no file backs, in MB, by the kernel."""
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("RssAnon")) / 1024


def memory(folder: Path, count: int, workers: int) -> dict[str, Any]:
    """Memory over time, of a process of its own."""
    write_store(folder / "small", tiles(0, count, SMALL_PX))
    command = [sys.executable, __file__, "--child", str(folder), "--tiles", str(count), "--workers", str(workers)]
    command += ["--threads", str(torch.get_num_threads())]
    said = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return {"memory": json.loads(said.split("\n")[-2])}


def reuse(folder: Path, count: int, workers: int) -> dict[str, Any]:
    """Rebuild after 1 % of the tiles joined; after ``memory``, whose vectors are taken over."""
    more = max(1, count // 100)
    write_store(folder / "grown", tiles(0, count + more, SMALL_PX))
    grown = small(folder, "again", "grown", workers, (folder / "small_vectors",))
    whole = small(folder, "whole", "grown", workers)
    seconds = [timed(lambda config=config: run_stage(STAGE, config)) for config in (grown, whole)]
    counts = json.loads((grown.out / "manifest.json").read_text(encoding="utf-8"))["counts"]
    kept = {name: counts[name] for name in ("tiles", "embedded", "reused")}
    return {"reuse": kept | {"time_over_all": round(seconds[0] / seconds[1], 3)}}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cores = len(os.sched_getaffinity(0))
    parser.add_argument("--tiles", type=int, default=1000)
    parser.add_argument("--rounds", type=int, default=4)
    parser.add_argument("--workers", type=int, default=cores)
    parser.add_argument("--threads", type=int, default=cores, help="torch's")
    parser.add_argument("--only", choices=("memory",))
    parser.add_argument("--child", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    if options.child is not None:
        child(options.child, options.tiles, options.workers)
        return
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        run_stage(make_nano.STAGE, make_nano.Config(folder / "nano", "nano"))
        result: dict[str, Any] = {"device": str(choose_device()), "cores": cores, "threads": options.threads}
        result |= {"workers": options.workers}
        if options.only is None:
            result |= speed(folder, options.tiles, options.rounds, options.workers)
        result |= memory(folder, options.tiles, options.workers)
        if options.only is None:
            result |= reuse(folder, options.tiles, options.workers)
    print(json.dumps(result))


if __name__ == "__main__":
    main()
