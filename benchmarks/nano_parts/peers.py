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
from tilewright.eval.metrics import Hits
from tilewright.eval.minilm import PASSAGE_WORDS, MiniLm
from tilewright.eval.ocr import ocr_tiles, require_tesseract
from tilewright.eval.tools import MissingToolError

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
    require_tesseract("eng")
    folder.mkdir(parents=True, exist_ok=True)
    texts, failed = ocr_tiles(
        store, folder, language="eng", scale=1.0, processes=os.cpu_count() or 1, timeout_s=OCR_TIMEOUT_S
    )
    return texts | dict.fromkeys(failed, "")


def _bm25(texts: Mapping[str, str]) -> Search:
    index = Bm25(texts)
    return lambda queries: {pair.query_id: index.search(pair.query, KS[-1]) for pair in queries}


def _minilm(texts: Mapping[str, str], words: int | None) -> Search:
    return partial(_search_minilm, MiniLm(texts, words))


def _search_minilm(model: MiniLm, queries: Sequence[QAPair]) -> dict[str, Hits]:
    found = model.search([pair.query for pair in queries], KS[-1])
    return {pair.query_id: hits for pair, hits in zip(queries, found, strict=True)}
