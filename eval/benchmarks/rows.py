"""The rows of a benchmark's files: JSON lines, JSON, CSV, TSV, Parquet, each also gzipped, and folders of ``datasets``.

Only ``read_hub`` fetches anything.
"""

import csv
import gzip
import io
import itertools
import json
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.eval.benchmarks.fields import Fields

ID = "sample_id"  # where the key of {id: row} is put, if the row has no such field


@dataclass(frozen=True)
class HubSource:
    """A data set that ``datasets`` loads: ``name`` on the hub or a local folder, ``split``, the pinned ``revision``."""

    name: str
    split: str
    revision: str
    config: str | None = None


def read_hub(source: HubSource) -> Iterator[Fields]:
    """All rows of the split, streamed. Raises InputError for one that can't be loaded, or without a row."""
    import datasets

    try:
        found = datasets.load_dataset(
            source.name, source.config, split=source.split, revision=source.revision, streaming=True
        )
        rows = _encoded_rows(found, source.name)
        first = next(rows, None)
    except (OSError, ValueError) as error:
        raise InputError(f"hub: {source.name} at {source.revision} can't be loaded ({error})") from error
    if first is None:
        raise InputError(f"hub: {source.name}: wanted at least one row in {source.split}, found none")
    return itertools.chain([first], rows)


def read_rows(paths: Sequence[Path], split: str | None) -> Iterator[Fields]:
    """All rows of the files, in their order.

    ``split``: which member of a JSON object of lists or of a folder of several splits. Raises InputError, with file and
    line or row, for what can't be read, for a missing or needless split, and for files without a row.
    """
    rows = itertools.chain.from_iterable(_of_path(path, split) for path in paths)
    first = next(rows, None)
    if first is None:
        raise InputError(f"{', '.join(map(str, paths))}: wanted at least one row, found none")
    return itertools.chain([first], rows)


def _of_path(path: Path, split: str | None) -> Iterator[Fields]:
    if path.is_dir():
        return _of_dataset(path, split)
    kind = path.name.removesuffix(".gz").rpartition(".")[2].lower()
    if kind == "json":
        return _of_json(path, split)
    if split is not None:
        raise InputError(f"split: wanted with a JSON object or a folder of datasets, found {split!r} and {path.name}")
    readers: Mapping[str, Callable[[Path], Iterator[Fields]]] = {
        "jsonl": _of_json_lines,
        "csv": lambda path: _of_table(path, ","),
        "tsv": lambda path: _of_table(path, "\t"),
        "parquet": _of_parquet,
    }
    if kind not in readers:
        raise InputError(f"{path}: wanted a file that ends in .json, .{', .'.join(readers)} (or .gz), or a folder")
    return readers[kind](path)


def _text(path: Path) -> io.TextIOWrapper:
    """The file as UTF-8 text, without a byte-order mark, unpacked if its name ends in .gz."""
    try:
        data = gzip.open(path) if path.name.endswith(".gz") else path.open("rb")  # noqa: SIM115 (the wrapper closes it)
    except OSError as error:
        raise InputError(f"{path}: wanted a file ({error.strerror})") from error
    return io.TextIOWrapper(data, encoding="utf-8-sig", newline="")  # type: ignore[arg-type]


def _of_json_lines(path: Path) -> Iterator[Fields]:
    with _text(path) as file:
        for number, line in _read(path, enumerate(file, start=1)):
            if line.strip():
                yield Fields(_json(line, f"{path}:{number}"), f"{path}:{number}")


def _read(path: Path, lines: Iterator[Any]) -> Iterator[Any]:
    """``lines``, with what can go wrong in reading them told by file."""
    while True:
        try:
            line = next(lines, None)
        except (UnicodeDecodeError, csv.Error, OSError, EOFError, zlib.error) as error:
            raise InputError(f"{path}: can't be read: {error}") from error
        if line is None:
            return
        yield line


def _json(text: str, where: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise InputError(f"{where}: not JSON ({error})") from error


def _of_json(path: Path, split: str | None) -> Iterator[Fields]:
    with _text(path) as file:
        value = _json("".join(_read(path, iter(lambda: file.read(1 << 20) or None, None))), str(path))
    rows = _split_of(value, split, path)
    if isinstance(rows, Mapping):
        rows = [{ID: key} | row if isinstance(row, dict) else row for key, row in rows.items()]
    if not isinstance(rows, list):
        raise InputError(f"{path}: wanted a list of rows or an object {{id: row}}, found {type(rows).__name__}")
    return (Fields(row, f"{path}[{index}]") for index, row in enumerate(rows))


def _split_of(value: Any, split: str | None, path: Path) -> Any:
    if split is not None:
        if not isinstance(value, Mapping) or split not in value:
            found = sorted(map(str, value))[:10] if isinstance(value, Mapping) else type(value).__name__
            raise InputError(f"{path}: wanted the split {split!r}, found {found}")
        return value[split]
    if isinstance(value, Mapping) and not all(_is_row(member) for member in value.values()):
        raise InputError(f"{path}: wanted `split`, one of {sorted(map(str, value))[:10]}, found none")
    return value


def _is_row(value: Any) -> bool:
    """Whether the member of an object is a row, not a split: a split holds rows only."""
    return isinstance(value, Mapping) and not (value and all(isinstance(member, Mapping) for member in value.values()))


def _of_table(path: Path, delimiter: str) -> Iterator[Fields]:
    with _text(path) as file:
        reader = csv.DictReader(file, delimiter=delimiter, strict=True)
        for row in _read(path, reader):
            where = f"{path}:{reader.line_num}"
            if None in row or None in row.values():
                wanted = len(reader.fieldnames or ())
                raise InputError(f"{where}: wanted {wanted} columns, found {'more' if None in row else 'fewer'}")
            yield Fields(row, where)


def _of_parquet(path: Path) -> Iterator[Fields]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    number = itertools.count()
    try:
        with pq.ParquetFile(path) as file:
            for batch in file.iter_batches(batch_size=64):
                for row in batch.to_pylist():
                    yield Fields(row, f"{path}[{next(number)}]")
    except (pa.ArrowException, OSError) as error:
        raise InputError(f"{path}: wanted a Parquet file ({error})") from error


def _of_dataset(path: Path, split: str | None) -> Iterator[Fields]:
    """Rows of a folder of ``save_to_disk``; pictures stay encoded."""
    import datasets

    try:
        found = datasets.load_from_disk(str(path))
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: wanted a folder that datasets' save_to_disk wrote ({error})") from error
    if isinstance(found, datasets.DatasetDict):
        if split not in found:
            raise InputError(f"{path}: wanted `split`, one of {sorted(found)}, found {split!r}")
        found = found[split]
    elif split is not None:
        raise InputError(f"{path}: holds one split, wanted no `split`, found {split!r}")
    return _encoded_rows(found, str(path))


def _encoded_rows(found: Any, where: str) -> Iterator[Fields]:
    """The rows of a data set, pictures as encoded bytes."""
    import datasets

    for name, feature in (found.features or {}).items():
        if isinstance(feature, datasets.Image):
            found = found.cast_column(name, datasets.Image(decode=False))
    return (Fields(row, f"{where}[{index}]") for index, row in enumerate(found))
