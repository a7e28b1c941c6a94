"""The agents' steps among an evaluation's outputs: ``agent_steps/{cell}/{digest of the query_id}.jsonl``."""

from collections.abc import Iterable, Sequence
from pathlib import Path

from tilewright.eval.agent.reader import AgentReader
from tilewright.eval.agent.steps import STEPS
from tilewright.eval.parts import Question
from tilewright.eval.reading import reader_of
from tilewright.eval.registry import Registry
from tilewright.eval.rows import Cell


def copy_agent_steps(registry: Registry, cells: Iterable[Cell], questions: Sequence[Question], out: Path) -> None:
    """Copy the steps of every cell whose reader is an agent from the cache to ``out``."""
    for cell in cells:
        reader = reader_of(cell, registry)
        if isinstance(reader, AgentReader):
            part = registry.workshop.cache.part("answers", reader.identity)
            reader.copy_steps(part, questions, out / STEPS / cell.name)
