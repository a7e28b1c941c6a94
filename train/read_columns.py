"""JSONL files of flat records as Arrow columns: as strict as ``read_jsonl``, many times as fast."""

import dataclasses
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import iterate_jsonl

_BLOCK_BYTES = 4 << 20
_KINDS = {str: pa.large_string(), tuple[str, ...]: pa.list_(pa.large_string())}


def read_columns(path: Path, kind: type) -> pa.Table:
    """All records of a JSONL file as a table: one a row in the order of lines, one chunk a column, nothing null.

    The fields of ``kind`` have type str or tuple[str, ...]; only a tuple may have a default, the empty one. Raises
    InputError, with file and line, for what ``read_jsonl`` refuses and for text that is no Unicode, and if there is no
    such file.
    """
    if not path.is_file():
        raise InputError(f"{path} is missing: wanted a JSONL file of {kind.__name__} records")
    hints = typing.get_type_hints(kind)
    schema = pa.schema([pa.field(field.name, _KINDS[hints[field.name]]) for field in dataclasses.fields(kind)])
    table = _by_arrow(path, schema)
    if table is None:  # something is wrong, or said in an unusual way: line by line, which tells where
        table = _line_by_line(path, schema, kind)
    return table.combine_chunks()


def column_of(table: pa.Table, name: str) -> pa.Array:
    """A column as one array."""
    column = table.column(name)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _by_arrow(path: Path, schema: pa.Schema) -> pa.Table | None:
    """The table by Arrow's parser; None for a file that Python's might refuse, or read in another way."""
    with path.open("rb") as file:
        if file.read(1) != b"{":  # Arrow crashes on a file whose lines are all null
            return None
    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="error")
    try:
        table = pyarrow.json.read_json(
            path, read_options=pyarrow.json.ReadOptions(block_size=_BLOCK_BYTES), parse_options=options
        )
        table.validate(full=True)
    except (pa.ArrowException, ValueError):
        return None
    lines, ends_open = 0, False
    for block in _blocks(path):
        lines += block.count(b"\n")
        ends_open = not block.endswith(b"\n")
    if len(table) != lines + ends_open:  # an empty line, or two records on one
        return None
    columns = [_without_nulls(path, table.column(field.name)) for field in schema]
    return None if None in columns else pa.table(columns, schema=schema)


def _without_nulls(path: Path, column: pa.ChunkedArray) -> pa.ChunkedArray | None:
    """``column`` with [] for lists that are missing; None if another value is missing, or one may be spelled null."""
    if not pa.types.is_list(column.type):
        return None if column.null_count else column
    if any(chunk.flatten().null_count for chunk in column.chunks):
        return None
    if not column.null_count:
        return column
    return (
        None if any(b"null" in block for block in _blocks(path)) else pc.fill_null(column, pa.scalar([], column.type))
    )


def _blocks(path: Path) -> Iterator[bytes]:
    """The bytes of a file, up to the end of a line and a few MiB at once."""
    with path.open("rb") as file:
        while block := file.read(_BLOCK_BYTES):
            yield block + file.readline()


def _line_by_line(path: Path, schema: pa.Schema, kind: type[Any]) -> pa.Table:
    values: dict[str, list[Any]] = {name: [] for name in schema.names}
    for number, record in enumerate(iterate_jsonl(path, kind), start=1):
        for name, column in values.items():
            value = getattr(record, name)
            _check_unicode(value, f"{path}:{number}: {name}")
            column.append(value)
    return pa.table({name: pa.array(values[name], schema.field(name).type) for name in schema.names}, schema=schema)


def _check_unicode(value: str | tuple[str, ...], where: str) -> None:
    try:
        "".join(value).encode()
    except UnicodeEncodeError as error:
        raise InputError(f"{where}: wanted Unicode text, found half of a surrogate pair in {value!r}") from error
