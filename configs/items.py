"""Work through the items of a stage: journalled, so resumable; failures are counted, too many stop the stage."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from tilewright.configs.digests import LOGS
from tilewright.configs.journal import Journal
from tilewright.configs.progress import Progress
from tilewright.configs.stage import ERRORS, StageError, log_path

T = TypeVar("T")
JOURNAL = ".journal.jsonl"


class ItemError(Exception):
    """This one item can't be used; the stage counts it and goes on."""


def process_items(
    name: str,
    items: Sequence[T],
    key: Callable[[T], str],
    work: Callable[[Sequence[T]], Iterable[tuple[T, Any | ItemError]]],
    out: Path,
    *,
    max_error_share: float = 0.0,
    finished: Callable[[T, Any], None] = lambda item, value: None,
    metrics: Callable[[], Mapping[str, float | int | str]] | None = None,
) -> dict[str, Any]:
    """Run ``work`` over the items that ``out``'s journal lacks; return {key: value} in the order of ``items``.

    ``work`` gets all unfinished items and yields (item, JSON-able value or ItemError) in any order, so it may
    overlap them. ``metrics()`` is asked about once a second for figures to show beside the progress.
    ``finished(item, value)`` is called for each item once it is journalled, also for those of earlier
    runs. Failed items are written to ``logs/errors.jsonl``, tried again by the next run, and absent from the
    result. Raises StageError if more than ``max_error_share`` of all items failed; finished ones stay journalled.
    """
    errors: dict[str, str] = {}
    with Journal(out / JOURNAL) as journal, Progress(name, len(items), log_path(out)) as progress:
        todo = [item for item in items if key(item) not in journal]
        progress.advance(len(items) - len(todo))
        for item in items:
            if key(item) in journal:
                finished(item, journal[key(item)])
        for item, value in work(todo):
            if isinstance(value, ItemError):
                errors[key(item)] = str(value)
            else:
                journal.append(key(item), value)
                finished(item, value)
            progress.advance(1, **(metrics() if metrics is not None and progress.is_due() else {}))
        _record_errors(name, out, errors)
        if len(errors) > max_error_share * len(items):
            first = next(iter(errors.items()))
            raise StageError(
                f"{name}: {len(errors)} of {len(items)} items failed, allowed share {max_error_share}; first:"
                f" {first[0]}: {first[1]}. All are in {out / LOGS / ERRORS}. Finished items are kept: fix the"
                " cause or raise max_error_share, then run the same command again"
            )
        return {key(item): journal[key(item)] for item in items if key(item) in journal}


def _record_errors(name: str, out: Path, errors: dict[str, str]) -> None:
    if errors:
        (out / LOGS).mkdir(exist_ok=True)
        with (out / LOGS / ERRORS).open("a", encoding="utf-8") as file:
            for item, error in errors.items():
                file.write(json.dumps({"stage": name, "key": item, "error": error}, ensure_ascii=False) + "\n")
