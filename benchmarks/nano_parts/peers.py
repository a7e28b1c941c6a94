"""What else finds tiles by their words: BM25 over DOM text, and over what tesseract reads; MiniLM over the latter."""

import os
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from nano_parts.ranking import KS
from tilewright.data_gen.records import QAPair
from tilewright.data_gen.tile_store import TileStore
from tilewright.eval.bm25 import Bm25
from tilewright.eval.cache import Cache
from tilewright.eval.metrics import Hits
from tilewright.eval.minilm import PASSAGE_WORDS, MiniLm
from tilewright.eval.ocr import picture_key, read_pictures
from tilewright.eval.parts import Picture
from tilewright.eval.tools import MissingToolError
from tilewright.eval.workshop import OcrConfig

OCR_TIMEOUT_S = 120.0
Search = Callable[[Sequence[QAPair]], dict[str, Hits]]


def searches(store: TileStore, folder: Path) -> tuple[dict[str, Search], dict[str, Any]]:
    """({row: how it searches}, {row: why it can't}) over all tiles. What tesseract reads is kept in ``folder``/ocr."""
    texts = {tile.tile_id: tile.text for tile in store.iterate_light()}
    found, skipped = {"bm25": _bm25(texts)}, {}
    try:
        read = read_by_ocr(store, folder / "ocr")
    except MissingToolError as error:
        names = ("ocr_bm25", "ocr_minilm", "ocr_minilm_first_256_tokens")
        return found, dict.fromkeys(names, str(error))
    found["ocr_bm25"] = _bm25(read)
    for name, words in (("ocr_minilm", PASSAGE_WORDS), ("ocr_minilm_first_256_tokens", None)):
        try:
            found[name] = _minilm(read, words)
        except MissingToolError as error:
            skipped[name] = str(error)
    return found, skipped


def read_by_ocr(store: TileStore, folder: Path) -> dict[str, str]:
    """{tile_id: text}; a tile that tesseract fails on has none. Raises MissingToolError without tesseract."""
    pictures = {
        tile_id: Picture(store.image_digest(tile_id), store.size_px(tile_id), partial(store.image, tile_id))
        for tile_id in store.tile_ids
    }
    settings = OcrConfig("eng", 1.0, OCR_TIMEOUT_S, os.cpu_count() or 1)
    cache = Cache(folder)
    with cache.locked():
        texts, _ = read_pictures(list(pictures.values()), settings, cache)
    return {tile_id: texts.get(picture_key(picture), "") for tile_id, picture in pictures.items()}


def _bm25(texts: Mapping[str, str]) -> Search:
    index = Bm25(texts)
    return lambda queries: {pair.query_id: index.search(pair.query, KS[-1]) for pair in queries}


def _minilm(texts: Mapping[str, str], words: int | None) -> Search:
    return partial(_search_minilm, MiniLm(texts, words))


def _search_minilm(model: MiniLm, queries: Sequence[QAPair]) -> dict[str, Hits]:
    found = model.search([pair.query for pair in queries], KS[-1])
    return {pair.query_id: hits for pair, hits in zip(queries, found, strict=True)}
