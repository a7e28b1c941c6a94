"""The rows of a table grid as texts: `label; label | Col > Sub: value | ...`."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from tilewright.eval.evidence.html_tree import Node
from tilewright.eval.evidence.table_grid import NestedGrid, TableGrid
from tilewright.eval.evidence.table_labels import Entry, LabelledRow, Path

CELL_SEPARATOR = " | "


@dataclass(frozen=True)
class Row:
    """A row's texts. ``header`` and ``values``: by column, if together they say all that ``body`` says; else ()."""

    node: Node
    body: str
    group: tuple[str, ...] = ()
    header: tuple[str, ...] = ()
    labels: tuple[str, ...] = ()
    cells: tuple[str, ...] = ()
    values: tuple[str, ...] = ()

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
    rows = [(row.row, _row(row, grid.source[row.row].node)) for row in grid.rows]
    alone = [
        (context.row, Row(grid.source[context.row].node, context.text, cells=(context.text,)))
        for context in grid.context_rows
        if not context.used and context.text
    ]
    return [row for _, row in sorted(rows + alone, key=lambda pair: pair[0])]


def place_of(nested: NestedGrid, outer: TableGrid) -> tuple[str, ...]:
    """What a nested table stands in: the group of its row, the label above its cell and the labels of its row."""
    row = outer.labelled.get(nested.row)
    column = nested.cell.column
    above = row.header[column] if row and 0 <= column < len(row.header) else ()
    labels = [_line(entry.text) for entry in row.labels if entry.cell is not nested.cell] if row else []
    cells = [_line(entry.text) for entry in row.cells if entry.cell is not nested.cell] if row and not labels else []
    group = row.group if row else ()
    return (*group, " > ".join(above), "; ".join(labels or cells[:1]), _line(nested.cell.text))


def _line(text: str) -> str:
    return text.replace("\n", "; ")


def _path(path: Path) -> str:
    return " > ".join(path)


def _row(row: LabelledRow, node: Node) -> Row:
    labels = tuple(_line(entry.text) for entry in row.labels)
    fields = ["; ".join(labels)] if labels else []
    for entry in row.cells:
        above = " / ".join(path for path, _ in groupby(map(_path, entry.labels)))
        fields.append(f"{above}: {_line(entry.text)}" if above else _line(entry.text))
    header = tuple(map(_path, row.header))
    values = _values(row, header)
    cells = tuple(_line(entry.text) for entry in row.cells)
    return Row(node, CELL_SEPARATOR.join(fields), row.group, header if values else (), labels, cells, values)


def _values(row: LabelledRow, header: Sequence[str]) -> tuple[str, ...]:
    """The row's texts by column; () if some label isn't that of the column, or there are none."""
    if not any(header):
        return ()
    entries: tuple[Entry, ...] = row.labels + row.cells
    positional = all(
        entry.labels == tuple(row.header[column] for column in entry.columns if row.header[column]) for entry in entries
    )
    if not positional:
        return ()
    values = [""] * len(header)
    for entry in entries:
        for column in entry.columns:
            values[column] = _line(entry.text)
    return tuple(values)


def _by_dom_order(grid: TableGrid) -> Iterator[Row]:
    names: list[str] = []
    for source in grid.source:
        texts = [_line(cell.text) for cell in source.cells]
        if not any(texts):
            continue
        if not names:
            names = texts
            continue
        padded = names + [""] * len(texts)
        fields = [f"{name}: {text}" if name else text for name, text in zip(padded, texts, strict=False) if text]
        yield Row(source.node, CELL_SEPARATOR.join(fields), cells=tuple(filter(None, texts)))
