"""A small world for evaluation: six pages of two tiles, questions on four of them, tiny models, training curves."""

import dataclasses
import hashlib
import io
import json
import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from tilewright.configs.stage import run_stage
from tilewright.data_gen.records import QAPair, Tile, write_jsonl
from tilewright.data_gen.tile_store import image_sha256, write_store
from tilewright.data_gen.tiles import tile_id
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.evaluate import Config
from tilewright.eval.reader_grid import ReaderConfig
from tilewright.eval.rows import OcrConfig
from tilewright.train import make_tiny_model
from tilewright.train.encoder import load_encoder, save_encoder
from tilewright.train.reader import load_reader, save_reader

WIDTH, HEIGHT = 320, 256
PLACES = ("Warsaw", "Lisbon", "Nairobi", "Quito", "Hanoi", "Oslo")
HOSTILE = '<script>alert("x")</script> & <img src=x onerror=alert(1)>'


def page_id(number: int) -> str:
    return hashlib.sha256(f"page {number}".encode()).hexdigest()[:16]


def make_tile(number: int, row: int) -> Tile:
    """Page ``number`` names its place on both tiles; the second tile has a year of its own."""
    text = f"{PLACES[number]} river town" if row == 0 else f"{PLACES[number]} founded {1700 + number}"
    image = Image.new("RGB", (WIDTH, HEIGHT), "white")
    ImageDraw.Draw(image).text((12, 40), text, fill="black", font=ImageFont.load_default(size=22))
    encoded = io.BytesIO()
    image.save(encoded, "PNG")
    title = HOSTILE if number == 0 else f"About {PLACES[number]}"
    return Tile(
        tile_id=tile_id(page_id(number), row, 0),
        page_id=page_id(number),
        url=f"https://example.org/wiki/{PLACES[number]}",
        title=title,
        row=row,
        column=0,
        x_px=0,
        y_px=row * HEIGHT,
        width_px=WIDTH,
        height_px=HEIGHT,
        image=encoded.getvalue(),
        image_sha256=image_sha256(image),
        text=text,
        evidence_px={"infobox": 0, "table": 0, "list": 0, "paragraph": 100},
    )


def make_pair(number: int, kind: int) -> QAPair:
    query = f"When was {PLACES[number]} founded?" if kind else f"Which river town is {PLACES[number]}?"
    return QAPair(
        query_id=f"q{number}{kind}",
        query=query + (" " + HOSTILE if number == 0 else ""),
        answer=str(1700 + number) if kind else HOSTILE,
        aliases=("year " + str(1700 + number),) if kind else (),
        tile_id=tile_id(page_id(number), kind, 0),
        page_id=page_id(number),
        source_span="",
        source_type="sentence",
        subject=PLACES[number],
        annotator="grounded/1",
    )


@dataclasses.dataclass(frozen=True)
class World:
    """Folders of everything that an evaluation takes in, and the config fields that name them."""

    root: Path
    paths: dict[str, Any]

    def config(self, out: Path, **changes: Any) -> Config:
        settings: dict[str, Any] = {
            "rows": ("base", "trained", "bm25", "ocr"),
            "compare": (("trained", "base"),),
            "ks": (1, 3, 10),
            "depth": 12,
            "readers": ReaderConfig(("trained", "gold"), (1.0, 4.0), questions=4, tiles=1, max_new_tokens=4),
            "ocr": OcrConfig(language="eng", scale=1.0, processes=2, timeout_s=30.0),
            "missing_tool": "error",
            "max_error_share": 0.02,
            "resamples": 200,
            "confidence": 0.95,
            "shown_questions": 3,
            "shown_hits": 3,
            "threads": 1,
            "seed": 0,
        }
        return Config(out=out, **(settings | self.paths | changes))


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world")
    tiles = sorted((make_tile(number, row) for number in range(6) for row in range(2)), key=lambda tile: tile.tile_id)
    write_store(root / "tiles" / "store", tiles)
    (root / "splits").mkdir()
    write_jsonl(root / "splits" / "test.jsonl", [make_pair(number, kind) for number in range(4) for kind in range(2)])
    splits = {"train": [page_id(5)], "validation": [page_id(4)], "test": [page_id(number) for number in range(4)]}
    (root / "splits" / "pages.json").write_text(json.dumps(splits))
    pixels = make_tiny_model.Pixels(4096, 262144)
    sizes = {"vocab_size": 600, "hidden": 64, "layers": 1, "vision_hidden": 32, "vision_layers": 2}
    tiny = make_tiny_model.Config(root / "tiny", pixels, pixels, seed=1, tiles=root / "tiles", **sizes)
    run_stage(make_tiny_model.STAGE, tiny)
    encoder = load_encoder(root / "tiny" / "embedder")
    shift(encoder.model)
    save_encoder(encoder, root / "trained")
    reader = load_reader(root / "tiny" / "reader")
    shift(reader.model)
    save_reader(reader, root / "reader_trained", root / "tiny" / "reader")
    paths: dict[str, Any] = {
        "tiles": root / "tiles",
        "pairs": root / "splits" / "test.jsonl",
        "splits": root / "splits",
    }
    folders = {"base": root / "tiny" / "embedder", "trained": root / "trained"}
    paths["checkpoints"] = {name: Checkpoint(f"tile pictures, {name}", folder) for name, folder in folders.items()}
    paths |= {"reader_base": root / "tiny" / "reader", "reader_trained": root / "reader_trained"}
    return World(root, paths)


def shift(model: torch.nn.Module) -> None:
    """Other weights, the same each time: stands for training."""
    generator = torch.Generator().manual_seed(3)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=generator) * 0.02)


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    before, environment = torch.get_num_threads(), os.environ.get("OMP_NUM_THREADS")
    torch.set_num_threads(1)
    os.environ["OMP_NUM_THREADS"] = "1"
    yield
    torch.set_num_threads(before)
    if environment is None:
        del os.environ["OMP_NUM_THREADS"]
    else:
        os.environ["OMP_NUM_THREADS"] = environment
