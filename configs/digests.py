"""Digests of configs, files and finished stages: what a request's identity is made of."""

import dataclasses
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.manifest import MANIFEST, check_outputs, read_manifest
from tilewright.configs.manifest import digest_file as digest_file

LOGS = "logs"  # timings and progress: outside every digest, like a manifest's provenance


class MissingInputError(InputError, FileNotFoundError):
    """A stage's input isn't there."""


def canonical_json(value: Any) -> str:
    """One spelling per value: sorted keys, no spaces, dataclasses as mappings, paths as POSIX strings, no NaN."""
    return json.dumps(plain(value), sort_keys=True, ensure_ascii=False, separators=(",", ":"), allow_nan=False)


def plain(value: Any) -> Any:
    """JSON-able values: dataclasses as mappings, tuples as lists, paths as POSIX strings."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    if isinstance(value, Path):
        return value.as_posix()
    return value


def digest_text(text: str) -> str:
    """SHA-256 of UTF-8 text, 64 hex characters."""
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()


def output_files(folder: Path) -> dict[str, Path]:
    """{relative POSIX path: path} of the files below ``folder``, without manifest, logs/ and hidden entries."""
    files = {}
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder)
        hidden = relative.parts[0].startswith(".") or relative.parts[0] == LOGS or relative.as_posix() == MANIFEST
        if path.is_file() and not hidden:
            files[relative.as_posix()] = path
    return files


def output_digests(folder: Path) -> dict[str, str]:
    """{relative POSIX path: SHA-256} of ``output_files``."""
    return {name: digest_file(path) for name, path in output_files(folder).items()}


def digest_input(path: Path) -> str:
    """Digest of a stage input: a finished stage by its manifest, else the bytes of a file or of all a folder's files.

    Raises MissingInputError if ``path`` is missing (the message names an unfinished ``.partial`` if there is one),
    InputError if files of a finished stage are gone or changed.
    """
    manifest = read_manifest(path)
    if manifest is not None:
        check_outputs(path, manifest)
        return digest_text(canonical_json(manifest["outputs"]))
    if path.is_file():
        return digest_file(path)
    if path.is_dir():
        files = (item for item in sorted(path.rglob("*")) if item.is_file())
        return digest_text(canonical_json({item.relative_to(path).as_posix(): digest_file(item) for item in files}))
    for parent in (path, *path.parents):
        partial = parent.parent / f"{parent.name}.partial"
        if parent.name and partial.is_dir():
            raise MissingInputError(
                f"input {path} is missing: its stage is unfinished ({partial}); run that stage again"
            )
    raise MissingInputError(f"input {path} is missing: run the stage that writes it first")
