"""The manifest of a finished stage: its existence is what "complete" means."""

import hashlib
import json
from functools import lru_cache
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError

MANIFEST = "manifest.json"
_KEYS = {"identity", "request", "counts", "outputs", "sizes", "provenance"}


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished stage; None if ``folder`` holds none, or some other program's manifest.json."""
    try:
        manifest = json.loads((folder / MANIFEST).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, ValueError):
        return None
    return manifest if isinstance(manifest, dict) and manifest.keys() >= _KEYS else None


def digest_file(path: Path) -> str:
    """SHA-256 of a file's bytes, streamed."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def changed_outputs(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Output files of a finished stage that are gone or changed since.

    Only a file whose time of change isn't the recorded one is read and hashed: a copied folder is still whole.
    """
    times = manifest["provenance"].get("mtimes_ns", {})
    return [
        name
        for name, size in manifest["sizes"].items()
        if _changed(folder / name, size, times.get(name), manifest, name)
    ]


def _changed(path: Path, size: int, mtime_ns: int | None, manifest: dict[str, Any], name: str) -> bool:
    if not path.is_file():
        return True
    found = path.stat()
    if found.st_size != size:
        return True
    return (
        found.st_mtime_ns != mtime_ns
        and _digest_as_of(path, found.st_ino, found.st_mtime_ns) != manifest["outputs"][name]
    )


@lru_cache(maxsize=65_536)
def _digest_as_of(path: Path, inode: int, mtime_ns: int) -> str:
    """The digest of a copied file; one start of a stage looks at its inputs several times."""
    return digest_file(path)


def check_outputs(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise InputError if output files are gone or changed."""
    changed = changed_outputs(folder, manifest)
    if changed:
        raise InputError(
            f"{folder}: {len(changed)} of its files are gone or changed since it was made (first: {changed[0]});"
            " delete the folder and run its stage again"
        )
