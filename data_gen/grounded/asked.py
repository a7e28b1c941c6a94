"""A question that some statement gives."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """A question made of a statement, the answer as it stands there, and the kind of fact.

    ``about``: for a cell, what is asked of what (row and label): with another answer elsewhere it has several.
    """

    query: str
    answer: str
    kind: str
    about: str = ""
