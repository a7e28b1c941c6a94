"""A stage is a function over files: ``fn(config, inputs, out) -> counts``; ``run_stage`` makes it whole or nothing.

A config marks its input paths with ``input_path()``, what can't change a result with ``execution()``, and has a field
``out``. A request's identity is the rest, the digests of its inputs and the stage's schema version. Work happens in
``out.partial/``; ``manifest.json`` is written last and then the folder is renamed: a manifest means "complete".
"""

import dataclasses
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Generic, TypeVar

from safetensors import SafetensorError

from tilewright.configs.digests import LOGS, output_digests, output_files
from tilewright.configs.errors import UserError, said
from tilewright.configs.load import load
from tilewright.configs.locks import FolderBusyError, folder_lock
from tilewright.configs.manifest import MANIFEST, check_outputs
from tilewright.configs.manifest import read_manifest as read_manifest
from tilewright.configs.partial import StageError as StageError
from tilewright.configs.partial import claim, make_writable, remove_leftover
from tilewright.configs.partial import partial_of as partial_of
from tilewright.configs.partial import stored_request as stored_request
from tilewright.configs.partial import write_atomically as write_atomically
from tilewright.configs.provenance import cpu_seconds, provenance
from tilewright.configs.requests import another_request, identity_of, inputs_of, request_of
from tilewright.configs.requests import execution as execution
from tilewright.configs.requests import input_path as input_path

C = TypeVar("C")
Inputs = Mapping[str, Path]
Counts = dict[str, Any]
ERRORS = "errors.jsonl"
DRY_RUN = "--dry-run"
_CLAIM_TIMEOUT_S = 1800.0  # other ranks wait so long for rank 0, which hashes the inputs first
_PATIENCE_S = 2.0  # another process that holds the folder may be about to publish the same result


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


class DryRunError(StageError):
    """Ends a dry run of a stage; the message is what a run would ask for and cost, ``counts`` the numbers in it."""

    def __init__(self, message: str, counts: Mapping[str, Mapping[str, float]]) -> None:
        super().__init__(message)
        self.counts = counts


def rank_and_world() -> tuple[int, int]:
    """(rank, number of ranks) of this process, as torchrun and accelerate set them; (0, 1) without."""
    return int(os.environ.get("RANK", "0")), int(os.environ.get("WORLD_SIZE", "1"))


def run_stage(stage: Stage[C], config: C) -> dict[str, Any]:
    """Run ``stage`` unless its result is already there; return the manifest.

    Raises StageError if ``config.out`` holds another request (the message shows the difference), if it can't be
    written, or if another process is at work in it; MissingInputError for a missing input. With ``dry_run`` it
    raises StageError with the report, and leaves nothing behind.
    """
    if _is_dry(config):
        raise StageError(dry_run(stage, config))
    out: Path = config.out  # type: ignore[attr-defined]
    rank, world = rank_and_world()
    request = request_of(stage.name, stage.schema, config)
    stored = _stored_manifest(out, request)
    if stored is not None:
        if rank == 0 and os.access(out, os.W_OK):
            _tidy(out)
        return stored
    if rank != 0:
        return _follow_rank_0(stage, config, request)
    _check_apart(out, inputs_of(config))
    with ExitStack() as stack, _system_errors(stage.name, out):
        stored = _lock_or_result(stack, out, request)
        return _run_locked(stage, config, request, world) if stored is None else stored


