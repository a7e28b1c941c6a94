"""Which cell covers which slot: the HTML standard's "forming a table", in intervals, so that no span fills memory.

Where two cells cover a slot (an error in the standard) the one that came first keeps it, the other the rest of its own.
Spans end with their row group's rows; columns in which no cell starts are dropped.
"""

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from tilewright.eval.evidence.table_cells import Cell, TableRow

MAX_SLOTS, MAX_ROWS = 200_000, 2_000
Span = tuple[int, int, Cell]  # columns from, to (exclusive), and the cell that has them


@dataclass(frozen=True)
class Layout:
    """``spans[row]``: its covered columns from left to right. Rows from ``len(spans)`` on were over the budget."""

    width: int
    spans: Sequence[Sequence[Span]]


def lay_out(rows: Sequence[TableRow], *, max_slots: int = MAX_SLOTS, max_rows: int = MAX_ROWS) -> Layout:
    """Place the cells of ``rows``, setting each one's row, end_row and column.

    Stops before the row that is over ``max_rows``, or with which more than ``max_slots`` slots or spans would be kept.
    """
    placed: list[list[Span]] = []
    lower: defaultdict[int, list[Span]] = defaultdict(list)  # what cells get back below the ones that they overlap
    kept = 0
    for number, row in enumerate(rows[:max_rows]):
        above = placed[-1] if placed else ()
        spans = [span for span in above if span[2].end_row > number]
        for start, stop, cell in lower.pop(number, ()):
            _claim(spans, 0, (start, stop, cell), lower)
        _place_row(spans, row, number, lower)
        kept += len(spans)
        if kept > max_slots:
            break
        placed.append(spans)
    return _without_empty_columns(placed, max_slots)


def _place_row(spans: list[Span], row: TableRow, number: int, lower: defaultdict[int, list[Span]]) -> None:
    """Add the cells that start in ``row`` to ``spans``, which holds those that reach into it."""
    column, position = 0, 0
    for cell in row.cells:
        while position < len(spans) and spans[position][0] <= column:
            column = max(column, spans[position][1])
            position += 1
        cell.row, cell.column = number, column
        cell.end_row = min(number + cell.rowspan, row.group_end) if cell.rowspan else row.group_end
        position = _claim(spans, position, (column, column + cell.colspan, cell), lower)
        column += cell.colspan


def _claim(spans: list[Span], position: int, wanted: Span, lower: defaultdict[int, list[Span]]) -> int:
    """Give ``wanted`` its free slots; the taken ones come back to it in the row below the cell that has them.

    Returns the position in ``spans`` behind what was added, searched from ``position``.
    """
    column, stop, cell = wanted
    while position < len(spans) and spans[position][1] <= column:
        position += 1
    while column < stop:
        start, end, other = spans[position] if position < len(spans) else (stop, stop, cell)
        if start > column:
            free = min(start, stop)
            spans.insert(position, (column, free, cell))
            position, column = position + 1, free
        else:
            taken = min(end, stop)
            if other.end_row < cell.end_row:
                lower[other.end_row].append((column, taken, cell))
            column = taken
            position += end <= stop
    return position


def _without_empty_columns(placed: list[list[Span]], max_slots: int) -> Layout:
    starts = sorted({cell.column for number, spans in enumerate(placed) for _, _, cell in spans if cell.row == number})
    width = len(starts)
    new_column = {column: index for index, column in enumerate(starts)}
    ends: dict[int, int] = {}
    rows: list[list[Span]] = []
    for number, spans in enumerate(placed[: max_slots // max(width, 1)]):
        row = []
        for start, stop, cell in spans:
            if stop not in ends:
                ends[stop] = bisect_left(starts, stop)
            first = new_column[start] if start in new_column else bisect_left(starts, start)
            if first < ends[stop]:
                row.append((first, ends[stop], cell))
        rows.append(row)
        for cell in {cell for _, _, cell in spans if cell.row == number}:
            cell.column = new_column[cell.column]
    return Layout(width, rows)
