"""Around a training loop: stop on SIGTERM after the step at hand, time the steps, set and restore torch's threads."""

import signal
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import torch

from tilewright.configs.errors import InputError

MOST_THREADS = 1024


@dataclass
class StopRequest:
    """Whether SIGTERM has come."""

    requested: bool = False


@contextmanager
def stop_on_sigterm() -> Iterator[StopRequest]:
    """Within, SIGTERM only sets ``requested``; the loop saves and exits. Outside the main thread nothing changes."""
    stop = StopRequest()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return

    def request(_signal: int, _frame: FrameType | None) -> None:
        stop.requested = True

    before = signal.signal(signal.SIGTERM, request)
    try:
        yield stop
    finally:
        signal.signal(signal.SIGTERM, before)


@contextmanager
def torch_threads(count: int | None) -> Iterator[None]:
    """Let torch use ``count`` threads within (None: as many as before).

    Raises InputError for more than MOST_THREADS: the system ends a process that can't start them all.
    """
    if count is not None and count > MOST_THREADS:
        raise InputError(f"threads: wanted at most {MOST_THREADS}, or null, found {count}")
    before = torch.get_num_threads()
    torch.set_num_threads(before if count is None else count)
    try:
        yield
    finally:
        torch.set_num_threads(before)


class Stopwatch:
    """Rates of a loop's steps; ``wait_s`` tells the seconds waited for data so far."""

    def __init__(self, wait_s: Callable[[], float]) -> None:
        self._wait_s = wait_s
        self._total_s = self._total_wait_s = 0.0
        self.restart()

    def restart(self) -> None:
        """A step begins."""
        self._started, self._waited = time.perf_counter(), self._wait_s()

    def lap(self, samples: int, visual_tokens: int) -> dict[str, float]:
        """samples_per_s, visual_tokens_per_s (of this rank) and data_wait_share of the step that ends now."""
        seconds = max(time.perf_counter() - self._started, 1e-9)
        waited = self._wait_s() - self._waited
        self._total_s += seconds
        self._total_wait_s += waited
        return {
            "samples_per_s": round(samples / seconds, 3),
            "visual_tokens_per_s": round(visual_tokens / seconds, 1),
            "data_wait_share": round(waited / seconds, 4),
        }

    @property
    def data_wait_share(self) -> float:
        """The share of all laps that was spent waiting for data."""
        return self._total_wait_s / self._total_s if self._total_s else 0.0
