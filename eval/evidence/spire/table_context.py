"""What a table's cells need to be read: title row, group row, the headers above and beside, by the faithful grid."""

from bisect import bisect_left
from collections.abc import Iterator

from tilewright.eval.evidence.html_tree import Node
from tilewright.eval.evidence.row_units import is_layout
from tilewright.eval.evidence.table_cells import Cell
from tilewright.eval.evidence.table_grid import TableGrid, build_grid
from tilewright.eval.evidence.table_labels import LabelledRow

CellContext = dict[Node, tuple[Node, ...]]  # cell: the elements whose text it needs


def table_context(table: Node) -> CellContext:
    """What each cell of ``table``, and of the tables in its cells, needs; a nested cell what its outer cell needs too.

    A table that only lays out its content gives none.
    """
    found: CellContext = {}
    waiting: list[tuple[TableGrid, tuple[Node, ...]]] = [(build_grid(table), ())]
    while waiting:
        grid, outer = waiting.pop()
        own = {} if is_layout(grid.node) else _GridContext(grid).of_cells()
        captions = tuple(child for child in grid.node.children if child.tag == "caption")
        for row in grid.source:
            for cell in row.cells:
                found[cell.node] = tuple(dict.fromkeys((*outer, *captions, *own.get(cell, ()))))
        waiting.extend((nested.grid, found[nested.cell.node]) for nested in grid.nested)
    return found


class _GridContext:
    """The cells that the labels of one grid come from."""

    def __init__(self, grid: TableGrid) -> None:
        self._grid = grid
        self._ids = {cell.node.get("id"): cell for row in reversed(grid.source) for cell in reversed(row.cells)}
        contexts = [row.row for row in grid.context_rows if row.row not in set(grid.header_rows)]
        title = contexts[:1] if grid.title else []
        self._title = title[0] if title else None
        self._groups = [row for row in contexts if row != self._title]
        blocks = list(self._header_blocks())
        self._starts = [block[0] for block in blocks]
        self._blocks = [self._by_column(block) for block in blocks]

    def of_cells(self) -> dict[Cell, tuple[Node, ...]]:
        """Of each cell of a labelled row and of each header, the cells that it needs."""
        found: dict[Cell, tuple[Node, ...]] = {}
        title = self._cells_of(self._title)
        for source in self._grid.source:
            for cell in source.cells:
                found[cell] = tuple(other.node for other in title if other is not cell)
        for row in self._grid.rows:
            shared = [*title, *self._group(row)]
            for cell in self._grid.source[row.row].cells:
                needed = [*shared, *self._above(cell, row), *self._beside(cell, row)]
                found[cell] = tuple(dict.fromkeys(other.node for other in needed if other is not cell))
        for cell, above in self._stacked():
            found[cell] = (*found[cell], *(other.node for other in above))
        return found

    def _cells_of(self, row: int | None) -> list[Cell]:
        return [] if row is None else [cell for cell in self._grid.source[row].cells if cell.text]

    def _group(self, row: LabelledRow) -> list[Cell]:
        """The group row above, if it is this row's, and the th of its row group."""
        if not row.group:
            return []
        place = bisect_left(self._groups, row.row)
        above = self._cells_of(self._groups[place - 1]) if place else []
        named = [cell for cell in above if cell.text.replace("\n", " ") == row.group[0]]
        here = self._grid.source[row.row].group
        beside = [
            cell
            for other in self._grid.source
            if other.group == here
            for cell in other.cells
            if cell.scope == "rowgroup" and cell.text.replace("\n", " ") in row.group
        ]
        return [*named, *beside]

    def _above(self, cell: Cell, row: LabelledRow) -> Iterator[Cell]:
        """The headers that the cell names, else those above its columns that the grid labels it with."""
        named = [self._ids[name] for name in cell.node.get("headers").split() if name in self._ids]
        if named:
            yield from named
            return
        columns = {entry.cell: entry.columns for entry in (*row.labels, *row.cells)}.get(cell, ())
        block = bisect_left(self._starts, row.row)
        if any(row.header) and block:
            yield from _over(self._blocks[block - 1], columns)

    def _header_blocks(self) -> Iterator[list[int]]:
        """Header rows with nothing but blank rows between them."""
        block: list[int] = []
        for number in self._grid.header_rows:
            between = self._grid.source[block[-1] + 1 : number] if block else []
            if any(not cell.is_empty for row in between for cell in row.cells):
                yield block
                block = []
            block.append(number)
        if block:
            yield block

    def _by_column(self, rows: list[int]) -> dict[int, list[Cell]]:
        """{column: the header cells over it, from the top}."""
        found: dict[int, list[Cell]] = {}
        for number in rows:
            for start, stop, cell in self._grid.layout.spans[number]:
                for column in range(start, stop) if cell.text else ():
                    found.setdefault(column, []).append(cell)
        return found

    def _beside(self, cell: Cell, row: LabelledRow) -> Iterator[Cell]:
        """The row's th cells for a td; in a row th, td, th, td the one right before it."""
        if cell.is_header:
            return
        if row.labels:
            yield from (entry.cell for entry in row.labels)
            return
        before: Cell | None = None
        for other in self._grid.source[row.row].cells:
            if other is cell:
                break
            before = other if other.is_header else before
        if before is not None and row.kind == "key-value":
            yield before

    def _stacked(self) -> Iterator[tuple[Cell, list[Cell]]]:
        """Header cells, and those above them in the same block of header rows."""
        for by_column in self._blocks:
            for column, cells in by_column.items():
                for cell in cells:
                    if cell.column == column:
                        yield cell, [other for other in cells if other.row < cell.row]


def _over(by_column: dict[int, list[Cell]], columns: tuple[int, ...]) -> Iterator[Cell]:
    for column in columns:
        yield from by_column.get(column, ())
