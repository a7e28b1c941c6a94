"""What a finished stage was made from, back to the first."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.errors import InputError
from tilewright.configs.manifest import read_manifest


@dataclass(frozen=True)
class Finished:
    """A finished stage: its folder, manifest, and the folders that it was made from.

    ``replaced``: names of inputs that are gone, or whose stage was run anew and holds something else there now.
    """

    folder: Path
    manifest: Mapping[str, Any]
    inputs: tuple[Path, ...]
    replaced: tuple[str, ...] = ()

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
    recorded = manifest["request"]["inputs"]
    inputs: list[Path] = []
    replaced: list[str] = []
    for name, value in manifest["provenance"].get("inputs", {}).items():
        places = [(folder / place).resolve() for place in (value if isinstance(value, list) else [value])]
        digests = recorded[name] if isinstance(value, list) else [recorded[name]]
        inputs += places
        replaced += [name] if any(map(_is_replaced, places, digests)) else []
    return Finished(folder, manifest, tuple(inputs), tuple(replaced))


def _is_replaced(place: Path, digest: str) -> bool:
    """Whether an input is gone, or is no longer what a stage made there; files of no stage aren't read again."""
    folder = _stage_folder(place)
    manifest = None if folder is None else read_manifest(folder)
    if folder is None or manifest is None:
        return not place.exists()
    name, outputs = place.relative_to(folder).as_posix(), manifest["outputs"]
    if name in outputs:
        return bool(outputs[name] != digest)
    below = {path.removeprefix(f"{name}/"): found for path, found in outputs.items() if path.startswith(f"{name}/")}
    found = outputs if place == folder else below
    return not place.exists() if not found else digest_text(canonical_json(found)) != digest


def _stage_folder(place: Path) -> Path | None:
    """The finished stage that ``place`` is or lies in."""
    return next((path for path in (place, *place.parents) if read_manifest(path) is not None), None)


def lineage(folders: Sequence[Path]) -> list[Finished]:
    """Every stage that these were made from, and they, each once, what is made from another after it."""
    found: dict[Path, Finished] = {}
    for folder in folders:
        _walk(folder.resolve(), found)
    return list(found.values())


def _walk(place: Path, found: dict[Path, Finished]) -> None:
    folder = _stage_folder(place)
    if folder is None or folder in found:
        return
    stage = finished(folder)
    for path in stage.inputs:
        if not path.is_relative_to(folder):
            _walk(path, found)
    found[folder] = stage
