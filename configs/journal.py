"""An append-only journal: one JSON line per finished item, so that a killed stage goes on where it was."""

import json
import os
from collections.abc import Iterator
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from tilewright.configs.errors import InputError


class Journal:
    """Values of finished items by key. Opening it cuts off a last line that a kill left torn.

    ``journal[key]`` and ``key in journal`` read; ``append(key, value)`` writes one flushed line. A key is appended
    once: a second time raises ValueError. A torn or foreign line that isn't the last raises InputError.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._values: dict[str, Any] = {}
        if path.exists():
            self._read()
        self._file = path.open("ab")

    def _read(self) -> None:
        """Fill the values; truncate the file after its last whole line."""
        whole = 0
        with self.path.open("rb") as file:
            for number, line in enumerate(file, start=1):
                if not line.endswith(b"\n"):
                    break  # torn by a kill: that item runs again
                try:
                    entry = json.loads(line)
                    self._values[entry["key"]] = entry["value"]
                except (ValueError, KeyError, TypeError) as error:
                    raise InputError(
                        f"{self.path}:{number}: not a journal line ({error}); delete the folder"
                    ) from error
                whole += len(line)
        os.truncate(self.path, whole)

    def append(self, key: str, value: Any) -> None:
        """Record that ``key`` is finished with the JSON-able ``value``."""
        if key in self._values:
            raise ValueError(f"{self.path}: item {key!r} is already finished; keys must be unique")
        line = json.dumps({"key": key, "value": value}, ensure_ascii=False, allow_nan=False) + "\n"
        self._file.write(line.encode("utf-8", "surrogatepass"))
        self._file.flush()
        self._values[key] = value

    def __contains__(self, key: str) -> bool:
        return key in self._values

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def close(self) -> None:
        """Close the file; the values stay readable."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
