"""What kind of row each row of a laid-out table is, and which labels its cells have: the first rule that matches wins.

Columns in which every cell is empty don't count, so that an added empty column changes nothing.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from tilewright.eval.evidence.html_text import as_label
from tilewright.eval.evidence.table_cells import Cell, TableRow
from tilewright.eval.evidence.table_geometry import Layout, Span

SHORT_GROUP_CHARS = 100
Path = tuple[str, ...]


@dataclass(frozen=True)
class LabelOptions:
    """``bold_header``: in a table without th, a first row that is wholly bold is its header."""

    bold_header: bool = True


@dataclass(frozen=True, eq=False)
class Entry:
    """A labelled text: ``columns`` that it covers, ``labels`` one path a column that has one."""

    text: str
    columns: tuple[int, ...]
    labels: tuple[Path, ...]
    cell: Cell


@dataclass(frozen=True, eq=False)
class LabelledRow:
    """A row's entries: ``labels`` from th, ``cells`` from td; ``header``: the column paths above it, () without any."""

    row: int
    kind: str
    group: tuple[str, ...]
    labels: tuple[Entry, ...]
    cells: tuple[Entry, ...]
    header: tuple[Path, ...] = ()


@dataclass
class Labels:
    """The labelled rows of a table, also those of nothing but tables; ``context_rows``: its titles, groups, headers."""

    title: list[str] = field(default_factory=list)
    header_rows: list[int] = field(default_factory=list)
    rows: list[LabelledRow] = field(default_factory=list)
    context_rows: list["ContextRow"] = field(default_factory=list)


@dataclass(eq=False)
class ContextRow:
    """A title, group or header row: it is shown with the rows that it belongs to, or, ``used`` by none, by itself."""

    row: int
    text: str
    used: bool = False


