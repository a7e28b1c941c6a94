"""The steps of every question as JSON lines: written when a question ends, copied into a finished evaluation."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tilewright.configs.digests import digest_text
from tilewright.configs.stage import write_atomically

STEPS = "agent_steps"


def as_lines(steps: Iterable[Mapping[str, Any]]) -> str:
    """One line a step, plain ASCII whatever texts hold."""
    return "".join(json.dumps(step, ensure_ascii=True, allow_nan=False) + "\n" for step in steps)


def write_steps(part: Path, key: str, steps: Sequence[Mapping[str, Any]]) -> None:
    """Write the steps of the question with this ``key`` into a reader's folder; whole or not at all."""
    folder = part / STEPS
    folder.mkdir(parents=True, exist_ok=True)
    write_atomically(folder / f"{key}.jsonl", as_lines(steps))


def file_of(query_id: str) -> str:
    """The name of a question's file: ids may hold anything."""
    return f"{digest_text(query_id)[:16]}.jsonl"


def copy_steps(part: Path, keys: Mapping[str, str], out: Path) -> None:
    """Copy the steps of {query_id: key} from a reader's folder to ``out``, each behind a line with its query_id."""
    out.mkdir(parents=True, exist_ok=True)
    for query_id, key in keys.items():
        stored = part / STEPS / f"{key}.jsonl"
        if stored.is_file():
            head = as_lines([{"step": "begin", "query_id": query_id}])
            write_atomically(out / file_of(query_id), head + stored.read_text(encoding="utf-8"))
