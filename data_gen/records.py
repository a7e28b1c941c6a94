"""The records of the line, Page to EvalRecord: frozen, flat, JSON-able. One JSONL file holds one type."""

import dataclasses
import json
import types
import typing
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from tilewright.configs.errors import InputError

R = TypeVar("R")
FAILED = "failed.jsonl"


@dataclass(frozen=True)
class Page:
    """A web page. ``page_id`` is 16 hex of SHA-256 of the canonical URL.

    ``html_path``: its document (HTML, or a PDF or picture), relative to the JSONL file; "" if it isn't there.
    ``complete`` says whether all of the laid-out page was captured in tiles: its height stood still, no part of it
    shows by scrolling only, all its tiles are there; sizes are 0 until it is rendered. ``images_failed`` and
    ``fonts_missing`` count what it asked for and didn't get.
    ``document_url``: what the document's relative references resolve against ("": ``url``). ``fetched``: when it was
    fetched or last revised, ISO 8601 UTC, "" if its source doesn't say. ``content_sha256``: of the source's own bytes.
    """

    page_id: str
    url: str
    title: str
    html_path: str
    source: str
    width_px: int = 0
    height_px: int = 0
    complete: bool = False
    tile_count: int = 0
    document_url: str = ""
    fetched: str = ""
    content_sha256: str = ""
    images_failed: int = 0
    fonts_missing: int = 0


@dataclass(frozen=True)
class FailedPage:
    """A page that couldn't be rendered, and why: a line of FAILED, beside pages.jsonl."""

    page_id: str
    url: str
    reason: str


@dataclass(frozen=True)
class Word:
    """A word shown on a tile; its box is in tile pixels; ``block`` indexes the tile's blocks (-1: in none)."""

    text: str
    x_px: float
    y_px: float
    width_px: float
    height_px: float
    block: int


@dataclass(frozen=True)
class Block:
    """A piece of the page's DOM that a tile shows: its part of a paragraph, a list item, a table or infobox row...

    ``kind``: infobox_row, table_row, list_item, paragraph, heading, caption. For rows, ``cells`` are the texts of the
    cells in order and ``labels`` the column header above each ("" without one); an infobox row is (label, value).
    ``section`` is the text of the nearest heading above. ``whole``: the entire element lies inside the tile.
    """

    kind: str
    text: str
    cells: tuple[str, ...]
    labels: tuple[str, ...]
    section: str
    caption: str
    whole: bool
    x_px: float
    y_px: float
    width_px: float
    height_px: float


@dataclass(frozen=True)
class Link:
    """A hyperlink shown on a tile: absolute ``href``, anchor text, box in tile pixels."""

    href: str
    anchor: str
    x_px: float
    y_px: float
    width_px: float
    height_px: float


@dataclass(frozen=True)
class Tile:
    """A crop of a rendered page. ``tile_id`` is ``{page_id}-{row:04d}-{column:02d}``; x, y, width, height in page px.

    ``image`` holds the encoded bytes; ``image_sha256`` is of size and decoded RGB, so it outlives an encoder version.
    ``text``: the DOM text whose boxes fall in the tile, in reading order. ``evidence_px``: covered px² by kind.
    """

    tile_id: str
    page_id: str
    url: str
    title: str
    row: int
    column: int
    x_px: int
    y_px: int
    width_px: int
    height_px: int
    image: bytes
    image_sha256: str
    text: str
    evidence_px: dict[str, int]
    words: tuple[Word, ...] = ()
    blocks: tuple[Block, ...] = ()
    links: tuple[Link, ...] = ()


@dataclass(frozen=True)
class QAPair:
    """(q, a, p): a question, its answer and the tile that shows it. ``annotator`` is name and version."""

    query_id: str
    query: str
    answer: str
    aliases: tuple[str, ...]
    tile_id: str
    page_id: str
    source_span: str
    source_type: str
    subject: str
    annotator: str


@dataclass(frozen=True)
class TextPair:
    """A query and a passage of a page's text, for the text warm-up. ``method``: what made the query of the passage."""

    pair_id: str
    query: str
    passage: str
    page_id: str
    method: str


@dataclass(frozen=True)
class TrainingExample:
    """(q, p, negatives): what the embedder learns from. ``negative_tile_ids`` are hardest first, never padded.

    ``known_positive_tile_ids`` were judged CORRECT: never a negative of this query, in any batch.
    """

    query_id: str
    query: str
    positive_tile_id: str
    negative_tile_ids: tuple[str, ...]
    known_positive_tile_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class ReaderExample:
    """What a reader learns from: ``tile_ids`` in the order shown; ``gold_position`` indexes them, None if absent.

    ``gold_rank``: where the gold tile stood among those retrieved, 1 = best; None if not within the depth searched.
    """

    query_id: str
    query: str
    answer: str
    tile_ids: tuple[str, ...]
    gold_position: int | None
    compression: float
    gold_rank: int | None = None


@dataclass(frozen=True)
class Ranking:
    """Hits of one query, best first: ((tile_id, score), ...). On disk a TREC run."""

    query_id: str
    hits: tuple[tuple[str, float], ...]


