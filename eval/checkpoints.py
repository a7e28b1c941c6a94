"""The checkpoints of an evaluation, embedders and readers by name; each may bring the curve of its training."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tilewright.configs.stage import execution

_NAME = re.compile(r"[a-z0-9][a-z0-9_]*")  # it stands in names of files


@dataclass(frozen=True)
class Checkpoint:
    """``title``: what it is, for the report; ``folder``: of the model; ``run``: of the stage that trained it.

    ``index``: of a build_index stage over all the tiles, in place of a rebuilt one; one of another encoder is refused.
    ``adapter``: of a reader: what train_reader trained on ``folder``, merged when it is loaded.

    What lies in the folders counts through the evaluation's inputs, where they lie doesn't.
    """

    title: str
    folder: Path = execution()
    run: Path | None = execution(default=None)
    index: Path | None = execution(default=None)
    adapter: Path | None = execution(default=None)


def check_names(what: str, names: Sequence[str], taken: tuple[str, ...]) -> None:
    """Raise ValueError for a name that can't be part of a row's: one of ``taken``, or not lower case letters, digits
    and _. ``what``: the config's key, for messages."""
    for name in names:
        if name in taken or not _NAME.fullmatch(name):
            raise ValueError(
                f"{what}: wanted names of lower case letters, digits and _, and none of {list(taken)}, found {name!r}"
            )


def folders_of(checkpoints: Mapping[str, Checkpoint]) -> tuple[Path, ...]:
    """Folder and, where there are any, training run, index and adapter of each, in the order of their names.

    So their digests are the same for any order in a file, and others if two folders are swapped.
    """
    named = (checkpoints[name] for name in sorted(checkpoints))
    paths = (path for one in named for path in (one.folder, one.run, one.index, one.adapter))
    return tuple(path for path in paths if path is not None)


def runs_of(checkpoints: Mapping[str, Checkpoint]) -> dict[str, Path]:
    """{name: folder of the training run} of those that have one."""
    return {name: checkpoint.run for name, checkpoint in checkpoints.items() if checkpoint.run is not None}
