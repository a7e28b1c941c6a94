"""A corpus of fourteen two-tile pages with planted facts, and the index of a tiny embedder over it."""

import io
import json
from dataclasses import dataclass
from pathlib import Path

import pytest
import torch
from tests.mining.planted import Planted, write_planted

from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import QAPair, Tile, write_jsonl
from tilewright.data_gen.tile_store import write_store
from tilewright.mining.index import TileIndex
from tilewright.train.encoder import load_encoder
from tilewright.train.make_tiny_model import Config, Pixels, make_tiny_model
from tilewright.train.pixels import synthetic_image

torch.set_num_threads(1)

LANDS = (
    "Aland Borduria Corvia Drumland Elbonia Freedonia Grandia Hyrkania Illyria Jorvik Kalmar Latveria Moravia Nordia"
)
CITIES = "Abad Bergport Corton Dunwich Eastby Farholm Gradec Harwick Inverby Jarrow Kessel Lundby Mornay Nyborg"


@dataclass(frozen=True)
class Corpus:
    """Folders of tiles, embedder and index, and the split files; pages in order of their number."""

    root: Path
    page_ids: tuple[str, ...]

    @property
    def inputs(self) -> dict[str, Path]:
        return {name: self.root / name for name in ("index", "tiles")} | {"checkpoint": self.root / "tiny/embedder"}

    def tile(self, page: int, row: int) -> str:
        return f"{self.page_ids[page]}-{row:04d}-00"


def _texts(number: int, land: str, city: str) -> tuple[str, str]:
    """The fact on the first tile; on the second of even pages once more, of odd pages a city without the fact."""
    again = f"Since 1900 the capital of {land} has been {city}." if number % 2 == 0 else f"{city} lies on a river."
    return f"{land} is a country. The capital of {land} is {city}.", again


def _tile(page_id: str, row: int, number: int, land: str, text: str) -> Tile:
    image = synthetic_image(64 + number, 64, 2 * number + row)
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    return Tile(
        tile_id=f"{page_id}-{row:04d}-00",
        page_id=page_id,
        url=f"http://localhost/{land}",
        title=land,
        row=row,
        column=0,
        x_px=0,
        y_px=64 * row,
        width_px=image.width,
        height_px=image.height,
        image=encoded.getvalue(),
        image_sha256=image_sha256(image),
        text=text,
        evidence_px={"infobox": 0, "table": 0, "list": 0, "paragraph": 9},
    )


def _pair(page_id: str, land: str, city: str) -> QAPair:
    return QAPair(
        query_id=f"q-{land.lower()}",
        query=f"What is the capital of {land}?",
        answer=city,
        aliases=(),
        tile_id=f"{page_id}-0000-00",
        page_id=page_id,
        source_span=f"The capital of {land} is {city}.",
        source_type="paragraph",
        subject=land,
        annotator="test/1",
    )


@pytest.fixture(scope="session")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Corpus:
    root = tmp_path_factory.mktemp("corpus")
    page_ids, tiles, pairs = [], [], []
    for number, (land, city) in enumerate(zip(LANDS.split(), CITIES.split(), strict=True)):
        page_ids.append(f"{number + 1:016x}")
        texts = _texts(number, land, city)
        tiles += [_tile(page_ids[-1], row, number, land, text) for row, text in enumerate(texts)]
        pairs.append(_pair(page_ids[-1], land, city))
    write_store(root / "tiles", tiles)
    write_jsonl(root / "train.jsonl", pairs[:8])
    write_jsonl(root / "validation.jsonl", pairs[8:12])
    splits = {"train": page_ids[:8], "validation": page_ids[8:12], "test": page_ids[12:]}
    (root / "pages.json").write_text(json.dumps(splits))
    small = {"vocab_size": 512, "hidden": 64, "layers": 1, "vision_hidden": 64, "vision_layers": 1, "deepstack": (0,)}
    pixels = Pixels(4096, 16384)
    model = Config(root / "tiny", pixels, pixels, seed=1, tiles=root / "tiles", **small)  # type: ignore[arg-type]
    make_tiny_model(model, {"tiles": root / "tiles"}, root / "tiny")
    encoder = load_encoder(root / "tiny/embedder")
    vectors = encoder.encode_tiles([synthetic_image(64 + i // 2, 64, i) for i in range(len(tiles))])
    TileIndex.build(vectors, [tile.tile_id for tile in tiles], encoder_hash=encoder.hash).save(root / "index")
    return Corpus(root, tuple(page_ids))


@pytest.fixture(scope="session")
def planted(corpus: Corpus, tmp_path_factory: pytest.TempPathFactory) -> Planted:
    """Six facts, each on three pages and on a near-duplicate tile."""
    checkpoint = corpus.root / "tiny/embedder"
    return write_planted(tmp_path_factory.mktemp("planted"), load_encoder(checkpoint), checkpoint)