class Labeller:
    """Goes through the rows of one table from the top; ``labels`` is the result."""

    def __init__(self, rows: Sequence[TableRow], layout: Layout, options: LabelOptions) -> None:
        self._source, self._layout, self._options = rows, layout, options
        self._own = [rows[number].cells for number in range(len(layout.spans))]
        self._filled = {cell.column for cells in self._own for cell in cells if not cell.is_empty}
        self._ids: dict[str, Cell] = {}
        for cell in (cell for cells in self._own for cell in cells if cell.node.attributes):
            self._ids.setdefault(cell.node.get("id"), cell)
        self._has_th = any(cell.is_header for cells in self._own for cell in cells)
        self._full = [self._full_width(number) for number in range(len(self._own))]
        self._normal = [not self._full[n] and any(not c.is_empty for c in self._own[n]) for n in range(len(self._own))]
        self._last_normal = max((n for n, normal in enumerate(self._normal) if normal), default=-1)
        self._headers: list[int] = []  # of the block above
        self._header_is_open = self._started = False
        self._known_paths: tuple[Path, ...] | None = ()  # None: of a block that isn't read yet
        self._in_header: set[Cell] = set()
        self._group: ContextRow | None = None
        self._row_groups: dict[int, tuple[int, Cell]] = {}  # by column: row group, its th
        self._title: ContextRow | None = None
        self._header_contexts: list[ContextRow] = []
        self.labels = Labels()
        for number in range(len(self._own)):
            self._label(number)

    def _label(self, number: int) -> None:
        cells = [cell for cell in self._own[number] if not cell.is_empty]
        if not cells:
            return
        if self._is_header(number):
            self._add_header(number)
            return
        self._header_is_open = False
        if not self._full[number]:
            self._add_data(number)
        elif self._is_title(number, cells[0]):
            self.labels.title.append(cells[0].text)
            self._title = self._context(number)
        elif self._is_group(number, cells[0]):
            self._group, self._started = self._context(number), True
        else:
            self._add_row(number, "note", (), [Entry(cells[0].text, (), (), cells[0])] if cells[0].text else [])

    def _full_width(self, number: int) -> Cell | None:
        """The only cell of a row if it lies over all columns and no other row."""
        own = [cell for cell in self._own[number] if not cell.is_empty]
        spans = self._layout.spans[number]
        if self._layout.width < 2 or len(own) != 1 or own[0].end_row - number != 1:
            return None
        covered = {column for start, stop, cell in spans if cell is own[0] for column in range(start, stop)}
        whole = len(covered) == self._layout.width or (len(self._filled) > 1 and covered >= self._filled)
        return own[0] if whole else None

    def _is_header(self, number: int) -> bool:
        if self._full[number]:
            return False
        if self._source[number].in_head:
            return True
        cells = [cell for cell in self._own[number] if not cell.is_empty or cell.column in self._filled]
        filled = [cell for cell in cells if not cell.is_empty]
        if len(cells) < 2:
            return False
        if all(cell.is_header and cell.scope not in ("row", "rowgroup") for cell in filled):
            return True
        bold = self._options.bold_header and not self._has_th and not any(self._normal[:number]) and not self._started
        return bold and all(cell.is_bold for cell in filled)

    def _is_title(self, number: int, cell: Cell) -> bool:
        return self._heads(number, cell) and not self._started and not self.labels.title

    def _heads(self, number: int, cell: Cell) -> bool:
        """Whether it is a th that says something, with a normal row somewhere after."""
        return cell.is_header and bool(cell.text) and number < self._last_normal

    def _is_group(self, number: int, cell: Cell) -> bool:
        if cell.is_header or not cell.text:
            return self._heads(number, cell)
        if cell.is_bold:
            return True
        following = next((n for n in range(number + 1, len(self._own)) if self._full[n] or self._normal[n]), None)
        return (
            bool(self._headers)
            and len(cell.text) <= SHORT_GROUP_CHARS
            and following is not None
            and self._normal[following]
        )

    def _add_header(self, number: int) -> None:
        if not self._header_is_open:
            self._headers, self._header_contexts = [], []
        self._headers.append(number)
        self._header_contexts.append(self._context(number))
        self.labels.header_rows.append(number)
        self._in_header.update(self._own[number])
        self._header_is_open = self._started = True
        self._known_paths = None

    @property
    def _paths(self) -> tuple[Path, ...]:
        """The label path of each column, once the block above is whole; () without one."""
        if self._known_paths is None:
            columns: list[list[str]] = [[] for _ in range(self._layout.width)]
            for row in self._headers:
                for start, stop, cell in self._layout.spans[row]:
                    if cell.text and cell in self._in_header:
                        for column in range(start, stop):
                            columns[column].append(cell.label)
            self._known_paths = tuple(tuple(text for text, _ in groupby(path)) for path in columns)
        return self._known_paths

    def _add_data(self, number: int) -> None:
        self._started = True
        grouping = [] if self._is_alone(number) else [c for c in self._own[number] if c.scope == "rowgroup"]
        for cell in grouping:
            self._row_groups[cell.column] = (self._source[number].group, cell)
        heads = {cell for _, cell in self._row_groups.values()}
        spans = [
            (start, stop, cell)
            for start, stop, cell in self._layout.spans[number]
            if cell not in self._in_header and cell not in heads
        ]
        pairs = {cell: key for cell, key in self._pairs(spans).items() if not self._named(cell)}
        entries = self._entries(spans)
        if pairs:
            entries = self._paired(entries, pairs)
        labels = [entry for entry in entries if entry.cell.is_header]
        cells = [entry for entry in entries if not entry.cell.is_header]
        named = [self._named(entry.cell) for entry in cells]
        labels = [entry for entry in labels if not (named and all(entry.cell in cells_ for cells_ in named))]
        kind = "key-value" if pairs or (not self._headers and labels and cells) else "data"
        self._add_row(number, kind, labels, cells)

    def _is_alone(self, number: int) -> bool:
        """Whether a row has a row group's th and nothing else, and no row comes that would show it as its group."""
        shown = [cell for cell in self._own[number] if not cell.is_empty]
        if any(cell.scope != "rowgroup" for cell in shown):
            return False
        rows = range(number + 1, min(self._source[number].group_end, len(self._own)))
        following = next((n for n in rows if self._normal[n] and not self._is_header(n)), None)
        columns = {cell.column for cell in shown}
        return following is None or any(c.scope == "rowgroup" and c.column in columns for c in self._own[following])

    def _paired(self, entries: Sequence[Entry], pairs: Mapping[Cell, Cell]) -> list[Entry]:
        """Each td under what is above it, then its own th; a th whose td is empty stays, as a label."""
        shown = {key for cell, key in pairs.items() if cell.text}
        made = [entry for entry in entries if entry.cell not in pairs and entry.cell not in shown]
        for entry in entries:
            if entry.cell in pairs:
                key = pairs[entry.cell].label
                above = [self._paths[column] if self._paths else () for column in entry.columns]
                paths = dict.fromkeys((*path, *([key] if key else [])) for path in above)
                made.append(Entry(entry.text, entry.columns, tuple(path for path in paths if path), entry.cell))
        return made

    def _pairs(self, spans: Sequence[Span]) -> dict[Cell, Cell]:
        """{td: its th} of a row th, td, th, td, ...; else {}."""
        cells = list(dict.fromkeys(cell for start, _, cell in spans if not cell.is_empty or start in self._filled))
        kinds = [cell.is_header for cell in cells]
        if len(cells) < 4 or kinds != [True, False] * (len(cells) // 2):
            return {}
        return dict(zip(cells[1::2], cells[::2], strict=True))

    def _entries(self, spans: Sequence[Span]) -> list[Entry]:
        columns: dict[Cell, list[int]] = {}
        for start, stop, cell in spans:
            if cell.text:
                columns.setdefault(cell, []).extend(range(start, stop))
        return [Entry(cell.text, tuple(own), self._labels_of(cell, own), cell) for cell, own in columns.items()]

    def _labels_of(self, cell: Cell, columns: Sequence[int]) -> tuple[Path, ...]:
        named = tuple(other.label for other in self._named(cell) if other.text)
        if named:
            return (named,)
        return tuple(self._paths[column] for column in columns if self._paths and self._paths[column])

    def _named(self, cell: Cell) -> list[Cell]:
        """The cells that its ``headers`` attribute names, in that order."""
        names = cell.node.get("headers").split() if cell.node.attributes else ()
        return [other for name in names if (other := self._ids.get(name)) is not None and other is not cell]

    def _add_row(self, number: int, kind: str, labels: Sequence[Entry], cells: Sequence[Entry]) -> None:
        is_shown = bool(labels or cells)
        if not is_shown and not any(cell.tables for cell in self._own[number]):
            return
        group = [as_label(self._group.text)] if self._group else []
        here = self._source[number].group
        group += [cell.label for of, cell in self._row_groups.values() if of == here and cell.text]
        for context in (self._title, self._group, *(self._header_contexts if kind != "note" else ())):
            if context is not None and is_shown:
                context.used = True
        header = () if kind == "note" else self._paths
        self.labels.rows.append(LabelledRow(number, kind, tuple(group), tuple(labels), tuple(cells), header))

    def _context(self, number: int) -> ContextRow:
        text = " | ".join(cell.text.replace("\n", " ") for cell in self._own[number] if cell.text)
        self.labels.context_rows.append(ContextRow(number, text))
        return self.labels.context_rows[-1]
