"""A corpus in which each fact stands on three pages, and an index that ranks its tiles as planted.

The vectors are made from those of the queries by a real, tiny encoder: the dual basis, so that a tile scores what it
was given with its own query and nothing with the others.
"""

import dataclasses
import io
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from PIL import Image

from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import QAPair, Tile, write_jsonl
from tilewright.data_gen.tile_store import write_store
from tilewright.mining.index import TileIndex
from tilewright.train.encoder import Encoder, load_encoder

LANDS = ("Aland", "Borduria", "Corvia", "Drumland", "Elbonia", "Freedonia")
CITIES = ("Abad", "Bergport", "Corton", "Dunwich", "Eastby", "Farholm")
KINDS = {  # (score with the query, page of the fact, row): text; the page of kind "gold" is the pair's
    "again": (0.95, 1, 0, "Since 1900 the capital of {land} has been {city}."),
    "near": (0.90, 0, 1, "{land} is a country. The capital of {land} is {city}."),  # a near-duplicate of gold
    "gold": (0.85, 0, 0, "{land} is a country. The capital of {land} is {city}."),
    "wrong": (0.80, 2, 0, "Until 1890 the capital of {land} was Oldtown."),
    "third": (0.75, 3, 0, "{city}, the capital of {land}, lies on a river."),
    "about": (0.70, 2, 1, "{land} exports tin and wool."),
    "far": (0.40, 1, 1, "The river of {land} is long."),
}
FALSE_NEGATIVES = ("again", "near", "third")  # they answer the query, whatever their page


@dataclass(frozen=True)
class Planted:
    """Folders of the corpus; tiles by fact and kind."""

    root: Path
    checkpoint: Path
    pairs: tuple[QAPair, ...]

    @property
    def inputs(self) -> dict[str, Any]:
        folders = {name: self.root / name for name in ("index", "tiles")}
        return {**folders, "checkpoint": self.checkpoint, "pairs": self.root / "pairs.jsonl", "pages": None}

    def encoder(self) -> Encoder:
        """The tiny embedder."""
        return load_encoder(self.checkpoint)

    @staticmethod
    def tile(fact: int, kind: str) -> str:
        _, page, row, _ = KINDS[kind]
        return f"{4 * fact + page + 1:016x}-{row:04d}-00"


def picture(number: int, *, touched: bool = False) -> Image.Image:
    """A picture for each ``number``; ``touched`` changes one pixel of it."""
    pixels = np.random.default_rng(number).integers(0, 256, (64, 64, 3), dtype=np.uint8)
    pixels[0, 0] ^= 1 if touched else 0
    return Image.fromarray(pixels)


def tile_of(tile_id: str, title: str, image: Image.Image, text: str) -> Tile:
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    page_id, row, _ = tile_id.split("-")
    return Tile(
        tile_id=tile_id,
        page_id=page_id,
        url=f"http://localhost/{page_id}",
        title=title,
        row=int(row),
        column=0,
        x_px=0,
        y_px=64 * int(row),
        width_px=64,
        height_px=64,
        image=encoded.getvalue(),
        image_sha256=image_sha256(image),
        text=text,
        evidence_px={"infobox": 0, "table": 0, "list": 0, "paragraph": 9},
    )


def pair_of(fact: int) -> QAPair:
    land, city, gold = LANDS[fact], CITIES[fact], Planted.tile(fact, "gold")
    query, span = f"What is the capital of {land}?", f"The capital of {land} is {city}."
    return QAPair(f"q-{land.lower()}", query, city, (), gold, gold[:16], span, "paragraph", land, "test/1")


def tiles_of(fact: int) -> dict[str, Tile]:
    return {
        kind: tile_of(
            Planted.tile(fact, kind),
            f"{kind} {LANDS[fact]}",
            picture(10 * fact if kind == "near" else 10 * fact + row + 2 * page, touched=kind == "near"),
            text.format(land=LANDS[fact], city=CITIES[fact]),
        )
        for kind, (_, page, row, text) in KINDS.items()
    }


def write_planted(root: Path, encoder: Encoder, checkpoint: Path, facts: int = len(LANDS)) -> Planted:
    """Tiles, pairs and index of the first ``facts`` facts."""
    pairs = tuple(pair_of(fact) for fact in range(facts))
    write_jsonl(root / "pairs.jsonl", pairs)
    tiles = {fact: tiles_of(fact) for fact in range(facts)}
    write_store(root / "tiles", sorted((t for some in tiles.values() for t in some.values()), key=lambda t: t.tile_id))
    queries = encoder.encode_queries([pair.query for pair in pairs]).double().numpy()  # [Q, D]
    dual = np.linalg.pinv(queries).T  # [Q, D]: its product with query g is 1 for g itself, else 0
    scale = 0.9 / np.linalg.norm(dual, axis=1).max()  # no vector of this part is longer than 1
    rest = np.linalg.svd(queries)[2][len(queries) :]  # a basis of what is orthogonal to all queries
    vectors, tile_ids = [], []
    for fact in range(facts):
        for place, (kind, (score, *_)) in enumerate(KINDS.items()):
            wanted = score * scale * dual[fact]
            vectors.append(wanted + np.sqrt(1 - wanted @ wanted) * rest[len(KINDS) * fact + place])
            tile_ids.append(tiles[fact][kind].tile_id)
    index = TileIndex.build(np.array(vectors, dtype=np.float32), tile_ids, encoder_hash=encoder.hash)
    index.save(root / "index")
    return Planted(root, checkpoint, pairs)


def with_pairs(planted: Planted, folder: Path, pairs: list[QAPair]) -> dict[str, Any]:
    """The inputs with other pairs, written to ``folder``."""
    write_jsonl(folder / "pairs.jsonl", pairs)
    return {**planted.inputs, "pairs": folder / "pairs.jsonl"}


def renamed(pair: QAPair, query_id: str) -> QAPair:
    return dataclasses.replace(pair, query_id=query_id)
