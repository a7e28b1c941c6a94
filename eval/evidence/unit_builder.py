"""One walk over a page's tree that makes its units; what is open (headings, list items, terms) is their context."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from tilewright.eval.evidence.html_text import (
    BLOCKS,
    BREAK,
    MAX_LABEL_CHARS,
    as_label,
    gather,
    is_skipped,
    leaf,
    lines_of,
    text_of,
)
from tilewright.eval.evidence.html_tree import HtmlTree, Node
from tilewright.eval.evidence.long_units import cut
from tilewright.eval.evidence.row_units import Row, is_layout, place_of, rows_of_grid
from tilewright.eval.evidence.table_grid import TableGrid, build_grid
from tilewright.eval.evidence.units import BLOCK, ROW, Unit, UnitOptions

CONTEXT_WORDS = 15  # of a list item or term, as context of what stands in it
MAX_WITHIN = 8  # items and terms that a unit stands in, the innermost ones
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ul", "ol", "dl", "menu", "dir"})
_DEFAULTS = UnitOptions()


def build_units(tree: HtmlTree, *, page_id: str = "", title: str = "", options: UnitOptions = _DEFAULTS) -> list[Unit]:
    """The units of a page in page order. ``title`` "": that of its first h1, else of its head."""
    builder = _Builder(page_id, title or title_of(tree.root), options)
    builder.read(tree.root)
    return builder.units


def title_of(root: Node) -> str:
    """A page's title: its first h1, else its title element; "" without either."""
    found: dict[str, Node] = {}
    for node in root.walk():
        if node.tag in ("h1", "title"):
            found.setdefault(node.tag, node)
        if node.tag == "h1":
            break
    node_ = found.get("h1") or found.get("title")
    return "" if node_ is None else text_of(node_).replace("\n", " ")


@dataclass(eq=False)
class _Definition:
    """The terms of the definition that is open in a list, and the number of its unit once it has one.

    ``has_dd``: the next dt begins another. ``shown``: all of the terms stand in some unit.
    """

    terms: list[str] = field(default_factory=list)
    has_dd: bool = False
    shown: bool = False
    unit: int | None = None


@dataclass(eq=False)
class _Block:
    """An open block: ``lead`` is the first line of its text if it is a list item or a dd."""

    node: Node
    definition: _Definition
    is_item: bool = False
    lead: str = ""
    in_pre: bool = False
    alts: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Placed:
    """A layout table inside a cell of another table, and what it stands in there."""

    node: Node
    place: str


_Stack = list[Node | _Block | _Placed]


