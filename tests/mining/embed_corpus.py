"""A store of small tiles and a tiny embedder, for the tests of embed_tiles."""

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import Tile
from tilewright.data_gen.tile_store import write_store
from tilewright.mining.embed_tiles import Config
from tilewright.mining.vector_store import VectorStore
from tilewright.train.make_tiny_model import Config as TinyConfig
from tilewright.train.make_tiny_model import Pixels, make_tiny_model
from tilewright.train.pixels import synthetic_image

TILES = 26
SAME = {24: 3, 25: 22}  # tiles that show the picture of another
PICTURES = [SAME.get(number, number) for number in range(TILES)]


def tile(number: int, picture: int) -> Tile:
    """Tile ``number`` of the store, four to a page, that shows ``picture``."""
    image = synthetic_image(40 + 37 * (picture % 5), 48 + 29 * (picture % 7), picture)
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    page_id = f"{number // 4:016x}"
    return Tile(
        tile_id=f"{page_id}-{number % 4:04d}-00",
        page_id=page_id,
        url=f"http://localhost/{page_id}",
        title="A page",
        row=number % 4,
        column=0,
        x_px=0,
        y_px=0,
        width_px=image.width,
        height_px=image.height,
        image=encoded.getvalue(),
        image_sha256=image_sha256(image),
        text=f"Text number {number} for the tokenizer, with words like Oslo, Lima and Quito.",
        evidence_px={"infobox": 0, "table": 0, "list": 0, "paragraph": 1},
    )


def write_tiles(folder: Path, pictures: Sequence[int] = PICTURES, **options: Any) -> Path:
    """A store of tiles that show ``pictures``, in order."""
    write_store(folder, [tile(number, picture) for number, picture in enumerate(pictures)], **options)
    return folder


def write_tiny(folder: Path, tiles: Path, seed: int) -> Path:
    """The folder of an embedder with random weights."""
    pixels = Pixels(4096, 16384)
    size: dict[str, Any] = {"vocab_size": 400, "hidden": 64, "vision_hidden": 64, "vision_layers": 1, "layers": 1}
    config = TinyConfig(folder, pixels, pixels, seed=seed, tiles=tiles, deepstack=(0,), **size)
    make_tiny_model(config, {"tiles": tiles}, folder)
    return folder / "embedder"


def config(root: Path, out: Path, **changes: Any) -> Config:
    """Blocks of 4 tiles in windows of 3: 24 pictures make 2 windows; some batches hold several tiles."""
    options = {"block_tiles": 4, "window_blocks": 3, "batch_tokens": 24, "device": "cpu", "shard_bytes": 10 * 64 * 4}
    inputs = {"checkpoint": root / "tiny" / "embedder", "tiles": root / "tiles"}
    return Config(**{"out": out, **inputs, **options, **changes})


def array(folder: Path) -> np.ndarray[Any, Any]:
    """All vectors of a folder, [P, D] float32."""
    store = VectorStore.open(folder)
    return store.rows(np.arange(len(store)))
