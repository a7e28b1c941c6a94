"""The manifest of a finished stage: its existence is what "complete" means."""

import json
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


def changed_outputs(folder: Path, manifest: dict[str, Any]) -> list[str]:
    """Output files of a finished stage that are gone or whose size has changed since (a cheap look, no hashing)."""
    return [
        name
        for name, size in manifest["sizes"].items()
        if not (folder / name).is_file() or (folder / name).stat().st_size != size
    ]


def check_outputs(folder: Path, manifest: dict[str, Any]) -> None:
    """Raise InputError if output files are gone or have another size."""
    changed = changed_outputs(folder, manifest)
    if changed:
        raise InputError(
            f"{folder}: {len(changed)} of its files are gone or changed since it was made (first: {changed[0]});"
            " delete the folder and run its stage again"
        )
