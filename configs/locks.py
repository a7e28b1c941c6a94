"""One process at a time in a folder: an flock that the kernel drops when its holder dies."""

import fcntl
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tilewright.configs.errors import UserError

LOCK = ".lock"


class FolderBusyError(UserError, RuntimeError):
    """Another living process holds the folder."""


@contextmanager
def folder_lock(folder: Path) -> Iterator[None]:
    """Hold ``folder/.lock`` while the block runs. Raises FolderBusyError at once if another process does."""
    with (folder / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise FolderBusyError(f"another process is running this stage in {folder}") from error
        yield
