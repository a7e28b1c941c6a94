"""A training stage in a process of its own: its config as a YAML, and waiting for what it writes."""

import dataclasses
import json
import subprocess
import time
from pathlib import Path
from typing import Any


def write_yaml(config: Any) -> Path:
    """The YAML of a stage's Config, beside its output folder."""
    path: Path = config.out.parent / f"{config.out.name}.yaml"
    values = {field.name: getattr(config, field.name) for field in dataclasses.fields(config)}
    lines = [f"{name}: {json.dumps(value, default=_plain)}" for name, value in values.items()]
    path.write_text("\n".join(["kind: stage", *lines]) + "\n")
    return path


def _plain(value: Any) -> Any:
    return str(value) if isinstance(value, Path) else dataclasses.asdict(value)


def wait_for(path: Path, process: subprocess.Popen[str], timeout_s: float = 300.0) -> None:
    """Until ``path`` is there; the process must not end before."""
    deadline = time.monotonic() + timeout_s
    while not path.exists():
        assert process.poll() is None and time.monotonic() < deadline, process.communicate()
        time.sleep(0.005)
