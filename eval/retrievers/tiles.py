"""Retrievers whose items are tiles: by a checkpoint's vectors, by their DOM text, by what OCR reads on them."""

import math
import shutil
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.data_gen.images import decode_image
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.checkpoints import Checkpoint
from tilewright.eval.parts import Found, Item, Question
from tilewright.eval.tools import require_module
from tilewright.eval.workshop import Workshop
from tilewright.mining.embed_tiles import Config as EmbedConfig
from tilewright.mining.embed_tiles import write_vectors
from tilewright.mining.index import TileIndex
from tilewright.mining.index_source import StoreSource
from tilewright.mining.vector_store import VectorStore
from tilewright.train.encoder import Encoder


@dataclass(frozen=True)
class Bm25Tiles:
    """BM25 over the DOM text of each tile."""

    kind: Literal["bm25"]


@dataclass(frozen=True)
class OcrTiles:
    """BM25 over what tesseract reads on each tile (``ocr`` of the config)."""

    kind: Literal["ocr"]


class CheckpointTiles:
    """Embeds all tiles with a checkpoint and rebuilds the index, or takes a stored one of the same encoder."""

    closed_book, sees_gold, items_failed = False, False, 0

    def __init__(self, name: str, checkpoint: Checkpoint, workshop: Workshop) -> None:
        if checkpoint.adapter is not None:
            raise InputError(
                f"checkpoints.{name}: adapter: wanted none, for it is of readers, found {checkpoint.adapter}"
            )
        self.name, self.title, self._checkpoint, self._workshop = name, checkpoint.title, checkpoint, workshop
        if checkpoint.index is not None:  # refused before any row is worked out
            self._stored(checkpoint.index).check_encoder(self._encoder().hash)

    @property
    def identity(self) -> str:
        """The encoder, the tiles and, as rounding depends on it, the precision."""
        return f"{self._encoder().hash}/{self._workshop.corpus_digest}/{self._workshop.precision}"

    @property
    def page_of(self) -> Mapping[str, str]:
        """The pool's."""
        return self._workshop.pool.page_of

    @property
    def facts(self) -> Mapping[str, object]:
        """What the contract says, and at how many visual tokens a whole tile is seen."""
        return _facts(self._encoder(), self._workshop.store)

    def item(self, item_id: str) -> Item:
        """A tile."""
        return self._workshop.tile_item(item_id)

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        """Exact search of the rebuilt index, or search of the stored one."""
        encoder, index = self._encoder(), self._index()
        index.check_encoder(encoder.hash)
        pictures = [decode_image(question.picture) if question.picture else None for question in questions]
        vectors = encoder.encode_queries(
            [question.query for question in questions], pictures if any(pictures) else None
        )
        found = index.search(vectors, depth)
        return Found({question.query_id: hits for question, hits in zip(questions, found, strict=True)})

    def _encoder(self) -> Encoder:
        return self._workshop.encoder(self.name)

    def _index(self) -> TileIndex:
        if self._checkpoint.index is not None:
            return self._stored(self._checkpoint.index)
        work, checkpoint = self._workshop, self._checkpoint.folder
        folder = work.cache.part("vectors", self.identity)
        config = EmbedConfig(folder, checkpoint, work.store.folder, model_dtype=work.precision, device=work.device)
        write_vectors(config, {"checkpoint": checkpoint, "tiles": work.store.folder}, folder)
        source = StoreSource([VectorStore.open(folder)])
        index = work.out / ".index" / self.name  # hidden: deleted when the stage ends
        if index.exists():
            shutil.rmtree(index)  # of a run that was cut short
        return TileIndex.build_from(source, encoder_hash=source.encoder_hash, folder=index)

    def _stored(self, folder: Path) -> TileIndex:
        index = TileIndex.load(folder)
        others = set(index.tile_ids) ^ set(self._workshop.store.tile_ids)
        if others:
            raise InputError(
                f"checkpoints.{self.name}.index: {folder} and `tiles` differ in {len(others)} tiles (first:"
                f" {min(others)}): wanted an index of exactly the tiles that all rows search"
            )
        return index


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


class TileTexts:
    """BM25 over a text of each tile; what it finds are tiles, so readers are given their pictures."""

    closed_book, sees_gold = False, False

    def __init__(
        self,
        title: str,
        name: str,
        texts: Callable[[], tuple[Mapping[str, str], Mapping[str, str], dict[str, object]]],
        workshop: Workshop,
    ) -> None:
        """``texts()``: ({tile_id: text}, {tile_id: error}, facts)."""
        self.title, self._name, self._texts, self._workshop = title, name, texts, workshop

    @property
    def identity(self) -> str:
        """The texts that are searched: where OCR failed on a tile, another identity than where it didn't."""
        from tilewright.eval.bm25 import K1, B

        return f"bm25/{K1}/{B}/{digest_text(canonical_json(self._made()[0]))}"

    @property
    def items_failed(self) -> int:
        """Tiles whose text couldn't be had."""
        return len(self._made()[1])

    @property
    def page_of(self) -> Mapping[str, str]:
        """The pool's."""
        return self._workshop.pool.page_of

    @property
    def facts(self) -> Mapping[str, object]:
        """How it searches and in what."""
        from tilewright.eval.bm25 import K1, B

        texts, errors, facts = self._made()
        found: dict[str, object] = {"search": f"BM25 (Lucene's variant), k1 {K1}, b {B}, no stop words, no stemming"}
        found |= facts | {"tiles_without_text": sum(not text.strip() for text in texts.values())}
        if errors:
            found["failed_tiles"] = dict(sorted(Counter(error.partition(":")[0] for error in errors.values()).items()))
        return found

    def item(self, item_id: str) -> Item:
        """A tile."""
        return self._workshop.tile_item(item_id)

    def search(self, questions: Sequence[Question], depth: int) -> Found:
        """Tiles whose text shares a word with the question; tiles without a text because of an error can't be found."""
        from tilewright.eval.bm25 import Bm25

        index = self._workshop.once(f"bm25 {self._name}", lambda: Bm25(self._made()[0]))
        return Found({question.query_id: index.search(question.query, depth) for question in questions})

    def _made(self) -> tuple[Mapping[str, str], Mapping[str, str], dict[str, object]]:
        return self._workshop.once(f"texts {self._name}", self._texts)


def bm25_tiles(options: Bm25Tiles, workshop: Workshop) -> TileTexts:
    """By DOM text. Raises MissingToolError without bm25s."""
    require_module("bm25s", "text")
    facts: dict[str, object] = {"text": "DOM text of each tile"}
    return TileTexts("DOM text of the tiles, BM25", "dom", lambda: (workshop.dom_texts, {}, facts), workshop)


def ocr_tiles(options: OcrTiles, workshop: Workshop) -> TileTexts:
    """By OCR. Raises MissingToolError without bm25s, pytesseract, tesseract or its language."""
    require_module("bm25s", "text")
    require_module("pytesseract", "ocr")
    from tilewright.eval import ocr

    settings = workshop.ocr
    version = ocr.require_tesseract(settings.language)
    text = f"tesseract {version}, {settings.language}, scale {settings.scale:g}"

    def texts() -> tuple[Mapping[str, str], Mapping[str, str], dict[str, object]]:
        found, errors = workshop.ocr_texts()
        return found, errors, {"text": text}

    return TileTexts("OCR of the tiles (tesseract), BM25", "ocr", texts, workshop)