def _lock_or_result(stack: ExitStack, out: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    """Lock the partial folder for the life of ``stack``; or the result that another process has just published.

    Raises FolderBusyError if another process is at work in it and doesn't finish within ``_PATIENCE_S``.
    """
    partial, deadline = partial_of(out), time.monotonic() + _PATIENCE_S
    while True:
        busy: Exception | None = None
        try:
            make_writable(partial)
            stack.enter_context(folder_lock(partial))
        except (FolderBusyError, StageError, FileNotFoundError) as error:  # the folder may be renamed at any moment
            busy = error
        stored = _stored_manifest(out, request)
        if stored is not None:
            remove_leftover(partial)
            return stored
        if busy is None and partial.is_dir():
            return None
        if isinstance(busy, StageError) or time.monotonic() > deadline:
            raise busy or FolderBusyError(f"{partial} vanished: is another process deleting it?")
        time.sleep(0.05)


def _run_locked(stage: Stage[C], config: C, request: dict[str, Any], world: int) -> dict[str, Any]:
    out: Path = config.out  # type: ignore[attr-defined]
    partial = partial_of(out)
    finished = read_manifest(partial)
    if finished is not None and finished["request"] == request:  # killed between the manifest and the renaming
        return _rename(partial, out, finished)
    claim(partial, request)
    (partial / LOGS / ERRORS).unlink(missing_ok=True)
    started, cpu_started = time.time(), cpu_seconds()
    counts = stage.run(config, inputs_of(config), partial)
    return _publish(stage, config, request, counts, provenance(started, cpu_started, world))


@contextmanager
def _system_errors(name: str, out: Path) -> Iterator[None]:
    """A full disk, a lost mount or a limit of the system ends a stage with one message; what is finished is kept."""
    try:
        yield
    except UserError:
        raise
    except (OSError, SafetensorError) as error:  # the latter's writer says a full disk in its own way
        reason = said(error) if isinstance(error, OSError) else str(error)
        raise StageError(
            f"{name}: {reason}. What is finished is kept in {partial_of(out)}: mend the cause and run the same"
            " command again"
        ) from error


def _check_apart(out: Path, inputs: Mapping[str, Any]) -> None:
    """Raise StageError if ``out`` lies in an input or holds one: a stage's output would change its own input."""
    place = out.resolve()
    for name, value in inputs.items():
        for path in value if isinstance(value, tuple) else (value,):
            if place.is_relative_to(path.resolve()) or path.resolve().is_relative_to(place):
                raise StageError(f"out ({out}) and the input {name} ({path}) lie in each other: choose another `out`")


def _stored_manifest(out: Path, request: dict[str, Any]) -> dict[str, Any] | None:
    if not out.exists():
        if out.is_symlink():
            raise StageError(f"{out} is a link to nothing ({out.readlink()}): delete it or choose another `out`")
        return None
    manifest = read_manifest(out)
    if manifest is None:
        if out.is_dir() and not out.is_symlink() and not any(out.iterdir()):
            return None
        raise StageError(f"{out} exists and is no finished stage: move it away or choose another `out`")
    if manifest["request"] != request:
        raise StageError(another_request(out, manifest["request"], request))
    check_outputs(out, manifest)
    return manifest


def _publish(
    stage: Stage[C], config: C, request: dict[str, Any], counts: Counts, facts: dict[str, Any]
) -> dict[str, Any]:
    """Write the manifest, then rename the folder into place: a kill before it resumes, a kill after it renames."""
    out: Path = config.out  # type: ignore[attr-defined]
    partial = partial_of(out)
    stats = {name: path.stat() for name, path in output_files(partial).items()}
    inputs = {"inputs": _relative_inputs(config, out)}
    manifest = {
        "identity": identity_of(request),
        "request": request,
        "counts": counts,
        "outputs": output_digests(partial),
        "sizes": {name: stat.st_size for name, stat in stats.items()},
        "provenance": facts | inputs | {"mtimes_ns": {n: s.st_mtime_ns for n, s in stats.items()}},
    }
    write_atomically(partial / MANIFEST, json.dumps(manifest, indent=1, ensure_ascii=False, allow_nan=False) + "\n")
    return _rename(partial, out, manifest)


def _rename(partial: Path, out: Path, manifest: dict[str, Any]) -> dict[str, Any]:
    """Put the finished folder into place, our lock in it, then delete the working files (hidden entries)."""
    if out.is_dir():
        out.rmdir()  # empty, else _stored_manifest had refused it
    partial.rename(out)
    _tidy(out)
    return manifest


def _tidy(out: Path) -> None:
    """Delete hidden entries; a later start repeats it if a kill cut it short, and may do so beside another."""
    for entry in out.iterdir():
        if entry.name.startswith("."):
            shutil.rmtree(entry, ignore_errors=True) if entry.is_dir() else entry.unlink(missing_ok=True)


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
        deadline = time.monotonic() + _CLAIM_TIMEOUT_S
        while stored_request(partial) != request and _stored_manifest(out, request) is None:
            if time.monotonic() > deadline:
                raise StageError(f"{stage.name}: rank 0 hasn't begun in {partial} within {_CLAIM_TIMEOUT_S:g} s")
            time.sleep(0.05)
        if _stored_manifest(out, request) is None:
            with _system_errors(stage.name, out):
                stage.run(config, inputs_of(config), partial)
    while (manifest := _stored_manifest(out, request)) is None:
        time.sleep(0.1)
    return manifest


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
    config = load(arguments[0], stage.config, [argument for argument in arguments[1:] if argument != DRY_RUN])
    if DRY_RUN in arguments or _is_dry(config):
        print(f"{stage.name}: {dry_run(stage, config)}")
        return
    manifest = run_stage(stage, config)
    if rank_and_world()[0] == 0:
        counts = {key: value for key, value in manifest["counts"].items() if not isinstance(value, (dict, list))}
        print(f"{stage.name}: {config.out} {json.dumps(counts, ensure_ascii=False)}")
        if stage.show is not None:
            stage.show(config.out)


def _is_dry(config: Any) -> bool:
    return any(getattr(asked, "dry_run", False) for asked in (config, getattr(config, "llm", None)))


def dry_run(stage: Stage[C], config: C) -> str:
    """What ``stage`` would ask its language model for, as text; nothing is asked and nothing stays on disk.

    A config whose models aren't under ``llm`` has ``as_dry_run(out)``. Raises StageError for one without a model.
    """
    llm: Any = getattr(config, "llm", None)
    own: Any = getattr(config, "as_dry_run", None)
    if llm is None and own is None:
        raise StageError(f"{DRY_RUN}: wanted a stage that asks a language model (`llm:` in its config)")
    with tempfile.TemporaryDirectory() as folder:
        changes = {} if llm is None else {"out": Path(folder), "llm": dataclasses.replace(llm, dry_run=True)}
        trial: C = own(Path(folder)) if own else dataclasses.replace(config, **changes)  # type: ignore[type-var]
        try:
            stage.run(trial, inputs_of(trial), Path(folder))
        except DryRunError as report:
            return str(report)
    return "has nothing to ask"


def main(stage: Stage[Any]) -> None:
    """``python -m tilewright.<package>.<module> CONFIG.yaml [key=value ...]`` for the module that holds ``stage``."""
    try:
        run_and_show(stage, sys.argv[1:])
    except UserError as error:
        raise SystemExit(f"{stage.name}: error: {error}") from None
    except OSError as error:
        raise SystemExit(f"{stage.name}: error: {said(error)}") from error
    except KeyboardInterrupt:
        print(f"\n{stage.name}: interrupted; the same command goes on where it was", file=sys.stderr)
        raise SystemExit(130) from None
