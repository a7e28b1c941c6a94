"""What stands in a folder of runs: complete, partial or stale stages."""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.digests import MANIFEST, MissingInputError, digest_input
from tilewright.configs.stage import REQUEST, read_manifest


@dataclass(frozen=True)
class StageStatus:
    """A stage folder, its state (complete, partial, stale, broken) and why."""

    folder: Path
    stage: str
    state: str
    why: str


def status_of(folder: Path) -> list[StageStatus]:
    """The state of every stage folder at or below ``folder``, sorted by path."""
    return sorted(_walk(folder), key=lambda status: status.folder)


def _walk(folder: Path) -> Iterator[StageStatus]:
    if (folder / MANIFEST).is_file():
        yield _finished(folder)
    elif folder.name.endswith(".partial") and (folder / REQUEST).is_file():
        done = sum(1 for _ in (folder / ".journal.jsonl").open("rb")) if (folder / ".journal.jsonl").is_file() else 0
        yield StageStatus(folder, "", "partial", f"{done} items journalled; run its command again to go on")
    elif folder.is_dir():
        for child in folder.iterdir():
            if child.is_dir() and not child.name.startswith("."):
                yield from _walk(child)


def _finished(folder: Path) -> StageStatus:
    try:
        manifest = read_manifest(folder)
        assert manifest is not None
        stage, recorded, paths = (
            manifest["request"]["stage"],
            manifest["request"]["inputs"],
            manifest["provenance"]["inputs"],
        )
    except (ValueError, KeyError) as error:
        return StageStatus(folder, "", "broken", str(error))
    missing = [name for name in manifest["outputs"] if not (folder / name).is_file()]
    if missing:
        return StageStatus(folder, stage, "broken", f"{len(missing)} output files are gone (first: {missing[0]})")
    changed = [name for name, path in paths.items() if _digest(folder, path) != recorded[name]]
    if changed:
        return StageStatus(folder, stage, "stale", f"changed since: {', '.join(changed)}")
    return StageStatus(folder, stage, "complete", "")


def _digest(folder: Path, path: str | list[str]) -> Any:
    if isinstance(path, list):
        return [_digest(folder, item) for item in path]
    try:
        return digest_input((folder / path).resolve())
    except MissingInputError:
        return None
