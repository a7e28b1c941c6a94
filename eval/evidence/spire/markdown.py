"""Selected text of a page as Markdown, in document order: one line a block, one line a table row.

Lines cost what they cost alone, and more text of a line makes it no dearer than two lines: so two views rendered as one
never cost more than apart. The order of leaves is that of the page; structure adds marks, never text.
"""

from collections.abc import Iterable, Iterator, Mapping

from tilewright.eval.evidence.html_tree import Node
from tilewright.eval.evidence.spire.document import Document
from tilewright.eval.evidence.spire.page_lines import Line

CELL, PART = " | ", "; "
MARKS = "\ue000\ue001"  # private use: for marks of the caller's; none of them is in a page's text as rendered
_NO_MARKS = str.maketrans("", "", MARKS)


def render(document: Document, leaves: Iterable[int], *, around: Mapping[int, tuple[str, str]] | None = None) -> str:
    """The text leaves (by number) as Markdown. ``around`` {leaf: (text before it, text behind it)}: for labels."""
    return "\n".join(_rows(document, list(_texts(document, sorted(leaves), around or {}))))


def _texts(document: Document, leaves: list[int], around: Mapping[int, tuple[str, str]]) -> Iterator[tuple[Line, str]]:
    """(line, what of it is selected) in document order."""
    current, pieces, last = -1, list[str](), -2
    for leaf in leaves:
        node, number = document.leaves[leaf]
        if number != current:
            if current >= 0:
                yield document.lines[current], _collapsed(pieces)
            current, pieces = number, []
        elif leaf != last + 1 or _has_gap(document, number, leaf):
            pieces.append(" ")
        before, behind = around.get(leaf, ("", ""))
        pieces += [before, node.text.translate(_NO_MARKS), behind]
        last = leaf
    if current >= 0:
        yield document.lines[current], _collapsed(pieces)


def _has_gap(document: Document, number: int, leaf: int) -> bool:
    """Whether a line break stands before a leaf of a line: its place in the text isn't where the leaf before ends."""
    parts = document.lines[number].parts
    place = leaf - document.line_leaves[number][0]
    before, start = parts[place - 1]
    return start + len(before.text) < parts[place][1]


def _collapsed(pieces: list[str]) -> str:
    return " ".join("".join(pieces).split())


def _rows(document: Document, texts: list[tuple[Line, str]]) -> Iterator[str]:
    """Lines of Markdown; neighbouring texts of one table row make one line."""
    row: Node | None = None
    cells: list[tuple[Node | None, str]] = []
    for line, text in texts:
        if not text:
            continue
        if cells and line.row is not row:
            yield _table_row(cells)
            cells = []
        row = line.row
        if row is None or line.cell is None:
            yield _prefix(document, line) + text
        elif cells and cells[-1][0] is line.cell:
            cells[-1] = (line.cell, cells[-1][1] + PART + text)
        else:
            cells.append((line.cell, text))
    if cells:
        yield _table_row(cells)


def _table_row(cells: list[tuple[Node | None, str]]) -> str:
    return f"| {CELL.join(text for _, text in cells)} |"


def _prefix(document: Document, line: Line) -> str:
    """Marks of headings, list items, definitions and quotations."""
    if line.number == document.title:
        return "# "
    if line.level:
        return "#" * line.level + " "
    node: Node | None = line.block
    while node is not None and node.tag not in ("li", "dd", "blockquote", "body", "table"):
        node = node.parent
    if node is None or node.tag in ("body", "table"):
        return ""
    if node.tag == "blockquote":
        return "> "
    return "  " * (len(line.lists) - 1) + ("- " if node.tag == "li" else ": ")
