"""The rows and cells of one table in the order of the HTML standard's table model; nested tables stay whole."""

import re
from dataclasses import dataclass, field

from tilewright.eval.evidence.html_text import as_label, is_bold, is_hidden, text_of
from tilewright.eval.evidence.html_tree import Node

MAX_COLSPAN, MAX_ROWSPAN = 1000, 65534
_NUMBER = re.compile(r"[ \t\n\f\r]*([+-]?)([0-9]+)")
_GROUPS = ("thead", "tbody", "tfoot")


@dataclass(slots=True, eq=False)
class Cell:
    """A td or th. ``rowspan`` 0: to the end of its row group. ``tables``: those inside it, whose text isn't its own.

    ``row``, ``column`` and ``end_row`` are its place in the grid, set when it is laid out.
    """

    node: Node
    text: str
    colspan: int
    rowspan: int
    tables: list[Node]
    row: int = -1
    column: int = -1
    end_row: int = -1

    @property
    def is_header(self) -> bool:
        """Whether it is a th."""
        return self.node.tag == "th"

    @property
    def label(self) -> str:
        """Its text as the label of other cells."""
        return as_label(self.text)

    @property
    def is_empty(self) -> bool:
        """Whether there is neither text nor a table in it."""
        return not self.text and not self.tables

    @property
    def scope(self) -> str:
        """Its scope in lower case; "" without one, and for a td."""
        return self.node.get("scope").strip().lower() if self.is_header else ""

    @property
    def is_bold(self) -> bool:
        """Whether all its text is bold."""
        return is_bold(self.node)


@dataclass(slots=True, eq=False)
class TableRow:
    """A tr that is shown. ``group``: which row group; ``group_end``: the row after the group's last."""

    node: Node
    group: int
    in_head: bool
    group_end: int = 0
    cells: list[Cell] = field(default_factory=list)


def parse_span(value: str, *, zero: int, most: int) -> int:
    """A colspan or rowspan by the standard's rules for non-negative integers; 0 gives ``zero``, what isn't one gives 1.

    Leading spaces and what follows the digits don't count; values above ``most`` are clipped to it.
    """
    found = _NUMBER.match(value)
    digits = found[2].lstrip("0")[:8] if found else "1"
    if found and found[1] == "-" and digits:
        return 1
    return min(int(digits), most) if digits else zero


def rows_of(table: Node, *, alone: bool = False) -> list[TableRow]:
    """The rows of ``table`` itself in the standard's order (feet last), without hidden rows, groups and cells.

    ``alone``: tables in cells are no tables of their own but part of the cell's text.
    """
    rows: list[TableRow] = []
    feet: list[Node] = []
    group, loose = 0, False
    for child in table.children:
        if child.tag == "tfoot":
            feet.append(child)
        elif child.tag == "tr":
            group += not loose
            _add_row(rows, child, group, in_head=False, alone=alone)
        elif child.tag in _GROUPS:
            group += 1
            _add_group(rows, child, group, alone=alone)
        loose = child.tag == "tr" or (loose and child.tag not in _GROUPS)
    for foot in feet:
        group += 1
        _add_group(rows, foot, group, alone=alone)
    end = len(rows)
    for index in range(len(rows) - 1, -1, -1):
        if index + 1 < len(rows) and rows[index].group != rows[index + 1].group:
            end = index + 1
        rows[index].group_end = end
    return rows


def caption_of(table: Node) -> str | None:
    """The text of a table's first caption, in one line, pictures by their alternative text; None without one."""
    caption = next((child for child in table.children if child.tag == "caption" and not is_hidden(child)), None)
    return None if caption is None else text_of(caption, alt=True).replace("\n", " ")


def _add_group(rows: list[TableRow], node: Node, group: int, *, alone: bool) -> None:
    if is_hidden(node):
        return
    for child in node.children:
        if child.tag == "tr":
            _add_row(rows, child, group, in_head=node.tag == "thead", alone=alone)


def _add_row(rows: list[TableRow], node: Node, group: int, *, in_head: bool, alone: bool) -> None:
    if is_hidden(node):
        return
    row = TableRow(node, group, in_head)
    row.cells = [
        _cell(child, alone=alone) for child in node.children if child.tag in ("td", "th") and not is_hidden(child)
    ]
    rows.append(row)


def _cell(node: Node, *, alone: bool) -> Cell:
    tables: list[Node] = []
    text = text_of(node, tables=None if alone else tables)
    colspan = rowspan = 1
    if node.attributes:
        colspan = parse_span(node.attributes.get("colspan") or "", zero=1, most=MAX_COLSPAN)
        rowspan = parse_span(node.attributes.get("rowspan") or "", zero=0, most=MAX_ROWSPAN)
    return Cell(node, text, colspan, rowspan, tables)
