"""A question that some statement gives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """A question made of a statement, the answer as it stands there, and the kind of fact."""

    query: str
    answer: str
    kind: str
