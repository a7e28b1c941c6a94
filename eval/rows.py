"""The rows of an evaluation: how each finds tiles for the questions. A new one is a checkpoint or a TEXT_ROWS entry."""

import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np
import torch

from tilewright.configs.stage import execution
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.metrics import RowResult
from tilewright.eval.questions import Pool
from tilewright.eval.tools import require_module
from tilewright.mining.embed_tiles import Config as EmbedConfig
from tilewright.mining.embed_tiles import write_vectors
from tilewright.mining.index import TileIndex
from tilewright.mining.vector_store import VectorStore
from tilewright.train.distributed import choose_device
from tilewright.train.encoder import Encoder, load_encoder

Precision = Literal["float32", "bfloat16", "float16"]


@dataclass(frozen=True)
class OcrConfig:
    """How tiles are read: tesseract ``language`` (``eng+deu``), pictures enlarged ``scale`` times, at most
    ``processes`` at a time, each given up after ``timeout_s`` seconds."""

    language: str
    scale: float
    timeout_s: float
    processes: int = execution()

    def __post_init__(self) -> None:
        if self.scale <= 0 or self.processes < 1 or self.timeout_s <= 0:
            raise ValueError("wanted scale > 0, processes >= 1 and timeout_s > 0")


@dataclass(frozen=True)
class RowContext:
    """What a row may use. ``checkpoints``: {row: embedder folder}, run on ``device`` (auto: an accelerator if there is
    one) in ``precision``; ``out`` is the stage's folder: its journal and hidden entries outlive a kill."""

    store: TileStore
    pool: Pool
    pairs: Sequence[QAPair]
    out: Path
    depth: int
    checkpoints: Mapping[str, Path]
    ocr: OcrConfig
    device: str = "auto"
    precision: Precision = "float32"

    def encoder(self, name: str) -> Encoder:
        """The encoder of a checkpoint, ready to encode queries."""
        return load_encoder(self.checkpoints[name], device=self.place, dtype=self.dtype)

    @property
    def place(self) -> torch.device:
        """Where models run."""
        return choose_device(self.device)

    @property
    def dtype(self) -> torch.dtype:
        """What models compute in."""
        return {"float32": torch.float32, "bfloat16": torch.bfloat16, "float16": torch.float16}[self.precision]


@dataclass(frozen=True)
class Row:
    """``title`` says what it is; ``require`` raises MissingToolError if it can't run."""

    title: str
    require: Callable[[RowContext], None]
    run: Callable[[RowContext], RowResult]


def _embedder(name: str, title: str) -> Row:
    """A row that embeds all tiles with a checkpoint, rebuilds the index and searches it."""

    def run(context: RowContext) -> RowResult:
        index = _rebuilt_index(name, context)
        encoder = context.encoder(name)
        index.check_encoder(encoder.hash)
        found = index.search(encoder.encode_queries([pair.query for pair in context.pairs]), context.depth)
        hits = {pair.query_id: hits for pair, hits in zip(context.pairs, found, strict=True)}
        return RowResult(hits, {}, _facts(encoder, context.store))

    return Row(title, lambda context: None, run)


def _rebuilt_index(name: str, context: RowContext) -> TileIndex:
    """The index of all tiles by one checkpoint; finished blocks of vectors outlive a kill."""
    folder = context.out / f".vectors-{name}"
    folder.mkdir(exist_ok=True)
    checkpoint, tiles = context.checkpoints[name], context.store.folder
    config = EmbedConfig(folder, checkpoint, tiles, model_dtype=context.precision, device=context.device)
    write_vectors(config, {"checkpoint": checkpoint, "tiles": tiles}, folder)
    vectors = VectorStore.open(folder)
    return TileIndex.build(
        vectors.rows(np.arange(len(vectors))), list(vectors.tile_ids), encoder_hash=vectors.encoder_hash
    )


def _facts(encoder: Encoder, store: TileStore) -> dict[str, object]:
    contract = encoder.contract
    pixels = contract.pixels
    width, height = max(map(store.size_px, store.tile_ids), key=math.prod)
    return {
        "encoder_hash": encoder.hash[:16],
        "family": contract.adapter,
        "base_model": contract.base_model,
        "parameters": sum(parameter.numel() for parameter in encoder.model.parameters()),
        "dimension": encoder.dimension,
        "min_pixels": pixels.min_pixels,
        "max_pixels": pixels.max_pixels,
        "enlarge": pixels.enlarge,
        "tile_px": [width, height],
        "visual_tokens": encoder.tokens(width, height),
    }


def _need_bm25(context: RowContext) -> None:
    require_module("bm25s", "text")


def _search_texts(texts: Mapping[str, str], context: RowContext, facts: Mapping[str, object], failed: int) -> RowResult:
    from tilewright.eval.bm25 import K1, B, Bm25

    index = Bm25(texts)
    hits = {pair.query_id: index.search(pair.query, context.depth) for pair in context.pairs}
    search = {"search": f"BM25 (Lucene's variant), k1 {K1}, b {B}, no stop words, no stemming"}
    return RowResult(hits, {}, {**search, **facts}, failed, texts)


def _run_bm25(context: RowContext) -> RowResult:
    texts = {tile.tile_id: tile.text for tile in context.store.iterate_light()}
    empty = sum(not text.strip() for text in texts.values())
    return _search_texts(texts, context, {"text": "DOM text of each tile", "tiles_without_text": empty}, 0)


def _need_ocr(context: RowContext) -> None:
    _need_bm25(context)
    require_module("pytesseract", "ocr")
    from tilewright.eval.ocr import require_tesseract

    require_tesseract(context.ocr.language)


def _run_ocr(context: RowContext) -> RowResult:
    from tilewright.eval.ocr import ocr_tiles, require_tesseract

    options = context.ocr
    texts, failed = ocr_tiles(
        context.store,
        context.out,
        language=options.language,
        scale=options.scale,
        processes=options.processes,
        timeout_s=options.timeout_s,
    )
    empty = sum(not text.strip() for text in texts.values())
    version = require_tesseract(options.language)
    facts: dict[str, object] = {
        "text": f"tesseract {version}, {options.language}, scale {options.scale:g}",
        "tiles_without_text": empty,
    }
    if failed:
        facts["failed_tiles"] = dict(sorted(Counter(failed.values()).items()))
    return _search_texts(texts, context, facts, len(failed))


TEXT_ROWS: dict[str, Row] = {
    "bm25": Row("DOM text of the tiles, BM25", _need_bm25, _run_bm25),
    "ocr": Row("OCR of the tiles (tesseract), BM25", _need_ocr, _run_ocr),
}


def rows_of(checkpoints: Mapping[str, Checkpoint]) -> dict[str, Row]:
    """Every row that a run may name: its checkpoints, then TEXT_ROWS."""
    embedders = {name: _embedder(name, checkpoint.title) for name, checkpoint in checkpoints.items()}
    return embedders | TEXT_ROWS
