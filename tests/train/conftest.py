"""A small tile store and the tiny reader made from it, for the reader's tests."""

import io
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch

from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import Tile
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.train.make_tiny_model import Config, Pixels, make_tiny_model
from tilewright.train.pixels import synthetic_image
from tilewright.train.reader import Reader, load_reader

torch.set_num_threads(1)


@dataclass(frozen=True)
class ReaderParts:
    """Folders of a store of eight small tiles and of a tiny reader; the tiles' ids in order."""

    tiles: Path
    model: Path
    tile_ids: tuple[str, ...]

    def load(self) -> Reader:
        return load_reader(self.model)

    def store(self) -> TileStore:
        return TileStore.open(self.tiles)


def _tile(number: int) -> Tile:
    page_id = f"{number:016x}"
    image = synthetic_image(150 + 10 * number, 140, number)
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    return Tile(
        tile_id=f"{page_id}-0000-00",
        page_id=page_id,
        url=f"http://localhost/{number}",
        title=f"Page {number}",
        row=0,
        column=0,
        x_px=0,
        y_px=0,
        width_px=image.width,
        height_px=image.height,
        image=encoded.getvalue(),
        image_sha256=image_sha256(image),
        text=f"Page {number} tells what the answer to a question is: Nairobi, Oslo, Quito, Lima, 1815, 42 km or Ada.",
        evidence_px={"infobox": 0, "table": 0, "list": 0, "paragraph": 10},
    )


@pytest.fixture(scope="session")
def reader_parts(tmp_path_factory: pytest.TempPathFactory) -> ReaderParts:
    root = tmp_path_factory.mktemp("reader_parts")
    tiles = [_tile(number) for number in range(8)]
    write_store(root / "tiles", tiles)
    config = Config(
        out=root / "tiny",
        embedder=Pixels(4096, 65536),
        reader=Pixels(4096, 65536),
        seed=3,
        tiles=root / "tiles",
        vocab_size=512,
        hidden=64,
        layers=2,
        vision_hidden=64,
        vision_layers=2,
        deepstack=(0,),
    )
    make_tiny_model(config, {"tiles": root / "tiles"}, root / "tiny")
    return ReaderParts(root / "tiles", root / "tiny" / "reader", tuple(tile.tile_id for tile in tiles))
