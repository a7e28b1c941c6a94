"""What makes questions: the ``Annotator`` protocol and what it returns for a tile."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from tilewright.data_gen.records import Tile

TWO_ANSWERS = "two_answers_on_tile"  # why a question with several answers on its own tile is dropped


@dataclass(frozen=True)
class RawPair:
    """A question and its answer, before any filter. ``source_span`` is text of the tile, verbatim, that answers it.

    ``source_type``: infobox, table, list, paragraph or image. ``subject``: what the question is about, by the page's
    own name for it.
    """

    query: str
    answer: str
    aliases: tuple[str, ...]
    source_span: str
    source_type: str
    subject: str


@dataclass(frozen=True)
class Generated:
    """Pairs whose answers stand in their tile, best first; ``dropped``: {why: how many} of those left out."""

    pairs: tuple[RawPair, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Skip:
    """The annotator has no question for a tile; ``reason`` is a short name that manifests count."""

    reason: str
    dropped: Mapping[str, int] = field(default_factory=dict)


class Annotator(Protocol):
    """Makes question-answer pairs from one tile. ``name`` is name and version, e.g. ``grounded/2``."""

    @property
    def name(self) -> str: ...

    def generate(self, tile: Tile) -> Generated | Skip:
        """Pairs about ``tile``, or why there are none."""
        ...
