"""What all variants train on: a tiny Qwen3-VL with random weights, synthetic tiles, a query for each of them."""

import dataclasses
import io
import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import torch
from PIL import Image, ImageDraw, ImageFont

from tilewright.configs.stage import run_stage
from tilewright.data_gen.images import encode_png, image_sha256
from tilewright.data_gen.records import Tile, TrainingExample, write_jsonl
from tilewright.data_gen.tile_store import TileStore, write_store
from tilewright.train import make_tiny_model
from tilewright.train.batch import Batch
from tilewright.train.encoder import Encoder
from tilewright.train.prompts import QUERY_INSTRUCTION, TILE_INSTRUCTION
from tilewright.train.step_inputs import StepInputs

PROMPT_WORDS = f"system user assistant {TILE_INSTRUCTION} {QUERY_INSTRUCTION}"
EVIDENCE = {"infobox": 0, "table": 0, "list": 0, "paragraph": 1000}


@dataclass(frozen=True)
class Size:
    """How large the model, the tiles and the batch are. The defaults are those of the figures."""

    tile_px: int = 320
    hidden: int = 256
    layers: int = 1
    vision_hidden: int = 128
    vision_layers: int = 2
    batch: int = 64
    large_batch: int = 512
    chunk: int = 4


SMALL = Size(tile_px=64, hidden=64, layers=1, vision_hidden=32, vision_layers=2, batch=8, large_batch=16)


@dataclass(frozen=True)
class Workload:
    """The folders of a workload, below ``root``."""

    root: Path
    size: Size

    @property
    def model(self) -> Path:
        return self.root / "tiny" / "embedder"

    @property
    def tiles(self) -> Path:
        return self.root / "tiles"

    @property
    def pairs(self) -> Path:
        """JSONL of {query, image}: the same data for those who read picture files."""
        return self.root / "pairs.jsonl"

    def inputs(self) -> dict[str, Path]:
        """The inputs of train_embedder."""
        splits = self.root / "splits"
        return {
            "model": self.model,
            "examples": self.root / "examples.jsonl",
            "tiles": self.tiles,
            "validation": splits / "validation.jsonl",
            "splits": splits,
        }


def lexicon(count: int = 300) -> list[str]:
    """So many words of random letters, always the same."""
    draw = random.Random(0)
    return ["".join(draw.choices("etaoinshrdlucmpgb", k=draw.randint(2, 8))) for _ in range(count)]


WORDS = lexicon()


def sentence(draw: random.Random, words: int) -> str:
    """So many words of WORDS."""
    return " ".join(draw.choices(WORDS, k=words))


def picture(text: str, side_px: int) -> bytes:
    """PNG of ``text`` in lines."""
    image = Image.new("RGB", (side_px, side_px), "white")
    draw, font, words = ImageDraw.Draw(image), ImageFont.load_default(size=14), text.split()
    for line, y_px in enumerate(range(6, side_px - 14, 20)):
        draw.text((6, y_px), " ".join(words[6 * line : 6 * line + 6]), fill="black", font=font)
    return encode_png(image)


def make_tiles(count: int, side_px: int, distinct: int | None = None) -> Iterator[Tile]:
    """``count`` tiles, one a page, that show ``distinct`` pictures in turn (none given: each its own)."""
    distinct = count if distinct is None else distinct
    shown: list[tuple[str, bytes, str]] = []
    for number in range(count):
        if number < distinct:
            text = sentence(random.Random(number), 60)
            image = picture(text, side_px)
            shown.append((text, image, image_sha256(Image.open(io.BytesIO(image)))))
        text, image, digest = shown[number % distinct]
        page = f"{number:016x}"
        yield Tile(
            f"{page}-0000-00",
            page,
            "https://example.com/",
            "Title",
            *(0, 0, 0, 0, side_px, side_px),
            image,
            digest,
            f"{text} {PROMPT_WORDS}",  # so that the tokenizer knows prompts by words, as a real one does
            EVIDENCE,
        )


def make_workload(root: Path, size: Size, count: int) -> Workload:
    """Tiles, their queries and the tiny model; ``count`` of the former."""
    workload = Workload(root, size)
    root.mkdir(parents=True, exist_ok=True)
    write_store(workload.tiles, make_tiles(count, size.tile_px))
    store = TileStore.open(workload.tiles)
    queries = [sentence(random.Random(f"query {number}"), 8) for number in range(count)]
    examples = [
        TrainingExample(f"q{number}", query, tile_id, ())
        for number, (query, tile_id) in enumerate(zip(queries, store.tile_ids, strict=True))
    ]
    write_jsonl(root / "examples.jsonl", examples)
    write_splits(root / "splits", [tile_id.partition("-")[0] for tile_id in store.tile_ids])
    pictures = root / "pictures"
    pictures.mkdir()
    with workload.pairs.open("w", encoding="utf-8") as file:
        for example in examples:
            path = pictures / f"{example.query_id}.png"
            path.write_bytes(store.encoded_image(example.positive_tile_id))
            file.write(json.dumps({"query": example.query, "image": str(path)}) + "\n")
    limits = make_tiny_model.Pixels(min_pixels=4096, max_pixels=max(4096, size.tile_px**2))
    shape = {name: getattr(size, name) for name in ("hidden", "layers", "vision_hidden", "vision_layers")}
    config = make_tiny_model.Config(
        out=root / "tiny", embedder=limits, reader=limits, seed=1, tiles=workload.tiles, vocab_size=2048, **shape
    )
    run_stage(make_tiny_model.STAGE, config)
    return workload


def write_splits(folder: Path, pages: list[str]) -> None:
    """All pages are training pages; there are no validation questions."""
    folder.mkdir(parents=True)
    (folder / "pages.json").write_text(json.dumps({"train": pages, "validation": [], "test": []}), encoding="utf-8")
    (folder / "validation.jsonl").write_text("", encoding="utf-8")


def step_inputs(queries: Batch, tiles: Batch) -> StepInputs:
    """Inputs of one rank's step in which tile i answers query i."""
    return StepInputs(
        step=0,
        examples=len(queries),
        queries=queries,
        tiles=tiles,
        query_counts=[len(queries)],
        tile_counts=[len(tiles)],
        positive=torch.arange(len(queries)),
        ignore=torch.zeros(len(queries), len(tiles), dtype=torch.bool),
        with_images=True,
        visual_tokens=0,
    )


def batches(workload: Workload, encoder: Encoder, count: int) -> tuple[Batch, Batch]:
    """``count`` queries and their tiles as model inputs; a workload smaller than that begins again."""
    store = TileStore.open(workload.tiles)
    lines = workload.pairs.read_text(encoding="utf-8").splitlines()
    texts = [json.loads(line)["query"] for line in lines]
    ids = list(store.tile_ids)
    rows = [number % len(ids) for number in range(count)]
    images = [store.image(ids[row]) for row in rows]
    return encoder.query_batch([texts[row] for row in rows]), encoder.tile_batch(images)


def nbytes(batch: Batch) -> int:
    """Bytes of a batch's tensors."""
    values = (getattr(batch, field.name) for field in dataclasses.fields(batch))
    return sum(value.nbytes for value in values if isinstance(value, torch.Tensor))
