"""Lanczos compression of encoded tiles by threads against one thread. Prints one JSON line; wanted: each ratio >= 0.9.

    python benchmarks/compress.py                   (about a minute, on an idle machine)
    python benchmarks/compress.py --tiles 8 --rounds 1 --threads 2      (seconds; says nothing)

The same pages of text (875 x 1024 px) are compressed by one thread and by all cores, by turns, in ``rounds`` rounds.
``scaling_*`` is speed with ``threads`` over (``threads`` x the speed of one), the median of the rounds: to bytes
(decode, Lanczos, encode as PNG) and to arrays (decode, Lanczos).
"""

import argparse
import json
import os
import random
import statistics
import time
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from PIL import Image, ImageDraw, ImageFont

from tilewright.data_gen.images import encode_png
from tilewright.train.compress import compress_array, compress_bytes, in_threads

WIDTH_PX, HEIGHT_PX = 875, 1024


def page(number: int) -> bytes:
    """PNG bytes of a page of text with a picture in it."""
    draw_from = random.Random(number)
    image = Image.new("RGB", (WIDTH_PX, HEIGHT_PX), "white")
    pen, font = ImageDraw.Draw(image), ImageFont.load_default(size=16)
    for y_px in range(8, HEIGHT_PX - 20, 22):
        words = ["".join(draw_from.choices("etaoinshrdlu", k=draw_from.randint(2, 9))) for _ in range(14)]
        pen.text((10, y_px), " ".join(words), fill="black", font=font)
    image.paste(Image.effect_noise((WIDTH_PX // 3, HEIGHT_PX // 8), 90).convert("RGB"), (WIDTH_PX // 2, HEIGHT_PX // 2))
    return encode_png(image)


def images_per_s(work: Callable[[bytes], Any], images: Sequence[bytes], threads: int) -> float:
    """Speed of ``work`` on all ``images``."""
    started = time.perf_counter()
    for _ in in_threads(work, images, threads):
        pass
    return len(images) / (time.perf_counter() - started)


def scaling(work: Callable[[bytes], Any], images: Sequence[bytes], threads: int, rounds: int) -> dict[str, float]:
    """Medians over rounds of (one thread, all threads): the speed of one, and how near to ``threads`` times it."""
    images_per_s(work, images[:2], threads)  # warm
    pairs = [(images_per_s(work, images, 1), images_per_s(work, images, threads)) for _ in range(rounds)]
    return {
        "one_thread_images_per_s": round(statistics.median(one for one, _ in pairs), 1),
        "scaling": round(statistics.median(many / (threads * one) for one, many in pairs), 3),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--tiles", type=int, default=120)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--compression", type=float, default=2.0)
    options = parser.parse_args()
    images = [page(number) for number in range(options.tiles)]
    found: dict[str, Any] = {"benchmark": "compress", "threads": options.threads, "compression": options.compression}
    for name, function in (("bytes", compress_bytes), ("arrays", compress_array)):
        work = partial(function, compression=options.compression)
        measured = scaling(work, images, options.threads, options.rounds)
        found |= {f"{key}_{name}": value for key, value in measured.items()}
    print(json.dumps(found | {"wanted_scaling": 0.9}))


if __name__ == "__main__":
    main()
