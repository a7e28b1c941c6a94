"""What a finished stage was made from, back to the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.configs.manifest import read_manifest


@dataclass(frozen=True)
class Finished:
    """A finished stage: its folder, manifest, and the folders that it was made from."""

    folder: Path
    manifest: Mapping[str, Any]
    inputs: tuple[Path, ...]

    @property
    def stage(self) -> str:
        return str(self.manifest["request"]["stage"])

    @property
    def identity(self) -> str:
        return str(self.manifest["identity"])


def finished(folder: Path) -> Finished:
    """The stage in ``folder``. Raises InputError if there is none."""
    manifest = read_manifest(folder)
    if manifest is None:
        raise InputError(f"{folder}: wanted the folder of a finished stage, found no manifest of one")
    named = manifest["provenance"].get("inputs", {}).values()
    places = [place for value in named for place in (value if isinstance(value, list) else [value])]
    return Finished(folder, manifest, tuple((folder / place).resolve() for place in places))


def lineage(folders: Sequence[Path]) -> list[Finished]:
    """Every stage that these were made from, and they, each once, what is made from another after it."""
    found: dict[Path, Finished] = {}
    for folder in folders:
        _walk(folder.resolve(), found)
    return list(found.values())


def _walk(place: Path, found: dict[Path, Finished]) -> None:
    folder = next((path for path in (place, *place.parents) if read_manifest(path) is not None), None)
    if folder is None or folder in found:
        return
    stage = finished(folder)
    for path in stage.inputs:
        if not path.is_relative_to(folder):
            _walk(path, found)
    found[folder] = stage
