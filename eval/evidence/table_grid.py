"""A table as a grid of slots with the labels that a reader sees for each cell: geometry as browsers lay it out."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from tilewright.configs.errors import InputError
from tilewright.eval.evidence.html_tree import Node, parse_html
from tilewright.eval.evidence.table_cells import Cell, TableRow, caption_of, rows_of
from tilewright.eval.evidence.table_geometry import MAX_ROWS, MAX_SLOTS, Layout, lay_out
from tilewright.eval.evidence.table_labels import ContextRow, Entry, LabelledRow, Labeller, LabelOptions

MAX_NESTING = 8


@dataclass(frozen=True)
class GridOptions:
    """``max_slots`` and ``max_rows`` of a table: the rows over them come in source order without column labels."""

    labels: LabelOptions = field(default_factory=LabelOptions)
    max_slots: int = MAX_SLOTS
    max_rows: int = MAX_ROWS


@dataclass(eq=False)
class NestedGrid:
    """The grid of a table inside ``cell``, which first stands in ``row`` of the outer grid."""

    row: int
    cell: Cell
    grid: "TableGrid"


@dataclass(eq=False)
class TableGrid:
    """A table's grid. ``rows``: the labelled data rows and notes; ``fallback``: rows over the budget have no labels.

    ``slots``: [height][width] cell or None. ``context_rows``: the title, group and header rows, with their use.
    ``labelled``: {row: it with its labels}, also rows that hold nothing but tables.
    """

    node: Node
    width: int
    caption: str | None
    title: list[str]
    header_rows: list[int]
    rows: list[LabelledRow]
    context_rows: list[ContextRow]
    source: Sequence[TableRow]
    layout: Layout
    labelled: Mapping[int, LabelledRow] = field(default_factory=dict)
    nested: list[NestedGrid] = field(default_factory=list)

    @property
    def fallback(self) -> bool:
        """Whether some rows were over the budget."""
        return len(self.layout.spans) < len(self.source)

    @property
    def height(self) -> int:
        """Rows, with those over the budget."""
        return len(self.source)

    @property
    def slots(self) -> list[list[Cell | None]]:
        """Which cell covers each slot of the rows within the budget: [rows][width], None where there is none."""
        grid: list[list[Cell | None]] = [[None] * self.width for _ in self.layout.spans]
        for row, spans in zip(grid, self.layout.spans, strict=True):
            for start, stop, cell in spans:
                row[start:stop] = [cell] * (stop - start)
        return grid

    def to_dict(self) -> dict[str, Any]:
        """The grid in the schema of tests/eval/evidence/table_grid.jsonl."""
        made = {
            "width": self.width,
            "height": self.height,
            "caption": self.caption,
            "title": list(self.title),
            "header_rows": list(self.header_rows),
            "rows": [
                {
                    "row": row.row,
                    "group": list(row.group),
                    "labels": [_entry(entry) for entry in row.labels],
                    "cells": [_entry(entry) for entry in row.cells],
                }
                for row in self.rows
            ],
            "grid": [[None if cell is None else cell.text for cell in row] for row in self.slots],
        }
        if self.fallback:
            made["grid_fallback"] = True
        if self.nested:
            made["nested"] = [
                nested.grid.to_dict() | {"parent": {"row": nested.row, "text": nested.cell.text}}
                for nested in self.nested
            ]
        return made


def build_grid(table: str | Node, options: GridOptions | None = None) -> TableGrid:
    """The grid of ``table``: a node, or HTML that holds one table. Tables in its cells get grids of their own.

    Source: HTML standard, "forming a table", with spans clipped to the rows that there are. Raises InputError for HTML
    without a table.
    """
    node = _table_of(table) if isinstance(table, str) else table
    options = options or GridOptions()
    outer = _one_grid(node, options, alone=False)
    waiting = deque([(outer, 1)])
    while waiting:
        grid, depth = waiting.popleft()
        for number, row in enumerate(grid.source):
            for cell in row.cells:
                for inner in cell.tables:
                    made = _one_grid(inner, options, alone=depth >= MAX_NESTING)
                    grid.nested.append(NestedGrid(number, cell, made))
                    waiting.append((made, depth + 1))
    return outer


def _entry(entry: Entry) -> dict[str, Any]:
    return {"cols": [list(path) for path in entry.labels], "text": entry.text}


def _table_of(html: str) -> Node:
    node = next((node for node in parse_html(html).root.walk() if node.tag == "table"), None)
    if node is None:
        raise InputError(f"wanted HTML that holds a table, found {html[:80]!r}")
    return node


def _one_grid(node: Node, options: GridOptions, *, alone: bool) -> TableGrid:
    source = rows_of(node, alone=alone)
    layout = lay_out(source, max_slots=options.max_slots, max_rows=options.max_rows)
    labels = Labeller(source, layout, options.labels).labels
    rows = labels.rows + [_unlabelled(number, source[number]) for number in range(len(layout.spans), len(source))]
    return TableGrid(
        node,
        layout.width,
        caption_of(node),
        labels.title,
        labels.header_rows,
        [row for row in rows if row.labels or row.cells],
        labels.context_rows,
        source,
        layout,
        {row.row: row for row in rows},
    )


def _unlabelled(number: int, row: TableRow) -> LabelledRow:
    """A row over the budget: its cells in source order."""
    entries = [Entry(cell.text, (), (), cell) for cell in row.cells if cell.text]
    labels = tuple(entry for entry in entries if entry.cell.is_header)
    return LabelledRow(number, "unlabelled", (), labels, tuple(e for e in entries if not e.cell.is_header))
