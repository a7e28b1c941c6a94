"""Typed access to the fields of a row: what isn't as the schema says is an error with file, line and key."""

import ast
import json
from collections.abc import Iterator, Mapping
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.data_gen.pair_files import is_unicode

_LONGEST_LITERAL = 200_000


class Fields:
    """A row and ``where`` it is from."""

    def __init__(self, data: object, where: str) -> None:
        if not isinstance(data, Mapping):
            raise InputError(f"{where}: wanted a row with named fields, found {type(data).__name__}")
        self.data: Mapping[str, Any] = data
        self.where = where

    def has(self, name: str) -> bool:
        """Whether the field is there and isn't None."""
        return self.data.get(name) is not None

    def text(self, *names: str) -> str:
        """The first of these fields that is there: a text, or a number as text; blanks around it dropped."""
        value = self._first(names)
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            value = str(value)
        return self._checked(value, names[0]).strip()

    def optional(self, *names: str) -> str:
        """As ``text``; "" if none is there."""
        return self.text(*names) if any(map(self.has, names)) else ""

    def texts(self, *names: str) -> list[str]:
        """A list of texts; one written out as JSON or Python is read; a missing one is empty."""
        value = self.plain(*names) if any(map(self.has, names)) else []
        if not isinstance(value, (list, tuple)):
            raise self._wrong(names[0], "a list of texts", value)
        return [self._checked(item, names[0]) for item in value]

    def plain(self, *names: str) -> Any:
        """Any value; a text that spells a JSON value or a Python literal is read as that, never run."""
        value = self._first(names)
        return read_literal(value) if isinstance(value, str) else value

    def inner(self, name: str) -> "Fields":
        """A field that is a row itself."""
        return Fields(self.plain(name), f"{self.where}: {name}")

    def rows(self, name: str) -> Iterator["Fields"]:
        """A field that is a list of rows, or (as ``datasets`` stores it) a row of lists of one length."""
        value = self.plain(name)
        if isinstance(value, Mapping):
            value = self._turned(name, value)
        if not isinstance(value, (list, tuple)):
            raise self._wrong(name, "a list of rows", value)
        return (Fields(item, f"{self.where}: {name}[{index}]") for index, item in enumerate(value))

    def _turned(self, name: str, columns: Mapping[str, Any]) -> list[dict[str, Any]]:
        if any(not isinstance(column, (list, tuple)) for column in columns.values()):
            raise self._wrong(name, "a list of rows", columns)
        lengths = {len(column) for column in columns.values()}
        if len(lengths) > 1:
            raise self._wrong(name, "lists of one length", {key: len(column) for key, column in columns.items()})
        return [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]

    def _first(self, names: tuple[str, ...]) -> Any:
        found = next((self.data[name] for name in names if self.has(name)), None)
        if found is None:
            wanted = " or ".join(map(repr, names))
            raise InputError(f"{self.where}: wanted the field {wanted}, found {sorted(map(str, self.data))[:20]}")
        return found

    def _checked(self, value: Any, name: str) -> str:
        if not isinstance(value, str) or not is_unicode(value):
            raise self._wrong(name, "a text", value)
        return value

    def _wrong(self, name: str, wanted: str, value: object) -> InputError:
        return InputError(f"{self.where}: {name}: wanted {wanted}, found {str(value)[:80]!r}")


def read_literal(text: str) -> Any:
    """The value that ``text`` spells in JSON or as a Python literal; else the text."""
    if text[:1] not in "[{(" or len(text) > _LONGEST_LITERAL:
        return text
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        pass
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError, RecursionError, MemoryError, TypeError):
        return text
