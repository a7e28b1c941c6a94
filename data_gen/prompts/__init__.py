"""The shipped prompts: versioned template files, recorded by hash, and JSON schemas of the replies they ask for.

A template ``generate.v1.txt`` is never changed once it is released: another wording is ``generate.v2.txt``, so that a
manifest's name and hash say what was asked. Beside it, ``generate.v1.schema.json`` is for servers that can bind a
reply to a schema (strict mode: every key required, no other allowed); the parser is as strict without one.

In a template ``{{name}}`` stands for a value on one line and ``{{data:name}}`` for text from elsewhere (questions, page
text, titles), which goes between two marker lines that hold a digest of the text: no text can end its own block.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from typing import Any

from tilewright.configs.errors import InputError

_NAME = re.compile(r"(?P<name>[a-z][a-z_]*)(?:\.v(?P<version>[1-9][0-9]*))?")
_FILE = re.compile(r"(?P<name>[a-z][a-z_]*)\.v(?P<version>[1-9][0-9]*)\.txt")
_PLACE = re.compile(r"\{\{(?P<data>data:)?(?P<name>[a-z_]+)\}\}")


@dataclass(frozen=True)
class Prompt:
    """A template and what identifies it. ``sha256``: of the file's bytes, 64 hex; ``schema``: of the reply, if any."""

    name: str
    version: int
    text: str
    sha256: str
    schema: Mapping[str, Any] | None

    @property
    def identity(self) -> str:
        """Name, version and digest, for manifests: ``generate.v1@0123456789ab``."""
        return f"{self.name}.v{self.version}@{self.sha256[:12]}"

    @property
    def places(self) -> frozenset[str]:
        """The names of the values that ``fill`` wants."""
        return frozenset(place["name"] for place in _PLACE.finditer(self.text))

    def fill(self, **values: str) -> str:
        """The template with its values in place, in one pass: a value that looks like a place stays as it is.

        Raises ValueError if a value is missing or unknown, or if one that isn't data has a line break.
        """
        wanted = self.places
        if set(values) != wanted:
            missing, unknown = sorted(wanted - set(values)), sorted(set(values) - wanted)
            raise ValueError(
                f"prompt {self.name}.v{self.version}: wanted the values {sorted(wanted)}; missing: {missing},"
                f" unknown: {unknown}"
            )
        return _PLACE.sub(lambda place: self._value(place, values[place["name"]]), self.text)

    def _value(self, place: re.Match[str], value: str) -> str:
        if place["data"]:
            return data_block(place["name"], value)
        if value.splitlines() not in ([], [value]):
            raise ValueError(
                f"prompt {self.name}.v{self.version}: {place['name']} isn't data, so wanted it on one line; found"
                f" {value!r}"
            )
        return value


def data_block(name: str, text: str) -> str:
    """``text`` between two lines that name it and hold 16 hex digits of its own SHA-256."""
    mark = f"{name} {hashlib.sha256(text.encode('utf-8', 'surrogatepass')).hexdigest()[:16]}"
    return f"[BEGIN {mark}]\n{text}\n[END {mark}]"


def shipped_prompts() -> dict[str, list[int]]:
    """{name: its versions, oldest first} of the templates that ship with the package."""
    found: dict[str, list[int]] = {}
    for file in resources.files(__name__).iterdir():
        match = _FILE.fullmatch(file.name)
        if match is not None:
            found.setdefault(match["name"], []).append(int(match["version"]))
    return {name: sorted(versions) for name, versions in sorted(found.items())}


def check_prompt(setting: str, name: str, *kinds: str) -> None:
    """Raise ValueError unless ``name`` is a shipped version of one of ``kinds``.

    It is written out: a config pins what it asks. ``setting``: what the config calls it, for the message.
    """
    known = [f"{kind}.v{version}" for kind in kinds for version in shipped_prompts()[kind]]
    if name not in known:
        raise ValueError(f"{setting}: wanted one of {known}, found {name!r}")


def load_prompt(name: str) -> Prompt:
    """The shipped template ``generate.v1``, or the newest version of ``generate``. Raises InputError for others."""
    match = _NAME.fullmatch(name)
    versions = shipped_prompts().get(match["name"], []) if match else []
    version = int(match["version"]) if match and match["version"] else max(versions, default=0)
    if match is None or version not in versions:
        known = ", ".join(f"{known}.v{number}" for known, numbers in shipped_prompts().items() for number in numbers)
        raise InputError(f"prompt {name!r}: wanted one of {known}")
    folder = resources.files(__name__)
    data = (folder / f"{match['name']}.v{version}.txt").read_bytes()
    schema = folder / f"{match['name']}.v{version}.schema.json"
    return Prompt(
        name=match["name"],
        version=version,
        text=data.decode("utf-8"),
        sha256=hashlib.sha256(data).hexdigest(),
        schema=json.loads(schema.read_text(encoding="utf-8")) if schema.is_file() else None,
    )
