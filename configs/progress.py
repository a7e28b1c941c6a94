"""Progress of a stage: a rich bar on a terminal, a plain line every so often elsewhere, a JSONL file always."""

import json
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as RichProgress

PLAIN_EVERY_S = 10.0
LOG_EVERY_S = 1.0


class Progress:
    """Counts ``total`` items of a stage called ``name`` and keeps ``log_path`` (JSONL) up to date.

    On ranks other than 0 pass ``quiet=True``: nothing is printed or written.
    """

    def __init__(self, name: str, total: int | None, log_path: Path | None = None, *, quiet: bool = False) -> None:
        self.name, self.total, self.done, self.quiet = name, total, 0, quiet
        self._started = self._printed = self._logged = time.monotonic()
        self._note = ""
        self._log = None
        if log_path is not None and not quiet:
            log_path.parent.mkdir(parents=True, exist_ok=True)
            self._log = log_path.open("a", encoding="utf-8")
        console = Console(stderr=True)
        self._bar = None
        if console.is_terminal and not quiet:
            columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
            self._bar = RichProgress(*columns, TextColumn("{task.fields[note]}"), console=console)
            self._task = self._bar.add_task(name, total=total, note="")
            self._bar.start()

    def is_due(self) -> bool:
        """Whether it is time for metrics: the log has had no line for LOG_EVERY_S, or the next item is the last."""
        return time.monotonic() - self._logged >= LOG_EVERY_S or self.done + 1 == self.total

    def advance(self, count: int = 1, **metrics: float | int | str) -> None:
        """``count`` more items are done; ``metrics`` go into the JSONL file and behind the bar."""
        self.done += count
        if self.quiet:
            return
        self._note = "  ".join(f"{key} {_short(value)}" for key, value in metrics.items()) or self._note
        now = time.monotonic()
        if metrics or now - self._logged >= LOG_EVERY_S or self.done == self.total:
            self.log(**metrics)
        if self._bar is not None:
            self._bar.update(self._task, completed=self.done, note=self._note)
        elif now - self._printed >= PLAIN_EVERY_S:
            self._printed = now
            self._print_line(now)

    def log(self, **metrics: float | int | str) -> None:
        """Write one JSONL line: items done and in all, seconds since the start, and ``metrics``."""
        if self._log is not None:
            self._logged = time.monotonic()
            elapsed_s = round(time.monotonic() - self._started, 3)
            entry = {"stage": self.name, "step": self.done, "total": self.total, "elapsed_s": elapsed_s}
            self._log.write(json.dumps(entry | metrics, ensure_ascii=False) + "\n")
            self._log.flush()

    def _print_line(self, now: float) -> None:
        of_total = f"/{self.total}" if self.total is not None else ""
        rate = self.done / max(now - self._started, 1e-9)
        print(f"{self.name}: {self.done}{of_total} ({rate:.1f}/s) {self._note}".rstrip(), file=sys.stderr, flush=True)

    def close(self) -> None:
        """Stop the bar and close the file."""
        if self._bar is not None:
            self._bar.stop()
        if self._log is not None:
            self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def _short(value: float | int | str) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value)
