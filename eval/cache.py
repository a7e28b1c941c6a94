"""What rows have worked out, kept by content: a rerun with one row added computes that row alone.

A part is a folder with a journal; its name is a digest of all that determines its values (an encoder's hash, a
reader's settings), and its keys name what was asked by content. So nothing stale is ever found, and two runs, or two
rows of one, that ask the same thing ask it once.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

from tilewright.configs.digests import canonical_json, digest_text
from tilewright.configs.items import ItemError, process_items
from tilewright.configs.locks import folder_lock

T = TypeVar("T")


class Cache:
    """Parts below ``folder``. Hold ``locked`` while working: one process at a time writes a journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Make the folder and hold it. Raises FolderBusyError if another process does."""
        self.folder.mkdir(parents=True, exist_ok=True)
        with folder_lock(self.folder):
            yield

    def part(self, kind: str, *identity: Any) -> Path:
        """The folder of a part: of what ``kind``, and all that determines its values."""
        folder = self.folder / kind / digest_text(canonical_json(list(identity)))[:32]
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    def values(
        self,
        part: Path,
        name: str,
        items: Sequence[T],
        key: Callable[[T], str],
        work: Callable[[Sequence[T]], Iterable[tuple[T, Any | ItemError]]],
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """({key: value}, {key: error}) of ``items``, each key worked out once; failed ones are tried by the next run.

        At most the items in flight are lost to a kill. ``name`` stands beside the progress.
        """
        errors: dict[str, str] = {}
        distinct = list({key(item): item for item in items}.values())

        def noting(todo: Sequence[T]) -> Iterator[tuple[T, Any | ItemError]]:
            for item, value in work(todo):
                if isinstance(value, ItemError):
                    errors[key(item)] = str(value)
                yield item, value

        values = process_items(name, distinct, key, noting, part, max_error_share=1.0)  # rows say what is too much
        return values, errors

    def sizes(self) -> Mapping[str, int]:
        """Bytes on disk by kind of part, for the report's accounting."""
        return {
            kind.name: sum(path.stat().st_size for path in kind.rglob("*") if path.is_file())
            for kind in sorted(self.folder.iterdir() if self.folder.is_dir() else ())
            if kind.is_dir()
        }
