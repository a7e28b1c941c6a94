"""A page as SPIRE sees it: its tree with sentence marks, numbered paths, seeds, and the lines that give context."""

import hashlib
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from tilewright.eval.evidence.html_tree import PARSER, Node, parse_html
from tilewright.eval.evidence.spire import sentinels
from tilewright.eval.evidence.spire.algebra import Path, Paths, Tree
from tilewright.eval.evidence.spire.page_lines import Line, LineReader
from tilewright.eval.evidence.spire.segmenters import Segmenter, Spans
from tilewright.eval.evidence.spire.table_context import CellContext, table_context

BUILDER = "spire tree 1"
_ENDS = (".", "!", "?", "…", "。", "！", "？")


@dataclass(frozen=True)
class Seed:
    """A sentence, or a table cell without one: what is retrieved and cited.

    ``number``: its place among the page's seeds; ``line``: the line that it is of; ``paths``: its identity, text leaves
    or the cell; ``leaves``: its text leaves by number; ``text``: what it says, blanks collapsed.
    """

    number: int
    line: int
    paths: Paths
    leaves: tuple[int, ...]
    text: str


@dataclass(eq=False)
class Document:
    """``document_id``: SHA-256 of the HTML, parser and segmenter, for which alone its paths hold.

    ``title``: the line that titles the page, None without one; ``lines`` and ``seeds`` in document order; ``leaves``:
    (text leaf, its line), numbered in document order; ``cell_context``: of each cell the elements that it needs.
    """

    document_id: str
    root: Node
    lines: list[Line]
    title: int | None
    seeds: list[Seed]
    leaves: list[tuple[Node, int]]
    cell_context: CellContext
    line_leaves: list[tuple[int, ...]]
    contexts: dict[int, frozenset[int]] = field(default_factory=dict)

    @cached_property
    def tree(self) -> Tree:
        """The tree that paths are of, marks included."""
        made: dict[Node, Tree] = {}
        nodes = list(self.root.walk())
        paths: dict[Node, Path] = {self.root: ()}
        for node in nodes:
            for child in node.children:
                paths[child] = (*paths[node], child.index)
        for node in reversed(nodes):
            below = tuple(made[child] for child in node.children)
            made[node] = Tree(paths[node], node.tag, node.text, below)
        return made[self.root]

    @cached_property
    def text(self) -> str:
        """All seeds' texts, one a line."""
        return "\n".join(seed.text for seed in self.seeds)

    @cached_property
    def cell_lines(self) -> dict[Node, list[int]]:
        """{cell: the lines of its own text}."""
        found: dict[Node, list[int]] = {}
        for line in self.lines:
            if line.cell is not None:
                found.setdefault(line.cell, []).append(line.number)
        return found

    @cached_property
    def caption_lines(self) -> dict[Node, list[int]]:
        """{caption: its lines}."""
        found: dict[Node, list[int]] = {}
        for line in self.lines:
            node: Node | None = line.block
            while node is not None and node.tag not in ("caption", "table"):
                node = node.parent
            if node is not None and node.tag == "caption":
                found.setdefault(node, []).append(line.number)
        return found

    @cached_property
    def row_lines(self) -> dict[Node, list[int]]:
        """{table row: its lines}."""
        found: dict[Node, list[int]] = {}
        for line in self.lines:
            if line.row is not None:
                found.setdefault(line.row, []).append(line.number)
        return found

    def leaves_of(self, seeds: Iterable[int]) -> frozenset[int]:
        """The numbers of the text leaves of seeds."""
        return frozenset(leaf for number in seeds for leaf in self.seeds[number].leaves)

    def paths_of(self, leaves: Iterable[int]) -> Paths:
        """The paths of text leaves by number."""
        return frozenset(self.leaves[number][0].path for number in leaves)


def document_id(html: str, segmenter: Segmenter) -> str:
    """What stored paths are valid for: the HTML, the parser, the segmenter and our own builder."""
    digest = hashlib.sha256(html.encode("utf-8", "surrogatepass")).hexdigest()
    return f"{digest}; {PARSER}; {segmenter.identity}; {BUILDER}"


def build_document(html: str, segmenter: Segmenter, *, references: bool = False) -> Document:
    """Parse, collapse blank text, find lines, insert sentence marks, number. ``references``: lists of them too."""
    root = parse_html(html).root
    for node in root.walk():
        if not node.tag and node.text.isspace():
            node.text = " "
    reader = LineReader(root, references=references)
    lines, title = _with_title(root, reader.lines)
    context: CellContext = {}
    for table in reader.tables:
        context.update(table_context(table))
    sentences = [(line, segmenter.spans(line.text)) for line in lines if not line.level]
    cells = _cells(sentences)
    sentinels.insert([(line, spans) for line, spans in sentences if line not in cells])
    leaves = [(leaf, line.number) for line in lines for leaf, _ in line.parts]
    number_of = {leaf: number for number, (leaf, _) in enumerate(leaves)}
    line_leaves = [tuple(number_of[leaf] for leaf, _ in line.parts) for line in lines]
    seeds = _seeds(sentences, cells, number_of)
    return Document(document_id(html, segmenter), root, lines, title, seeds, leaves, context, line_leaves)


def _with_title(root: Node, lines: list[Line]) -> tuple[list[Line], int | None]:
    """The lines with that of the head's title first, unless a first heading says the same; and the title's number."""
    node = next((node for node in root.walk() if node.tag == "title" and node.children), None)
    head = next((line for line in lines if line.level == 1), None)
    text = "".join(child.text for child in node.children if not child.tag) if node is not None else ""
    if node is None or not text.strip() or (head is not None and _same(head.text, text)):
        return lines, None if head is None else head.number
    parts = [(child, 0) for child in node.children if not child.tag][:1]
    for line in lines:
        line.number += 1
        line.headings = tuple(number + 1 for number in line.headings)
        line.lead = None if line.lead is None else line.lead + 1
    return [Line(0, node, (), (), None, None, None, None, 1, parts, text), *lines], 0


def _same(left: str, right: str) -> bool:
    return " ".join(left.split()).casefold() == " ".join(right.split()).casefold()


def _cells(sentences: Sequence[tuple[Line, Spans]]) -> dict[Line, Node]:
    """{line: its cell} where the line is all that is in its cell and no sentence ends in it."""
    alone = Counter(line.cell for line, _ in sentences)
    return {
        line: line.cell
        for line, spans in sentences
        if line.cell is not None
        and alone[line.cell] == 1
        and len(spans) == 1
        and not line.text.rstrip().endswith(_ENDS)
    }


def _seeds(
    sentences: Sequence[tuple[Line, Spans]], cells: Mapping[Line, Node], number_of: Mapping[Node, int]
) -> list[Seed]:
    seeds: list[Seed] = []
    for line, spans in sentences:
        pieces = sentinels.pieces(line.parts, spans)
        for (start, end), leaves in zip(spans, pieces, strict=True):
            text = " ".join(line.text[start:end].split())
            if not text or not leaves:
                continue
            paths = frozenset([cells[line].path] if line in cells else [leaf.path for leaf in leaves])
            seeds.append(Seed(len(seeds), line.number, paths, tuple(number_of[leaf] for leaf in leaves), text))
    return seeds
