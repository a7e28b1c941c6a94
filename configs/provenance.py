"""Where a result came from: versions, commit, machine, time. Never part of a comparison."""

import importlib.metadata
import platform
import resource
import subprocess
import time
from pathlib import Path
from typing import Any

from tilewright import __version__

PACKAGES = ("torch", "transformers", "peft", "accelerate", "datasets", "pillow", "numpy", "faiss-cpu", "playwright")


def cpu_seconds() -> float:
    """User and system seconds of this process and of its children that have ended."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def provenance(started: float, cpu_started: float, world: int) -> dict[str, Any]:
    """Facts about this process; ``started`` is a Unix time in seconds, ``world`` the number of ranks.

    ``cpu_started``: ``cpu_seconds`` at that time. Of a stage that was interrupted, both times are of its last try.
    """
    return {
        "tilewright": __version__,
        "commit": _commit(),
        "python": platform.python_version(),
        "platform": platform.platform(),
        "packages": {name: version for name in PACKAGES if (version := _version(name))},
        "ranks": world,
        "started": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(started)),
        "seconds": round(time.time() - started, 3),
        "cpu_seconds": round(cpu_seconds() - cpu_started, 3),
    }


def _version(package: str) -> str | None:
    try:
        return importlib.metadata.version(package)
    except importlib.metadata.PackageNotFoundError:
        return None


def _commit() -> str | None:
    """The commit of the checkout this package is installed from, with ``-dirty``; None outside one."""
    root = Path(__file__).resolve().parent.parent
    try:
        described = subprocess.run(
            ["git", "-C", str(root), "describe", "--always", "--dirty", "--abbrev=12", "--exclude=*"],
            capture_output=True,
            text=True,
            timeout=10,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return described.stdout.strip() or None
