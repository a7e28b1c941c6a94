"""A stage is a function over files: ``fn(config, inputs, out) -> counts``; ``run_stage`` makes it whole or nothing.

A config marks its input paths with ``input_path()`` and has a field ``out``. A request's identity is its config
(without paths), the digests of its inputs and the stage's schema version. Work happens in ``out.partial/``;
``manifest.json`` is written last and then the folder is renamed, so that a manifest means "complete".
"""

import dataclasses
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, TypeVar

from tilewright.configs.digests import LOGS, MANIFEST, canonical_json, digest_input, digest_text, output_digests
from tilewright.configs.errors import UserError
from tilewright.configs.load import load
from tilewright.configs.locks import LOCK, folder_lock
from tilewright.configs.provenance import provenance

C = TypeVar("C")
Inputs = Mapping[str, Path]
Counts = dict[str, Any]
REQUEST = ".request.json"
_INPUT = {"tilewright_role": "input"}


class StageError(UserError, RuntimeError):
    """A stage that can't start or go on; the message says what to do."""


def input_path(**options: Any) -> Any:
    """A config field (Path, Path | None or a tuple of paths) whose content is part of the request's identity."""
    return field(metadata=_INPUT, **options)


@dataclass(frozen=True)
class Stage(Generic[C]):
    """A named stage. ``distributed`` stages run on every rank; others run on rank 0 while the rest wait.
    ``show(out)`` prints a finished result to the terminal.

    ``schema`` is raised when the meaning or layout of its output changes. The function may keep anything below
    ``out`` between tries (``out`` is the partial folder); entries that start with ``.`` are deleted at the end.
    """

    name: str
    config: type[C]
    run: Callable[[C, Inputs, Path], Counts]
    schema: int = 1
    distributed: bool = False
    show: Callable[[Path], None] | None = None


def rank_and_world() -> tuple[int, int]:
    """(rank, number of ranks) of this process, as torchrun and accelerate set them; (0, 1) without."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def request_of(stage: Stage[C], config: C) -> dict[str, Any]:
    """What a run of ``stage`` is identified by: stage, schema, config without paths, input digests."""
    settings, digests = {}, {}
    for entry in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, entry.name)
        if entry.metadata.get("tilewright_role") == "input":
            digests[entry.name] = _input_digest(value)
        elif entry.name != "out":
            settings[entry.name] = value
    return json.loads(  # type: ignore[no-any-return]
        canonical_json({"stage": stage.name, "schema": stage.schema, "config": settings, "inputs": digests})
    )


def _input_digest(value: Path | tuple[Path, ...] | None) -> Any:
    if value is None:
        return None
    return [digest_input(path) for path in value] if isinstance(value, tuple) else digest_input(value)


def inputs_of(config: Any) -> dict[str, Any]:
    """{field name: path or paths} of a config's inputs, without those left out."""
    fields = [entry for entry in dataclasses.fields(config) if entry.metadata.get("tilewright_role") == "input"]
    return {entry.name: getattr(config, entry.name) for entry in fields if getattr(config, entry.name) is not None}


def identity_of(request: Mapping[str, Any]) -> str:
    """The request's digest, 64 hex characters."""
    return digest_text(canonical_json(request))


def run_stage(stage: Stage[C], config: C) -> dict[str, Any]:
    """Run ``stage`` unless its result is already there; return the manifest.

    Raises StageError if ``config.out`` holds another request (the message shows the difference), if it can't be
    written, or if another process is at work in it; MissingInputError for a missing input.
    """
    out: Path = config.out  # type: ignore[attr-defined]
    rank, world = rank_and_world()
    request = request_of(stage, config)
    stored = _stored_manifest(out, request)
    if stored is not None:
        return stored
    if rank != 0:
        return _follow_rank_0(stage, config, request)
    partial = partial_of(out)
    _make_writable(partial)
    with folder_lock(partial):
        stored = _stored_manifest(out, request)
        if stored is not None:  # another process finished just now
            _remove_leftover(partial)
            return stored
        _claim(partial, request)
        started = time.time()
        counts = stage.run(config, inputs_of(config), partial)
        return _publish(stage, config, request, counts, started, world)


def partial_of(out: Path) -> Path:
    """Where an unfinished run of ``out`` works."""
    return out.with_name(out.name + ".partial")


def read_manifest(folder: Path) -> dict[str, Any] | None:
    """The manifest of a finished stage, None if there is none; ValueError if it can't be read."""
    path = folder / MANIFEST
    if not path.is_file():
        return None
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if not isinstance(manifest, dict) or not {"request", "outputs", "counts"} <= manifest.keys():
            raise ValueError("wanted request, outputs and counts")
    except ValueError as error:
        raise ValueError(f"{path}: not a stage manifest: {error}") from error
    return manifest