@dataclass(frozen=True)
class Given:
    """An item that a reader was given. ``source``: what made it (tile, text_chunk, ocr, ...); ``tokens``: its cost.

    ``compression`` and ``size_px`` of a picture as it was shown; ``text`` of a text: its first characters.
    """

    item_id: str
    page_id: str
    source: str
    tokens: int
    compression: float
    size_px: tuple[int, ...]
    text: str


@dataclass(frozen=True)
class EvalRecord:
    """One question under one row: gold, full hit list, what the reader got and what came of it.

    ``cluster``: what intervals resample, the gold page. ``ranks``: of the first hit of a gold ``page`` and of the gold
    ``tile``, from 1, 0 if not found, no key without a gold. ``evidence``: ranks of the hits that hold an answer as a
    string. ``flags``: what a delivery said of itself. ``scores``: of each grader, None where it gave none. ``verdict``:
    CORRECT, WRONG or CANNOT_ANSWER by the grader that decides; None with ``error`` set means the question wasn't
    graded. ``visual_tokens`` and ``retrieved_text_tokens`` are parts of ``input_tokens``; ``tokens_told``: they are
    counted, not estimated.
    """

    row: str
    query_id: str
    query: str
    answers: tuple[str, ...]
    gold_urls: tuple[str, ...]
    gold_tile_ids: tuple[str, ...]
    hits: tuple[tuple[str, float], ...]
    cluster: str = ""
    ranks: dict[str, int] = dataclasses.field(default_factory=dict)
    evidence: tuple[int, ...] = ()
    k: int = 0
    given: tuple[Given, ...] = ()
    flags: tuple[str, ...] = ()
    input_tokens: int = 0
    visual_tokens: int = 0
    retrieved_text_tokens: int = 0
    output_tokens: int = 0
    tokens_told: bool = True
    prediction: str | None = None
    scores: dict[str, float | None] = dataclasses.field(default_factory=dict)
    verdict: str | None = None
    error: str | None = None


def to_json(record: Any) -> dict[str, Any]:
    """A record as plain JSON values; bytes are refused (TypeError by json.dumps): tiles live in the tile store."""
    return dataclasses.asdict(record)


def from_json(kind: type[R], data: Any, where: str = "") -> R:
    """Build a record of type ``kind`` from plain values. Raises InputError naming ``where``, wanted and found."""
    if not isinstance(data, dict):
        raise InputError(f"{where}: wanted a JSON object for {kind.__name__}, found {type(data).__name__}")
    hints = _hints(kind)  # type: ignore[arg-type]
    unknown, missing = data.keys() - hints.keys(), _required(kind) - data.keys()  # type: ignore[arg-type]
    if unknown or missing:
        raise InputError(f"{where}: {kind.__name__}: unknown keys {sorted(unknown)}, missing keys {sorted(missing)}")
    return kind(**{name: _value(hints[name], item, f"{where}: {name}") for name, item in data.items()})


@cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind)


@cache
def _required(kind: type) -> frozenset[str]:
    fields = dataclasses.fields(kind)
    return frozenset(entry.name for entry in fields if entry.default is dataclasses.MISSING)


def _value(wanted: Any, value: Any, where: str) -> Any:
    origin, arguments = typing.get_origin(wanted), typing.get_args(wanted)
    if dataclasses.is_dataclass(wanted) and isinstance(wanted, type):
        return from_json(wanted, value, where)
    if origin is types.UnionType:
        return None if value is None else _value(arguments[0], value, where)
    if origin is tuple and isinstance(value, (list, tuple)):
        kinds = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
        if len(kinds) == len(value):
            return tuple(_value(kind, item, where) for kind, item in zip(kinds, value, strict=True))
    if origin is dict and isinstance(value, dict):
        return {key: _value(arguments[1], item, where) for key, item in value.items()}
    if wanted is float and isinstance(value, int) and not isinstance(value, bool):
        return float(value)
    if isinstance(wanted, type) and isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool)):
        return value
    raise InputError(f"{where}: wanted {wanted}, found {value!r}")


def read_jsonl(path: Path, kind: type[R], *, unique: str | None = None) -> list[R]:
    """All records of a JSONL file. Raises InputError with file and line for anything that is no ``kind``."""
    records = list(iterate_jsonl(path, kind))
    seen: dict[Any, int] = {}
    for number, record in enumerate(records, start=1) if unique else ():
        value = getattr(record, str(unique))
        if value in seen:
            raise InputError(f"{path}:{number}: {unique} {value!r} stands twice (first on line {seen[value]})")
        seen[value] = number
    return records


def iterate_jsonl(path: Path, kind: type[R]) -> Iterator[R]:
    """Stream the records of a JSONL file; errors as in ``read_jsonl``."""
    with path.open("rb") as file:
        for number, line in enumerate(file, start=1):
            where = f"{path}:{number}"
            try:
                data = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise InputError(f"{where}: not JSON ({error})") from error
            yield from_json(kind, data, where)


def write_jsonl(path: Path, records: Iterable[Any]) -> int:
    """Write records, one a line, atomically; return how many."""
    temporary = path.with_name(f".{path.name}.tmp")
    count = 0
    with temporary.open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(to_json(record), ensure_ascii=False, allow_nan=False) + "\n")
            count += 1
    temporary.replace(path)
    return count
