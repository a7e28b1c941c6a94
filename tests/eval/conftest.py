"""A small world for evaluation: six pages of two tiles, questions on four of them, tiny models, training curves."""

import dataclasses
import hashlib
import html
import io
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image, ImageDraw, ImageFont

from tilewright.configs.stage import run_stage
from tilewright.data_gen.llm import LlmSettings
from tilewright.data_gen.records import Page, QAPair, Tile, write_jsonl
from tilewright.data_gen.tile_store import image_sha256, write_store
from tilewright.data_gen.tiles import tile_id
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.deliveries import Compressed
from tilewright.eval.evaluate import STAGE, Config
from tilewright.eval.readers.local import LocalReader
from tilewright.eval.rows import RowSpec
from tilewright.eval.workshop import OcrConfig
from tilewright.train import make_tiny_model
from tilewright.train.encoder import load_encoder, save_encoder
from tilewright.train.reader import load_reader, save_reader

SERVER = Path(__file__).parent.parent / "data_gen/llm/scripted_server.py"
WIDTH, HEIGHT = 320, 256
PLACES = ("Warsaw", "Lisbon", "Nairobi", "Quito", "Hanoi", "Oslo")
GRID = RowSpec(("trained", "gold"), ("as_is", "c4"), ("base", "trained"), (1,))
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


def write_pages(folder: Path) -> None:
    """The documents behind the tiles, as make_pages writes them."""
    (folder / "documents").mkdir(parents=True)
    pages = []
    for number, place in enumerate(PLACES):
        title = HOSTILE if number == 0 else f"About {place}"
        rows = f"<tr><th>Name</th><td>{place}</td></tr><tr><th>Founded</th><td>{1700 + number}</td></tr>"
        prose = f"<p>{place} is a river town, and people have lived there for a long time.</p>" * 3
        facts = f"<h2>History</h2><p>{place} was founded in the year {1700 + number} by people from the river.</p>"
        body = f"<h1>{html.escape(title)}</h1><table class=infobox>{rows}</table>{prose}{facts}"
        (folder / "documents" / f"{page_id(number)}.html").write_text(f"<html><body>{body}</body></html>")
        path = f"documents/{page_id(number)}.html"
        pages.append(Page(page_id(number), f"https://example.org/wiki/{place}", title, path, "html_folder"))
    write_jsonl(folder / "pages.jsonl", pages)


@dataclasses.dataclass(frozen=True)
class World:
    """Folders of everything that an evaluation takes in, and the config fields that name them."""

    root: Path
    paths: dict[str, Any]

    def config(self, out: Path, **changes: Any) -> Config:
        settings: dict[str, Any] = {
            "rows": ("base", "trained", "bm25", "ocr", GRID),
            "compare": (("trained", "base"), ("trained.c4.trained.k1", "trained.c4.base.k1")),
            "deliveries": {"c4": Compressed("compressed", 4.0)},
            "readers": {name: LocalReader("local", name, max_new_tokens=4) for name in ("base", "trained")},
            "read_questions": 4,
            "ks": (1, 3, 10),
            "depth": 12,
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

    def runs(self) -> dict[str, Any]:
        """Finished training stages, written by hand, as config fields."""
        counts: dict[str, Any] = {"train_recall_at_1": 0.953125, "train_chance_at_1": 0.01}
        counts |= {"train_recall_pool": {"queries": 64, "tiles": 200, "pages": 70}}
        curve = [{"step": step, "loss": 4.0 / (step + 1), "train_recall_at_1": step / 4} for step in range(5)]
        folders = {name: self.root / name for name in ("memorise_run", "trained_run", "reader_run")}
        for folder in folders.values():
            folder.mkdir(exist_ok=True)
            request = {"stage": "train_embedder", "schema": 1, "config": {"judge": "grounded"}, "inputs": {}}
            manifest = {"identity": folder.name, "request": request, "counts": counts, "outputs": {}, "sizes": {}}
            (folder / "manifest.json").write_text(json.dumps(manifest | {"provenance": {}}))
            (folder / "curve.jsonl").write_text("".join(json.dumps(row) + "\n" for row in curve))
        changed = {}
        for key, run in (("checkpoints", "trained_run"), ("reader_checkpoints", "reader_run")):
            trained = dataclasses.replace(self.paths[key]["trained"], run=folders[run])
            changed[key] = self.paths[key] | {"trained": trained}
        return {"memorise_run": folders["memorise_run"], "before": (self.root / "tiny",)} | changed


@pytest.fixture(scope="session")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    root = tmp_path_factory.mktemp("world")
    tiles = sorted((make_tile(number, row) for number in range(6) for row in range(2)), key=lambda tile: tile.tile_id)
    write_store(root / "tiles" / "store", tiles)
    write_pages(root / "pages")
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
    readers = {"base": root / "tiny" / "reader", "trained": root / "reader_trained"}
    paths["reader_checkpoints"] = {name: Checkpoint(f"reader, {name}", folder) for name, folder in readers.items()}
    return World(root, paths)


@pytest.fixture(scope="session")
def evaluation(world: World, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One complete run, with training runs and stages before it named."""
    out = tmp_path_factory.mktemp("runs") / "evaluation"
    run_stage(STAGE, world.config(out, **world.runs()))
    return out


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


@dataclasses.dataclass(frozen=True)
class Scripted:
    """A server that answers by rule: its base URL, its log of calls."""

    url: str
    log: Path

    @property
    def calls(self) -> int:
        events = [json.loads(line)["event"] for line in self.log.read_text().splitlines()] if self.log.exists() else []
        return events.count("start")

    def model(self, **changes: Any) -> LlmSettings:
        values: dict[str, Any] = {"model": "m", "temperature": 0.0, "max_tokens": 50, "base_url": self.url}
        return LlmSettings(**(values | {"call_timeout_s": 30.0, "max_retries": 0, "attempts": 1} | changes))


@pytest.fixture
def scripted(tmp_path: Path) -> Iterator[Callable[..., Scripted]]:
    """scripted(rules, *options) -> a server in a process of its own that lives as long as the test."""
    with ExitStack() as stack:

        def start(rules: str, *options: str) -> Scripted:
            number = len(list(tmp_path.glob("rules*.py")))
            log, file = tmp_path / f"calls{number}.jsonl", tmp_path / f"rules{number}.py"
            file.write_text(rules)
            command = [sys.executable, str(SERVER), "--log", str(log), "--rules", str(file), *options]
            process = stack.enter_context(subprocess.Popen(command, stdout=subprocess.PIPE, text=True))
            stack.callback(process.kill)
            assert process.stdout is not None
            return Scripted(process.stdout.readline().strip(), log)

        yield start
