"""The embedder checkpoints of an evaluation, by name: each is a row, and may bring the curve of its training."""

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.stage import execution

_NAME = re.compile(r"[a-z][a-z0-9_]*")  # it stands in names of files


@dataclass(frozen=True)
class Checkpoint:
    """``title``: what it is, for the report; ``folder``: of the embedder; ``run``: of the stage that trained it.

    What lies in the folders counts through the evaluation's inputs, where they lie doesn't.
    """

    title: str
    folder: Path = execution()
    run: Path | None = execution(default=None)


def check_names(checkpoints: Mapping[str, Checkpoint], taken: tuple[str, ...]) -> None:
    """Raise ValueError for a name that can't be a row's: one of ``taken``, or not lower case letters, digits and _."""
    for name in checkpoints:
        if name in taken or not _NAME.fullmatch(name):
            raise ValueError(
                f"checkpoints: wanted names of lower case letters, digits and _, and none of {list(taken)}, found"
                f" {name!r}"
            )


def folders_of(checkpoints: Mapping[str, Checkpoint]) -> tuple[Path, ...]:
    """Folder and, if there is one, training run of each, in the order of their names.

    So their digests are the same for any order in a file, and others if two folders are swapped.
    """
    named = (checkpoints[name] for name in sorted(checkpoints))
    return tuple(path for checkpoint in named for path in (checkpoint.folder, checkpoint.run) if path is not None)


def runs_of(checkpoints: Mapping[str, Checkpoint]) -> dict[str, Path]:
    """{name: folder of the training run} of those that have one."""
    return {name: checkpoint.run for name, checkpoint in checkpoints.items() if checkpoint.run is not None}
