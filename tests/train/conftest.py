"""A small tile store, tiny models made from it, and what an embedder is trained on."""

import io
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import torch

from tilewright.configs.stage import run_stage
from tilewright.data_gen.images import image_sha256
from tilewright.data_gen.records import QAPair, Tile, TrainingExample, write_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.train import train_embedder
from tilewright.train.make_tiny_model import Config, Pixels, make_tiny_model
from tilewright.train.nano import VISION, NanoConfig, NanoModel
from tilewright.train.nano_folder import write_nano
from tilewright.train.objective import LossConfig
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


WORDS = ("Nairobi", "Oslo", "Quito", "Lima", "1815", "42 km", "Ada", "question")


@dataclass(frozen=True)
class TrainingInputs:
    """Folders and files of a training run over eight tiles: six for training, two for validation."""

    root: Path
    tiles: Path
    model: Path
    tile_ids: tuple[str, ...]

    def config(self, out: Path, **changes: Any) -> train_embedder.Config:
        values: dict[str, Any] = {
            "out": out,
            "model": self.model,
            "examples": self.root / "examples.jsonl",
            "tiles": self.tiles,
            "validation": self.root / "validation.jsonl",
            "splits": self.root,
            "seed": 7,
            "trainable": "full",
            "loss": LossConfig(0.1, learn_temperature=True),
            "steps": 8,
            "batch_size": 4,
            "hard_negatives": 2,
            "random_tiles": 2,
            "learning_rate": 2e-3,
            "warmup_steps": 2,
            "weight_decay": 0.01,
            "max_grad_norm": 1.0,
            "validate_every": 2,
            "save_every": 3,
            "keep": "best",
            "validation_metric": "mrr",
            "validation_queries": 100,
            "train_recall_every": 4,
            "threads": 1,
            "cache_mib": 64,
        }
        return train_embedder.Config(**(values | changes))


def pair(number: int, tile_id: str) -> QAPair:
    page_id = tile_id.partition("-")[0]
    return QAPair(
        f"v{number}", f"Where is {WORDS[number]}?", WORDS[number], (), tile_id, page_id, "", "p", "s", "test/1"
    )


@pytest.fixture(scope="session")
def inputs(reader_parts: Any, tmp_path_factory: pytest.TempPathFactory) -> TrainingInputs:
    root = tmp_path_factory.mktemp("embedder_inputs")
    ids = reader_parts.tile_ids
    examples = [
        TrainingExample(
            f"q{number}", f"Tell of {WORDS[number % 8]} {number}", ids[number % 6], (ids[(number + 1) % 6],)
        )
        for number in range(10)
    ]
    write_jsonl(root / "examples.jsonl", examples)
    write_jsonl(root / "validation.jsonl", [pair(number, ids[6 + number % 2]) for number in range(4)])
    pages = [tile_id.partition("-")[0] for tile_id in ids]
    (root / "pages.json").write_text(json.dumps({"train": pages[:6], "validation": pages[6:], "test": []}))
    return TrainingInputs(root, reader_parts.tiles, reader_parts.model.parent / "embedder", ids)


@pytest.fixture(scope="session")
def finished(inputs: TrainingInputs, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The output of an uninterrupted run."""
    out = tmp_path_factory.mktemp("finished") / "embedder"
    run_stage(train_embedder.STAGE, inputs.config(out))
    return out


@pytest.fixture(scope="session")
def random_nano() -> NanoModel:
    """A nano of two layers with random weights and vectors of 256; not to be changed."""
    with torch.random.fork_rng():
        torch.manual_seed(11)
        model = NanoModel(NanoConfig(VISION | {"depth": 2}, dimension=256)).eval()
        model.binding.weights.uniform_(1, 8)
    return model


@pytest.fixture(scope="session")
def nano_folder(random_nano: NanoModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """``random_nano`` as a model folder in float32."""
    folder = tmp_path_factory.mktemp("nano") / "base"
    write_nano(random_nano, folder, name="random nano", dtype=torch.float32)
    return folder
