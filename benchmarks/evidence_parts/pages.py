"""Pages that the benchmarks of evidence take, and how they time what is done to them."""

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any


def best_ms(action: Callable[[], Any], runs: int) -> float:
    """CPU milliseconds of the fastest of ``runs`` runs."""
    taken = []
    for _ in range(runs):
        started = time.process_time()
        action()
        taken.append(time.process_time() - started)
    return 1000 * min(taken)


def pages_of(folder: Path, count: int) -> list[str]:
    """At most ``count`` HTML files of a folder, evenly spread over their sorted names."""
    paths = sorted(folder.rglob("*.html"))
    return [
        path.read_text(encoding="utf-8", errors="replace") for path in paths[:: max(1, len(paths) // count)][:count]
    ]