class _Builder:
    def __init__(self, page_id: str, title: str, options: UnitOptions) -> None:
        self._found: list[Unit] = []
        self._page_id, self._title, self._options = page_id, as_label(title), options
        self._headings: list[tuple[int, str]] = []
        self._section: tuple[str, ...] = ()
        self._blocks: list[_Block] = []
        self._pieces: list[str] = []

    def read(self, root: Node) -> None:
        """Gather the units of ``root``."""
        self._blocks.append(_Block(root, _Definition()))
        stack: _Stack = list(reversed(root.children))
        while stack:
            item = stack.pop()
            if isinstance(item, _Block):
                self._flush()
                self._close(item)
            elif isinstance(item, _Placed):
                self._push(item.node, stack, lead=item.place)
            elif not item.tag:
                self._pieces.append(leaf(item.text, in_pre=self._blocks[-1].in_pre))
            elif item.tag == "br":
                self._pieces.append(BREAK)
            elif is_skipped(item) or self._is_reference_list(item):
                continue
            elif item.tag in BLOCKS:
                self._flush()
                self._read_block(item, stack)
            else:
                stack.extend(reversed(item.children))
        self._flush()
        self._end(self._blocks[0].definition, root)

    @property
    def units(self) -> list[Unit]:
        """What was gathered, long blocks cut, numbered."""
        made: list[Unit] = []
        for unit in self._found:
            bodies = [unit.body] if unit.kind == ROW else cut(unit.body, self._options.max_tokens)
            if len(bodies) == 1 and unit.pos == len(made):
                made.append(unit)
                continue
            for body in bodies:
                made.append(replace(unit, unit_id=f"{self._page_id}:{len(made)}", pos=len(made), body=body))
        return made

    def _read_block(self, node: Node, stack: _Stack) -> None:
        if node.tag in _HEADINGS:
            self._add_heading(node, text_of(node))
        elif node.tag == "table" and not is_layout(node):
            self._read_table(build_grid(node, self._options.grid), stack)
        elif node.tag == "p" and not any(child.tag in BLOCKS for child in node.children):
            tables: list[Node] = []
            gather(node, self._pieces, tables=tables)
            self._flush(node)
            stack.extend(reversed(tables))  # in a page without doctype, and inside an inline element
        else:
            self._push(node, stack)

    def _push(self, node: Node, stack: _Stack, lead: str = "") -> None:
        """Open a block: its children come next, then its end."""
        above = self._blocks[-1]
        definition = _Definition() if node.tag in _LISTS else above.definition
        block = _Block(node, definition, node.tag in ("li", "dd"), lead, above.in_pre or node.tag == "pre", above.alts)
        if node.tag == "figure":
            block.alts = tuple(item.get("alt").strip() for item in node.walk() if item.tag == "img")
        elif node.tag == "dt" and definition.has_dd:
            self._end(definition, node)
            block.definition = above.definition = _Definition()
        elif node.tag == "dd":
            definition.has_dd = True
            block.lead = _lead(" ".join(definition.terms))
        self._blocks.append(block)
        stack.append(block)
        stack.extend(reversed(node.children))

    def _close(self, block: _Block) -> None:
        self._blocks.pop()
        if block.definition is not self._blocks[-1].definition:
            self._end(block.definition, block.node)

    def _end(self, definition: _Definition, node: Node) -> None:
        """Terms that no unit shows, not even as context, are a unit."""
        if definition.terms and not definition.shown:
            definition.shown = True
            self._add_block(node, "\n".join(definition.terms))

    def _is_reference_list(self, node: Node) -> bool:
        return node.tag == "ol" and not self._options.references and "references" in node.get("class").split()

    def _add_heading(self, node: Node, text: str) -> None:
        """``text`` becomes context; one too long for that is a unit too."""
        level, label = _HEADINGS[node.tag], as_label(text)
        self._headings = [heading for heading in self._headings if heading[0] < level]
        if label and not (level == 1 and label.casefold() == self._title.casefold()):
            self._headings.append((level, label))
        self._section = tuple(heading for _, heading in self._headings)
        if len(text) > MAX_LABEL_CHARS:
            self._add_block(node, text)

    def _flush(self, node: Node | None = None) -> None:
        """Make a unit of the text gathered for ``node`` (None: the open block)."""
        if not self._pieces:
            return
        text = lines_of(self._pieces)
        self._pieces.clear()
        if not text:
            return
        block = self._blocks[-1]
        node = node or block.node
        if node.tag == "dt":
            block.definition.terms.append(text.replace("\n", " "))
        elif node.tag == "dd":
            self._add_definition(node, text, block.definition)
        elif node.tag == "figcaption":
            self._add_block(node, "; ".join(dict.fromkeys(part for part in (text, *block.alts) if part)))
        else:
            self._add_block(node, text)
        if block.is_item and not block.lead:
            block.lead = _lead(text)

    def _add_definition(self, node: Node, text: str, definition: _Definition) -> None:
        """A definition is one unit: its terms, then each dd's own text."""
        if definition.unit is None:
            definition.unit, definition.shown = len(self._found), True
            self._add_block(node, "\n".join([*definition.terms, text]), self._blocks[:-1])
        else:
            unit = self._found[definition.unit]
            self._found[definition.unit] = replace(unit, body=f"{unit.body}\n{text}")

    def _add_block(self, node: Node, text: str, blocks: Sequence[_Block] | None = None) -> None:
        self._add(BLOCK, node, text, self._within(self._blocks if blocks is None else blocks))

    def _add(
        self,
        kind: str,
        node: Node,
        body: str,
        within: tuple[str, ...],
        table_id: str = "",
        caption: tuple[str, ...] = (),
        row: Row | None = None,
    ) -> None:
        number = len(self._found)
        title, section = (self._title, self._section) if self._options.completed else ("", ())
        if not self._options.completed:
            within, caption, row = (), (), None
        place = (f"{self._page_id}:{number}", self._page_id, kind, number, node.path)
        unit = Unit(*place, title, section, body, within, table_id, caption, *(row.fields if row else ()))
        self._found.append(unit)

    @staticmethod
    def _within(blocks: Sequence[_Block]) -> tuple[str, ...]:
        for block in blocks:
            if block.node.tag == "dd" and block.lead == " ".join(block.definition.terms):
                block.definition.shown = True
        return tuple(block.lead for block in blocks if block.lead)[-MAX_WITHIN:]

    def _read_table(self, grid: TableGrid, stack: _Stack) -> None:
        """The units of a table and of those in its cells, whose context is the cell's labels."""
        waiting: list[tuple[TableGrid, tuple[str, ...]]] = [(grid, ())]
        layouts: list[_Placed] = []
        while waiting:
            table, within = waiting.pop()
            self._add_rows(table, within)
            inner = []
            for nested in table.nested:
                place = (*within, *map(as_label, (table.caption or "", *table.title)), *place_of(nested, table))
                where = tuple(part for part in place if part)
                if is_layout(nested.grid.node):
                    layouts.append(_Placed(nested.grid.node, " > ".join(where)))
                else:
                    inner.append((nested.grid, where))
            waiting.extend(reversed(inner))
        stack.extend(reversed(layouts))

    def _add_rows(self, grid: TableGrid, within: tuple[str, ...]) -> None:
        table_id = f"{self._page_id}:" + ".".join(map(str, grid.node.path))
        caption = tuple(as_label(text) for text in (grid.caption, *grid.title) if text)
        here = (*self._within(self._blocks), *within)
        if grid.caption:
            self._add(BLOCK, grid.node, grid.caption, here, table_id)
        for row in rows_of_grid(grid, pairing=self._options.pairing):
            bodies = row.bodies(self._options.max_tokens, completed=self._options.completed)
            if len(bodies) > 1:
                row = replace(row, header=(), values=())
            for body in bodies:
                self._add(ROW, row.node, body, here, table_id, caption, row)


def _lead(text: str) -> str:
    """The first line, at most CONTEXT_WORDS words."""
    return as_label(" ".join(text.split("\n", 1)[0].split()[:CONTEXT_WORDS]))