def _stored_manifest(out: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    if not out.exists():
        return None
    manifest = read_manifest(out)
    if manifest is None:
        if out.is_dir() and not any(out.iterdir()):
            return None
        raise StageError(f"{out} exists and is no finished stage: move it away or choose another `out`")
    if manifest["request"] != request:
        raise StageError(_another_request(out, manifest["request"], request))
    missing = [name for name in manifest["outputs"] if not (out / name).is_file()]
    if missing:
        raise StageError(f"{out}: {len(missing)} of its files are gone (first: {missing[0]}); delete the folder")
    return manifest


def _another_request(folder: Path, found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    lines = [f"  {key}: stored {old}, asked for {new}" for key, old, new in differences(found, wanted)]
    return "\n".join([f"{folder} holds another request:", *lines, "choose another `out`, or delete the folder"])


def differences(found: Any, wanted: Any, key: str = "") -> list[tuple[str, str, str]]:
    """Where two requests differ: (dotted key, stored, asked for)."""
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = sorted(found.keys() | wanted.keys())
        nested = [
            differences(found.get(name, "nothing"), wanted.get(name, "nothing"), f"{key}.{name}".strip("."))
            for name in keys
        ]
        return [row for rows in nested for row in rows]
    return [] if found == wanted else [(key, json.dumps(found), json.dumps(wanted))]


def _make_writable(partial: Path) -> None:
    try:
        partial.mkdir(parents=True, exist_ok=True)
        probe = partial / ".write-probe"
        probe.write_bytes(b"")
        probe.unlink()
    except OSError as error:
        raise StageError(f"{partial} can't be written ({error.strerror}): choose another `out`") from error


def _remove_leftover(partial: Path) -> None:
    """Delete a partial folder that holds nothing but our lock."""
    if partial.is_dir() and [entry.name for entry in partial.iterdir()] == [LOCK]:
        shutil.rmtree(partial)


def _claim(partial: Path, request: dict[str, Any]) -> None:
    """Record the request in a new partial folder, or check that an old one is ours."""
    path = partial / REQUEST
    if path.exists():
        found = json.loads(path.read_text(encoding="utf-8"))
        if found == request:
            return
        if _has_work(partial):
            raise StageError(_another_request(partial, found, request))
        path.unlink()  # it failed before anything was finished: the corrected request may have the folder
    strangers = [entry.name for entry in partial.iterdir() if not entry.name.startswith(".") and entry.name != LOGS]
    if strangers:
        raise StageError(
            f"{partial} holds files of no known request (first: {sorted(strangers)[0]}); delete the folder"
        )
    write_atomically(path, json.dumps(request, indent=1, ensure_ascii=False))


def _has_work(partial: Path) -> bool:
    """Whether a partial folder holds anything but its request, its lock, logs and empty files."""
    ours = {REQUEST, LOCK, LOGS}
    return any(
        path.is_file() and path.stat().st_size > 0
        for entry in partial.iterdir()
        if entry.name not in ours
        for path in (entry, *entry.rglob("*"))
    )


def _publish(
    stage: Stage[C], config: C, request: dict[str, Any], counts: Counts, started: float, world: int
) -> dict[str, Any]:
    """Delete working files, write the manifest last, rename the folder into place."""
    out: Path = config.out  # type: ignore[attr-defined]
    partial = partial_of(out)
    for entry in partial.iterdir():
        if entry.name.startswith("."):
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    manifest = {
        "identity": identity_of(request),
        "request": request,
        "counts": counts,
        "outputs": output_digests(partial),
        "provenance": provenance(started, world) | {"inputs": _relative_inputs(config, out)},
    }
    write_atomically(partial / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    if out.is_dir():
        out.rmdir()  # empty, else _stored_manifest had refused it
    partial.rename(out)
    return manifest


def _relative_inputs(config: Any, out: Path) -> dict[str, Any]:
    def relative(path: Path) -> str:
        return Path(os.path.relpath(path, out)).as_posix()

    return {
        name: [relative(path) for path in value] if isinstance(value, tuple) else relative(value)
        for name, value in inputs_of(config).items()
    }


def _follow_rank_0(stage: Stage[C], config: C, request: dict[str, Any]) -> dict[str, Any]:
    """Other ranks: work along in a distributed stage, then (or only) wait for the manifest that rank 0 publishes."""
    out: Path = config.out  # type: ignore[attr-defined]
    partial = partial_of(out)
    if stage.distributed:
        while not (partial / REQUEST).exists() and not out.exists():
            time.sleep(0.05)
        if not out.exists():
            stage.run(config, inputs_of(config), partial)
    while (manifest := _stored_manifest(out, request)) is None:
        time.sleep(0.1)
    return manifest


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` so that ``path`` holds either the old or the new content, whatever happens."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)


def log_path(out: Path) -> Path:
    """Where a stage keeps its progress (JSONL); no digest covers it."""
    return out / LOGS / "progress.jsonl"


def run_and_show(stage: Stage[Any], arguments: Sequence[str]) -> None:
    """Load the config named by ``arguments`` (CONFIG.yaml key=value ...), run the stage, print its counts."""
    if not arguments or arguments[0] in ("-h", "--help"):
        keys = [f"  {entry.name}: {entry.type}" for entry in dataclasses.fields(stage.config)]
        print(
            f"usage: tilewright {stage.name} CONFIG.yaml [key=value ...]\n\n{stage.config.__doc__}\n\nkeys:",
            *keys,
            sep="\n",
        )
        raise SystemExit(0 if arguments else 2)
    config = load(arguments[0], stage.config, arguments[1:])
    manifest = run_stage(stage, config)
    if rank_and_world()[0] == 0:
        counts = {key: value for key, value in manifest["counts"].items() if not isinstance(value, (dict, list))}
        print(f"{stage.name}: {config.out} {json.dumps(counts, ensure_ascii=False)}")
        if stage.show is not None:
            stage.show(config.out)


def main(stage: Stage[Any]) -> None:
    """``python -m tilewright.<package>.<module> CONFIG.yaml [key=value ...]`` for the module that holds ``stage``."""
    try:
        run_and_show(stage, sys.argv[1:])
    except UserError as error:
        raise SystemExit(f"{stage.name}: error: {error}") from None
