"""The rows of a table grid as texts: `label; label | Col > Sub: value | ...`.

A text that lies over many rows or labels many cells is long only once, so that a page can't fill memory with it.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import groupby

from tilewright.eval.evidence.html_text import MAX_LABEL_CHARS, as_label
from tilewright.eval.evidence.html_tree import Node
from tilewright.eval.evidence.long_units import cut_row, is_long
from tilewright.eval.evidence.table_cells import Cell
from tilewright.eval.evidence.table_grid import NestedGrid, TableGrid
from tilewright.eval.evidence.table_labels import Entry, LabelledRow, Path

CELL_SEPARATOR = " | "
MAX_REPEATED_CHARS = 1_000_000  # of the texts that lie over several rows of a table


@dataclass(frozen=True)
class Row:
    """A row's texts; ``entries``: (column label, text) of its cells.

    ``header`` and ``values``: by column, if together they say all that the row says; else ().
    """

    node: Node
    entries: tuple[tuple[str, str], ...]
    group: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

    @property
    def cells(self) -> tuple[str, ...]:
        """The texts of its cells."""
        return tuple(text for _, text in self.entries)

    def bodies(self, max_tokens: int, *, completed: bool = True) -> list[str]:
        """The row as one text, or in parts that are no longer; without column labels if not ``completed``."""
        entries = self.entries if completed else [("", text) for text in (*self.labels, *self.cells)]
        labels = "; ".join(self.labels) if completed else ""
        fields = [f"{label}: {text}" if label else text for label, text in entries]
        body = CELL_SEPARATOR.join([labels, *fields] if labels else fields)
        return cut_row(labels, entries, CELL_SEPARATOR, max_tokens) if is_long(body, max_tokens) else [body]

    @property
    def fields(self) -> tuple[tuple[str, ...], ...]:
        """Group, header, labels, cells and values: what a Unit ends with."""
        return self.group, self.header, self.labels, self.cells, self.values


def is_layout(table: Node) -> bool:
    """Whether a table only lays out what is in it: it says so, or has a single cell."""
    if table.get("role").strip().lower() in ("presentation", "none"):
        return True
    rows = [row for row in table.children if row.tag == "tr"]
    for group in table.children:
        if group.tag in ("thead", "tbody", "tfoot"):
            rows += [row for row in group.children if row.tag == "tr"]
    cells = 0
    for row in rows:
        cells += sum(cell.tag in ("td", "th") for cell in row.children)
        if cells > 1:
            return False
    return True


def rows_of_grid(grid: TableGrid, *, pairing: str = "grid") -> list[Row]:
    """The rows of one table, and its titles, groups and headers that no row shows; in the table's order.

    ``pairing`` dom: each cell takes the cell of the first row with its number for its label, spans or not.
    """
    if pairing == "dom":
        return list(_by_dom_order(grid))
    repeated = sum(len(entry.text) for row in grid.rows for entry in _entries(row) if not _is_first(row, entry))
    is_much = repeated > MAX_REPEATED_CHARS
    rows = [(row.row, _row(row, grid.source[row.row].node, is_much)) for row in grid.rows]
    unused = [context for context in grid.context_rows if not context.used and context.text]
    alone = [(context.row, Row(grid.source[context.row].node, (("", context.text),))) for context in unused]
    shown = {context.row for context in unused}
    whole = {entry.cell for row in grid.rows for entry in _entries(row) if _is_first(row, entry)}
    alone += [
        (number, Row(source.node, (("", _line(cell.text)),)))
        for number, source in enumerate(grid.source)
        for cell in source.cells
        if len(cell.text) > MAX_LABEL_CHARS and cell not in whole and number not in shown
    ]
    return [row for _, row in sorted(rows + alone, key=lambda pair: pair[0])]


def place_of(nested: NestedGrid, outer: TableGrid) -> tuple[str, ...]:
    """What a nested table stands in: the group of its row, the label above its cell and the labels of its row."""
    row = outer.labelled.get(nested.row)
    column = nested.cell.column
    above = row.header[column] if row and 0 <= column < len(row.header) else ()
    labels = _labels(row.labels, nested.cell) if row else []
    cells = _labels(row.cells, nested.cell) if row and not labels else []
    group = row.group if row else ()
    return (*group, _path(above), as_label("; ".join(labels or cells[:1])), as_label(_line(nested.cell.text)))


def _labels(entries: Iterable[Entry], but: Cell) -> list[str]:
    return [_line(entry.text) for entry in entries if entry.cell is not but]


def _entries(row: LabelledRow) -> tuple[Entry, ...]:
    return row.labels + row.cells


def _is_first(row: LabelledRow, entry: Entry) -> bool:
    """Whether this is the first row that the entry's cell stands in (-1: it has no place in the grid)."""
    return entry.cell.row in (row.row, -1)


def _line(text: str) -> str:
    return text.replace("\n", "; ")


def _path(path: Path) -> str:
    return as_label(" > ".join(path))


def _row(row: LabelledRow, node: Node, is_much: bool) -> Row:
    """``is_much``: texts that an earlier row has in full are shortened."""
    text = {
        entry.cell: as_label(entry.text) if is_much and not _is_first(row, entry) else _line(entry.text)
        for entry in _entries(row)
    }
    above = [as_label(" / ".join(path for path, _ in groupby(map(_path, entry.labels)))) for entry in row.cells]
    entries = tuple((label, text[entry.cell]) for label, entry in zip(above, row.cells, strict=True))
    header = tuple(map(_path, row.header))
    values = _values(row, text)
    labels = tuple(text[entry.cell] for entry in row.labels)
    return Row(node, entries, row.group, header if values else (), labels, values)


def _values(row: LabelledRow, text: Mapping[Cell, str]) -> tuple[str, ...]:
    """The row's texts by column; () if some label isn't that of the column, or a long text covers some of them."""
    if not any(row.header):
        return ()
    values = [""] * len(row.header)
    for entry in _entries(row):
        positional = entry.labels == tuple(row.header[column] for column in entry.columns if row.header[column])
        if not positional or (len(entry.columns) > 1 and len(entry.text) > MAX_LABEL_CHARS):
            return ()
        for column in entry.columns:
            values[column] = text[entry.cell]
    return tuple(values)


def _by_dom_order(grid: TableGrid) -> Iterator[Row]:
    names: list[str] = []
    for source in grid.source:
        texts = [_line(cell.text) for cell in source.cells]
        if not any(texts):
            continue
        if not names:
            names = [as_label(text) for text in texts]
            continue
        padded = names + [""] * len(texts)
        yield Row(source.node, tuple((name, text) for name, text in zip(padded, texts, strict=False) if text))
