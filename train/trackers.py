"""Experiment trackers through accelerate: what the curve holds goes to TensorBoard, W&B or trackio as well."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

from tilewright.configs.errors import InputError

Tracker = Literal["tensorboard", "wandb", "trackio"]
PROJECT = "tilewright"


class Trackers:
    """Open trackers of one run; ``log`` sends numbers to each."""

    def __init__(self, opened: Sequence[Any]) -> None:
        self._opened = opened

    def log(self, values: Mapping[str, float], step: int) -> None:
        """``values`` by name, at ``step``."""
        for tracker in self._opened:
            tracker.log(dict(values), step=step)


@contextmanager
def open_trackers(
    names: Sequence[Tracker], folder: Path, config: Mapping[str, Any], *, quiet: bool = False
) -> Iterator[Trackers]:
    """The trackers called ``names``, told the run's ``config``, closed at the end; none on ranks that are ``quiet``.

    TensorBoard's files go below ``folder``; the others keep theirs as their environment variables say. Raises
    InputError for one that isn't installed.
    """
    opened: list[Any] = []
    try:
        for name in () if quiet else names:
            opened.append(_start(name, folder, config))
        yield Trackers(opened)
    finally:
        for tracker in opened:
            tracker.finish()


def _start(name: Tracker, folder: Path, config: Mapping[str, Any]) -> Any:
    from accelerate import PartialState
    from accelerate.tracking import LOGGER_TYPE_TO_CLASS

    PartialState()  # trackers ask it which process is the main one
    kind = LOGGER_TYPE_TO_CLASS[name]
    folder.mkdir(parents=True, exist_ok=True)
    tracker = kind(PROJECT, folder) if kind.requires_logging_directory else kind(PROJECT)
    try:
        tracker.start()
    except ImportError as error:
        raise InputError(f"trackers: {name} isn't installed ({error}): pip install {name}, or leave it out") from error
    tracker.store_init_configuration(dict(flat(config)))
    return tracker


def flat(config: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, bool | int | float | str]]:
    """(dotted key, value) of nested settings; what is no number or truth value becomes text."""
    for name, value in config.items():
        if isinstance(value, Mapping):
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield f"{prefix}{name}", value if isinstance(value, bool | int | float | str) else str(value)
