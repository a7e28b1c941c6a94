"""Units of evidence of a page: blocks and table rows, each completed with the title, headings and labels above it."""

from dataclasses import dataclass, field
from typing import Literal

from tilewright.eval.evidence.html_tree import PARSER
from tilewright.eval.evidence.long_units import MAX_UNIT_TOKENS
from tilewright.eval.evidence.table_grid import GridOptions

BUILDER = f"tessera units 3, {PARSER}"
MAX_CONTEXT_CHARS = 2_000
BLOCK, ROW = "block", "row"
Pairing = Literal["grid", "dom"]


@dataclass(frozen=True)
class UnitOptions:
    """``references``: lists of references too. ``completed`` false: bare units. ``max_tokens``: longer ones are cut.

    ``pairing`` dom: a table's cells are paired with those of its first row by their number (an ablation).
    """

    references: bool = False
    completed: bool = True
    pairing: Pairing = "grid"
    max_tokens: int = MAX_UNIT_TOKENS
    grid: GridOptions = field(default_factory=GridOptions)


@dataclass(frozen=True, slots=True)
class Unit:
    """A block or a table row. ``pos``: its place on the page; ``path``: its element's in the parser's tree.

    ``within``: what it stands in (first lines of list items and terms, cells of outer tables). ``header`` and
    ``values``: column labels and the row's texts by column, where together they say all that ``body`` says; else ().
    ``body``: its own text.
    """

    unit_id: str
    page_id: str
    kind: str
    pos: int
    path: tuple[int, ...]
    title: str
    section: tuple[str, ...]
    body: str
    within: tuple[str, ...] = ()
    table_id: str = ""
    caption: tuple[str, ...] = ()
    group: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def context(self) -> str:
        """Page title > section path > what it stands in > caption > group; each part once, the middle cut if long."""
        parts = (self.title, *self.section, *self.within, *self.caption, *self.group)
        line = " > ".join(dict.fromkeys(part for part in parts if part))
        if len(line) > MAX_CONTEXT_CHARS:
            return f"{line[: MAX_CONTEXT_CHARS // 2]} … {line[-MAX_CONTEXT_CHARS // 2 :]}"
        return line

    @property
    def completed_text(self) -> str:
        """What is searched and scored: the context line, then the body."""
        context = self.context
        return f"{context}\n{self.body}" if context else self.body
