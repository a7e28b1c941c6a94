"""A workshop over a folder of tiles, for tests of its parts alone."""

from pathlib import Path
from typing import Any

from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.cache import Cache
from tilewright.eval.questions import Pool
from tilewright.eval.workshop import OcrConfig, Workshop


def workshop_of(tiles: Path, out: Path, **changes: Any) -> Workshop:
    """Without documents, checkpoints and readers, but for ``changes``; all of the tiles are searched."""
    store = TileStore.open(tiles)
    values: dict[str, Any] = {
        "store": store,
        "rendered": store,
        "pool": Pool.of(store),
        "questions": (),
        "pages": None,
        "checkpoints": {},
        "readers": {},
        "ocr": OcrConfig(language="eng", scale=1.0, processes=1, timeout_s=30.0),
        "cache": Cache(out / "cache"),
        "out": out,
    }
    return Workshop(**(values | changes))
