"""Size and time of a tile's picture as PNG, lossless WebP and JPEG. Prints one JSON line.

    python benchmarks/encodings.py TILES          (the output folder of a render_tiles stage; about 2 minutes)

For each encoding: mean bytes, milliseconds to encode and to decode one tile (CPU time, one thread). ``chromium`` is the
PNG as Chromium hands it over, which costs nothing to keep; the others are made by Pillow. Times count within one run.
"""

import argparse
import io
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PIL import Image

from tilewright.data_gen.images import decode_image
from tilewright.data_gen.tile_store import TileStore

ENCODINGS: dict[str, dict[str, Any]] = {
    "png_1": {"format": "PNG", "compress_level": 1},
    "png_6": {"format": "PNG", "compress_level": 6},
    "webp_fastest": {"format": "WEBP", "lossless": True, "method": 0, "quality": 0},
    "webp_1": {"format": "WEBP", "lossless": True, "method": 1, "quality": 20},
    "webp_4": {"format": "WEBP", "lossless": True, "method": 4, "quality": 70},
    "jpeg_90": {"format": "JPEG", "quality": 90, "subsampling": 0},
}


def timed(action: Callable[[], Any]) -> tuple[Any, float]:
    """(result, CPU milliseconds)."""
    started = time.process_time()
    result = action()
    return result, 1000 * (time.process_time() - started)


def encode(image: Image.Image, options: dict[str, Any]) -> bytes:
    """Encoded bytes."""
    buffer = io.BytesIO()
    image.save(buffer, **options)
    return buffer.getvalue()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("tiles", type=Path)
    parser.add_argument("--count", type=int, default=60)
    options = parser.parse_args()
    store = TileStore.open(options.tiles)
    chosen = store.tile_ids[:: max(1, len(store) // options.count)][: options.count]
    totals = {name: [0.0, 0.0, 0.0] for name in ("chromium", *ENCODINGS)}
    for tile_id in chosen:
        kept = store.encoded_image(tile_id)
        image, decode_ms = timed(lambda data=kept: decode_image(data))  # type: ignore[misc]
        rows = {"chromium": (len(kept), 0.0, decode_ms)}
        for name, settings in ENCODINGS.items():
            data, encode_ms = timed(lambda settings=settings, image=image: encode(image, settings))  # type: ignore[misc]
            rows[name] = (len(data), encode_ms, timed(lambda data=data: decode_image(data))[1])  # type: ignore[misc]
        for name, values in rows.items():
            totals[name] = [total + value for total, value in zip(totals[name], values, strict=True)]
    means = {name: [round(value / len(chosen), 1) for value in values] for name, values in totals.items()}
    columns = ("bytes", "encode_ms", "decode_ms")
    result = {name: dict(zip(columns, values, strict=True)) for name, values in means.items()}
    print(json.dumps({"benchmark": "encodings", "tiles": len(chosen)} | result))


if __name__ == "__main__":
    main()
