"""The lines of a page: runs of inline text that no block parts, in document order, and what each stands in."""

from dataclasses import dataclass, field

from tilewright.eval.evidence.html_text import BLOCKS, is_skipped
from tilewright.eval.evidence.html_tree import Node

HEADINGS = {f"h{level}": level for level in range(1, 7)}
LISTS = frozenset({"ul", "ol", "dl", "menu", "dir"})
ITEMS = frozenset({"li", "dd", "dt"})
CELLS = frozenset({"td", "th"})


@dataclass(eq=False)
class Line:
    """A run of text. ``parts``: its leaves and where each starts in ``text``, in which a <br> is a blank.

    ``block``: the element it is a line of; ``headings``: the lines above that head it, outermost first; ``lists``: the
    lists it stands in, outermost first; ``cell``, ``row`` and ``table``: the innermost ones around it. ``lead``: the
    line that names its innermost list, or the term of its definition. ``level``: of a heading, 0 for other text.
    """

    number: int
    block: Node
    headings: tuple[int, ...]
    lists: tuple[Node, ...]
    cell: Node | None
    row: Node | None
    table: Node | None
    lead: int | None
    level: int = 0
    parts: list[tuple[Node, int]] = field(default_factory=list)
    text: str = ""


@dataclass(frozen=True)
class _Around:
    """What the walk stands in."""

    block: Node
    lists: tuple[Node, ...] = ()
    cell: Node | None = None
    row: Node | None = None
    table: Node | None = None
    lead: int | None = None
    item: Node | None = None


class LineReader:
    """One walk over a tree; ``lines`` is the result, ``tables`` the outermost tables in it.

    ``references``: lists of references too.
    """

    def __init__(self, root: Node, *, references: bool = False) -> None:
        self.lines: list[Line] = []
        self.tables: list[Node] = []
        self._references = references
        self._headings: list[int] = []
        self._first_line: dict[Node, int] = {}  # of list items
        self._terms: dict[Node, int] = {}  # the last dt of a list
        self._parts: list[tuple[Node, int]] = []
        self._text: list[str] = []
        self._length = 0
        self._read(root)

    def _read(self, root: Node) -> None:
        around = _Around(root)
        stack: list[Node | _Around] = list(reversed(root.children))
        while stack:
            node = stack.pop()
            if isinstance(node, _Around):
                self._flush(around)
                around = node
            elif not node.tag:
                self._parts.append((node, self._length))
                self._add(node.text)
            elif node.tag == "br":
                self._add(" ")
            elif is_skipped(node) or self._is_reference_list(node):
                continue
            elif node.tag in BLOCKS:
                self._flush(around)
                stack.append(around)
                around = self._inside(node, around)
                stack.extend(reversed(node.children))
            else:
                stack.extend(reversed(node.children))
        self._flush(around)

    def _is_reference_list(self, node: Node) -> bool:
        return node.tag == "ol" and not self._references and "references" in node.get("class").split()

    def _inside(self, node: Node, around: _Around) -> _Around:
        """What is around the text in the block ``node``."""
        lists, cell, row, table = around.lists, around.cell, around.row, around.table
        lead, item = around.lead, around.item
        if node.tag in LISTS:
            lists, lead, item = (*lists, node), self._lead(around), None
        elif node.tag in ITEMS:
            item = node
            lead = self._terms.get(lists[-1], lead) if node.tag == "dd" and lists else lead
        elif node.tag == "table":
            if table is None:
                self.tables.append(node)
            table, row, cell = node, None, None
        elif node.tag == "tr":
            row = node
        elif node.tag in CELLS:
            cell, item = node, None
        return _Around(node, lists, cell, row, table, lead, item)

    def _lead(self, around: _Around) -> int | None:
        """The name of a list that begins here: its list item's own text, or the text right before that ends in ":"."""
        if around.item is not None:
            return self._first_line.get(around.item, around.lead)
        last = self.lines[-1] if self.lines else None
        if last is None or last.level or last.cell is not around.cell or not last.text.rstrip().endswith(":"):
            return around.lead
        return last.number

    def _add(self, text: str) -> None:
        self._text.append(text)
        self._length += len(text)

    def _flush(self, around: _Around) -> None:
        """Make a line of the text gathered in ``around``."""
        parts, text = self._parts, "".join(self._text)
        self._parts, self._text, self._length = [], [], 0
        if not text.strip():
            return
        heading = self._heading_of(around.block)
        level = HEADINGS[heading.tag] if heading is not None else 0
        number = len(self.lines)
        if level:
            self._headings = [above for above in self._headings if self.lines[above].level < level]
        line = Line(
            number,
            around.block,
            tuple(self._headings),
            around.lists,
            around.cell,
            around.row,
            around.table,
            around.lead,
            level,
            parts,
            text,
        )
        self.lines.append(line)
        if level:
            self._headings.append(number)
        if around.item is not None:
            self._first_line.setdefault(around.item, number)
            if around.item.tag == "dt" and around.lists:
                self._terms[around.lists[-1]] = number

    @staticmethod
    def _heading_of(block: Node) -> Node | None:
        node: Node | None = block
        while node is not None and node.tag not in HEADINGS:
            node = node.parent
        return node
