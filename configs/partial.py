"""The folder an unfinished run works in: claimed by one request, kept over a kill, given up if nothing was done."""

import json
import os
import shutil
from pathlib import Path
from typing import Any

from tilewright.configs.digests import LOGS
from tilewright.configs.errors import UserError
from tilewright.configs.locks import LOCK
from tilewright.configs.requests import another_request

REQUEST = ".request.json"


class StageError(UserError, RuntimeError):
    """A stage that can't start or go on; the message says what to do."""


def partial_of(out: Path) -> Path:
    """Where an unfinished run of ``out`` works."""
    return out.with_name(out.name + ".partial")


def make_writable(partial: Path) -> None:
    """Create the folder if needed and write into it once; StageError if that fails."""
    try:
        partial.mkdir(parents=True, exist_ok=True)
        probe = partial / f".write-probe-{os.getpid()}"
        probe.write_bytes(b"")
        probe.unlink(missing_ok=True)
    except OSError as error:
        raise StageError(f"{partial} can't be written ({error.strerror}): choose another `out`") from error


def remove_leftover(partial: Path) -> None:
    """Delete a partial folder that holds nothing but our lock."""
    if partial.is_dir() and [entry.name for entry in partial.iterdir()] == [LOCK]:
        shutil.rmtree(partial)


def stored_request(partial: Path) -> dict[str, Any] | None:
    """The request that claimed a partial folder; None without one. StageError if it can't be read."""
    path = partial / REQUEST
    try:
        request = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    except ValueError as error:
        raise StageError(f"{path}: not a stage request ({error}); delete the folder") from error
    if not isinstance(request, dict) or "stage" not in request:
        raise StageError(f"{path}: not a stage request; delete the folder")
    return request


def claim(partial: Path, request: dict[str, Any]) -> None:
    """Record the request in the folder, or check that the folder is ours.

    A request that failed before anything was done gives way. Raises StageError for another request's work and for
    files of no known origin.
    """
    found = stored_request(partial)
    if found == request:
        return
    if _has_work(partial):
        if found is not None:
            raise StageError(another_request(partial, found, request))
        raise StageError(f"{partial} holds files of no known request; delete or move the folder")
    for entry in partial.iterdir():
        if entry.name != LOCK:
            shutil.rmtree(entry) if entry.is_dir() else entry.unlink()
    write_atomically(partial / REQUEST, json.dumps(request, indent=1, ensure_ascii=False))


def _has_work(partial: Path) -> bool:
    """Whether a partial folder holds anything but its request, its lock, logs and empty files and folders."""
    return any(
        path.is_file() and path.stat().st_size > 0
        for entry in partial.iterdir()
        if entry.name not in {REQUEST, LOCK, LOGS}
        for path in (entry, *entry.rglob("*"))
    )


def reserve_space(path: Path) -> None:
    """Have the disk keep room for the whole file. OSError if it hasn't: writing to a mapped file would be a SIGBUS."""
    with path.open("r+b") as file:
        os.posix_fallocate(file.fileno(), 0, path.stat().st_size)


def write_atomically(path: Path, text: str) -> None:
    """Write ``text`` so that ``path`` holds either the old or the new content, whatever happens."""
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    with temporary.open("w", encoding="utf-8") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    temporary.replace(path)
