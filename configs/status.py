"""What stands in a folder of runs: complete, partial or stale stages."""

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tilewright.configs.digests import digest_input, output_digests
from tilewright.configs.errors import InputError
from tilewright.configs.items import JOURNAL
from tilewright.configs.manifest import changed_outputs, read_manifest
from tilewright.configs.stage import StageError, stored_request


@dataclass(frozen=True)
class StageStatus:
    """A stage folder, its state (complete, partial, stale, broken) and why."""

    folder: Path
    stage: str
    state: str
    why: str
    inputs: tuple[Path, ...] = ()


def status_of(folder: Path, *, verify: bool = False) -> list[StageStatus]:
    """The state of every stage folder at or below ``folder``, sorted by path; ``verify`` hashes all output files.

    stale: an input is gone, isn't what it was, or is itself a stage that is stale or broken. broken: output files are
    gone or changed.
    """
    found = {status.folder.resolve(): status for status in _walk(folder, verify)}
    changed = True
    while changed:
        changed = False
        for place, status in found.items():
            behind = _behind(status, found) if status.state == "complete" else None
            if behind is not None:
                why = f"made from {behind.folder.name}, which is {behind.state}"
                found[place], changed = dataclasses.replace(status, state="stale", why=why), True
    return sorted(found.values(), key=lambda status: status.folder)


def _behind(status: StageStatus, found: Mapping[Path, StageStatus]) -> StageStatus | None:
    """A stage that ``status`` was made from and that is stale or broken; None without one."""
    stages = (found.get(place) for path in status.inputs for place in (path, *path.parents))
    return next((stage for stage in stages if stage is not None and stage.state in ("stale", "broken")), None)


def _walk(folder: Path, verify: bool) -> Iterator[StageStatus]:
    manifest = read_manifest(folder)
    if manifest is not None:
        yield _finished(folder, manifest, verify)
    elif folder.name.endswith(".partial") and (partial := _partial(folder)) is not None:
        yield partial
    else:
        for child in folder.iterdir():
            if child.is_dir() and not child.is_symlink() and not child.name.startswith("."):
                yield from _walk(child, verify)


def _partial(folder: Path) -> StageStatus | None:
    try:
        request = stored_request(folder)
    except StageError as error:
        return StageStatus(folder, "", "broken", str(error))
    if request is None:
        return None
    journal = folder / JOURNAL
    done = journal.read_bytes().count(b"\n") if journal.is_file() else 0
    return StageStatus(folder, request["stage"], "partial", f"{done} items journalled; run its command again to go on")


def _finished(folder: Path, manifest: dict[str, Any], verify: bool) -> StageStatus:
    stage, recorded, paths = (
        manifest["request"]["stage"],
        manifest["request"]["inputs"],
        manifest["provenance"]["inputs"],
    )
    wrong = changed_outputs(folder, manifest)
    if verify and not wrong:
        found = output_digests(folder)
        wrong = sorted(name for name, digest in manifest["outputs"].items() if found.get(name) != digest)
    if wrong:
        return StageStatus(
            folder, stage, "broken", f"{len(wrong)} output files are gone or changed (first: {wrong[0]})"
        )
    changed = [name for name, path in paths.items() if _digest(folder, path) != recorded[name]]
    if changed:
        return StageStatus(folder, stage, "stale", f"changed since: {', '.join(changed)}")
    places = [path for value in paths.values() for path in (value if isinstance(value, list) else [value])]
    return StageStatus(folder, stage, "complete", "", tuple((folder / path).resolve() for path in places))


def _digest(folder: Path, path: str | list[str]) -> Any:
    if isinstance(path, list):
        return [_digest(folder, item) for item in path]
    try:
        return digest_input((folder / path).resolve())
    except InputError:
        return None
