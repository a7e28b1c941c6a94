"""Tile store: random reads against the same PNG files, opening 100,000 tiles, look-up by id. Prints one JSON line.

    python benchmarks/tile_store.py            (about 2 minutes and 2.5 GB of disk in a temporary folder)

- ``random_read_ratio``: speed of ``TileStore.image`` over ``Image.open(file)`` of the same encoded bytes, read
  in one random order, by turns; wanted >= 0.9.
- ``open_s``, ``open_rss_mb``: what ``TileStore.open`` of a synthetic store takes in a fresh process, its imports apart
  (``import_s``, ``import_rss_mb``); wanted < 1 s and < 100 MB. ``load_from_disk_s``, ``_rss_mb``: `datasets`' own.
- ``lookup_us``: finding the row of an id, and reading a tile's size.
"""

import argparse
import io
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from PIL import Image, ImageDraw, ImageFont

from tilewright.data_gen.images import encode_png, image_sha256
from tilewright.data_gen.records import Tile, Word
from tilewright.data_gen.store.exchange import size_px
from tilewright.data_gen.tile_store import TileStore, write_store

EVIDENCE = {"infobox": 0, "table": 0, "list": 0, "paragraph": 1000}
OPEN = """
import json, resource, sys, time
from pathlib import Path

def rss_mb():
    lines = Path("/proc/self/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) / 1024

start, before = time.perf_counter(), rss_mb()
if sys.argv[1] == "store":
    from tilewright.data_gen.tile_store import TileStore
    open_store = lambda: TileStore.open(Path(sys.argv[2]))
else:
    import datasets, pyarrow.ipc
    open_store = lambda: datasets.load_from_disk(sys.argv[2])
imported, middle = time.perf_counter(), rss_mb()
store = open_store()
count = len(store)
opened, after = time.perf_counter(), rss_mb()
print(json.dumps([count, imported - start, middle - before, opened - imported, after - middle]))
"""


def picture(number: int, width_px: int, height_px: int) -> bytes:
    """PNG bytes of a page of text with a photo-like part: about as large as a real tile."""
    draw_from = random.Random(number)
    image = Image.new("RGB", (width_px, height_px), "white")
    draw, font = ImageDraw.Draw(image), ImageFont.load_default(size=16)
    for y_px in range(8, height_px - 20, 22):
        words = ["".join(draw_from.choices("etaoinshrdlu", k=draw_from.randint(2, 9))) for _ in range(14)]
        draw.text((10, y_px), " ".join(words), fill="black", font=font)
    noise = Image.effect_noise((64, 64), 90).resize((width_px // 3, height_px // 8)).convert("RGB")
    image.paste(noise, (width_px // 2, height_px // 2))
    return encode_png(image)


def tiles(count: int, images: list[bytes], words: int) -> Iterator[Tile]:
    """``count`` tiles, ten a page, that show ``images`` in turn."""
    sizes = [size_px(image, "") for image in images]
    hashes = [image_sha256(Image.open(io.BytesIO(image))) for image in images]
    shown = tuple(Word("word", 1.0, 2.0, 30.0, 12.0, 0) for _ in range(words))
    for number in range(count):
        page, row = f"{number // 10:016x}", number % 10
        width_px, height_px = sizes[number % len(images)]
        place = (row, 0, 0, row * height_px, width_px, height_px)
        content = (images[number % len(images)], hashes[number % len(images)], "text " * 60, EVIDENCE, shown)
        yield Tile(f"{page}-{row:04d}-00", page, "https://example.com/", "Title", *place, *content)


def random_reads(folder: Path, count: int, rounds: int) -> dict[str, float]:
    """Seconds a picture, from the store and from files, in turns; both decode to RGB."""
    images = [picture(number, 875, 1024) for number in range(count)]
    write_store(folder / "store", tiles(count, images, 200))
    store = TileStore.open(folder / "store")
    order = random.Random(0).sample(list(store.tile_ids), count)
    (folder / "files").mkdir()
    for tile_id, image in zip(store.tile_ids, images, strict=True):
        (folder / "files" / f"{tile_id}.png").write_bytes(image)

    def from_file(tile_id: str) -> Image.Image:
        with Image.open(folder / "files" / f"{tile_id}.png") as image:
            image.load()
            return image if image.mode == "RGB" else image.convert("RGB")

    reads = {"store": store.image, "files": from_file}
    times: dict[str, list[float]] = {"store": [], "files": []}
    for turn in range(rounds + 1):
        seconds = dict.fromkeys(reads, 0.0)
        for place, tile_id in enumerate(order):  # picture by picture: what else the machine does hits both
            for name in sorted(reads, reverse=place % 2 == 0):
                seconds[name] += timed(lambda name=name, tile_id=tile_id: reads[name](tile_id))  # type: ignore[misc]
        for name in reads if turn else ():  # the first turn warms the page cache
            times[name].append(seconds[name] / count)
    ratios = [file / own for own, file in zip(times["store"], times["files"], strict=True)]
    return {
        "random_read_ratio": statistics.median(ratios),
        "random_read_ratio_worst": min(ratios),
        "store_read_ms": 1e3 * statistics.median(times["store"]),
        "file_read_ms": 1e3 * statistics.median(times["files"]),
        "image_kb": sum(map(len, images)) / count / 1e3,
    }


def opening(folder: Path, count: int, image_bytes: int, processes: int) -> dict[str, float]:
    """Opening a store of ``count`` tiles in fresh processes, and looking ids up in it."""
    image = random.Random(0).randbytes(image_bytes)
    small = encode_png(Image.new("RGB", (8, 8)))
    started = time.perf_counter()
    write_store(folder / "large", tiles(count, [small + image], 20))  # bytes after a PNG's end are nobody's
    write_s = time.perf_counter() - started
    found: dict[str, float] = {"tiles": count, "write_s": write_s}
    for kind, names in (
        ("store", ("import_s", "import_rss_mb", "open_s", "open_rss_mb")),
        ("datasets", ("datasets_import_s", "datasets_import_rss_mb", "load_from_disk_s", "load_from_disk_rss_mb")),
    ):
        runs = [_open(kind, folder / "large") for _ in range(processes)]
        found |= {name: statistics.median(run[place + 1] for run in runs) for place, name in enumerate(names)}
    store = TileStore.open(folder / "large")
    order = random.Random(1).choices(list(store.tile_ids), k=20_000)
    found["lookup_us"] = 1e6 * timed(lambda: [store.tile_ids.position(tile_id) for tile_id in order]) / len(order)
    found["size_px_us"] = 1e6 * timed(lambda: [store.size_px(tile_id) for tile_id in order]) / len(order)
    return found


def _open(kind: str, folder: Path) -> list[float]:
    program = [sys.executable, "-c", OPEN, kind, str(folder)]
    figures: list[float] = json.loads(subprocess.run(program, capture_output=True, text=True, check=True).stdout)
    return figures


def timed(work: Callable[[], object]) -> float:
    """Seconds that ``work`` takes."""
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def main() -> None:
    """Run both parts in a temporary folder and print their figures."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pictures", type=int, default=300)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--tiles", type=int, default=100_000)
    parser.add_argument("--image-bytes", type=int, default=20_000, help="of the synthetic store")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="tile_store_") as name:
        figures = random_reads(Path(name), options.pictures, options.rounds)
        figures |= opening(Path(name), options.tiles, options.image_bytes, processes=3)
    print(json.dumps({"benchmark": "tile_store"} | {key: round(value, 4) for key, value in figures.items()}))


if __name__ == "__main__":
    main()
