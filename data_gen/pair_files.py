"""Files of question-answer pairs as every later stage reads them: each line checked before any work is done."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import QAPair, iterate_jsonl
from tilewright.data_gen.tile_store import TileStore
from tilewright.data_gen.tiles import page_of

_LONE_SURROGATE = re.compile("[\ud800-\udfff]")


def read_pair_file(path: Path) -> list[QAPair]:
    """The pairs of a JSONL file, one a line.

    Raises InputError, with file and line, for what is no pair, an id that a column of a TREC file can't hold, a
    query_id that stands twice, a question without words, text that is no Unicode (half of a surrogate pair), and a
    page that isn't the one of the pair's tile. A question may name no tile, or neither tile nor page ("").
    """
    if not path.is_file():
        raise InputError(f"{path} is missing: wanted a JSONL file of question-answer pairs")
    pairs: list[QAPair] = []
    lines: dict[str, int] = {}
    for number, pair in enumerate(iterate_jsonl(path, QAPair), start=1):
        for fault in _faults(pair):
            raise InputError(f"{path}:{number}: {fault}")
        if pair.query_id in lines:
            raise InputError(
                f"{path}:{number}: query_id {pair.query_id!r} stands twice (first on line {lines[pair.query_id]})"
            )
        lines[pair.query_id] = number
        pairs.append(pair)
    return pairs


def _faults(pair: QAPair) -> Iterator[str]:
    for name in ("query_id", "tile_id", "page_id"):
        value = getattr(pair, name)
        if " " in value or not value.isprintable() or (name == "query_id" and not value):
            yield f"{name}: wanted an id without blanks and control characters, found {value!r}"
    if not pair.query.strip():
        yield f"query of {pair.query_id!r}: wanted a question, found {pair.query!r}"
    for name in ("query", "answer", "aliases", "source_span", "source_type", "subject", "annotator"):
        value = getattr(pair, name)
        if not is_unicode("".join(value)):
            yield f"{name} of {pair.query_id!r}: wanted Unicode text, found half of a surrogate pair in {value!r}"
    page_id = page_of(pair.tile_id)
    if pair.tile_id and pair.page_id != page_id:
        yield f"page_id: wanted {page_id!r}, the page of tile {pair.tile_id}, found {pair.page_id!r}"


def is_unicode(text: str) -> bool:
    """Whether UTF-8 can write ``text``: JSON escapes can spell half of a surrogate pair, which is no character."""
    return _LONE_SURROGATE.search(text) is None


def check_pictures(store: TileStore, tile_ids: Sequence[str]) -> None:
    """Raise InputError if ``store`` was written without pictures, which a model is to look at; the first tile tells."""
    if tile_ids and not store.encoded_image(tile_ids[0]):
        raise InputError(
            f"{store.folder}: the tiles were stored without their images, which the model is to see: `tilewright tiles"
            " render` makes them again from their pages"
        )


def check_tiles(pairs: Sequence[QAPair], store: TileStore, path: Path) -> None:
    """Raise InputError if pairs of ``path`` are of tiles that ``store`` lacks."""
    strangers = [pair for pair in pairs if pair.tile_id not in store]
    if strangers:
        raise InputError(
            f"{path}: {len(strangers)} pairs are of tiles that the tile store lacks (first: {strangers[0].tile_id!r} of"
            f" {strangers[0].query_id}): make the queries from these tiles"
        )
