"""Boundaries of sentences written into a page's tree: marks without width between and inside its text leaves.

No text is moved or copied: a leaf in which a sentence ends is split there. Taking the marks out again gives the tree
as it was, for the parser leaves no two text leaves side by side.
"""

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Sequence

from tilewright.eval.evidence.html_tree import Node
from tilewright.eval.evidence.spire.page_lines import Line
from tilewright.eval.evidence.spire.segmenters import Spans

BEGIN, END = "-sentence-begin", "-sentence-end"
Pieces = list[list[Node]]  # of each sentence its text leaves


def insert(lines: Sequence[tuple[Line, Spans]]) -> None:
    """Mark the sentences of lines, and set the lines' parts to the leaves that there are then.

    A line's spans are consecutive and cover its text. Inline elements stay as they are: a sentence may begin in one
    and end outside it.
    """
    replaced: dict[Node, list[Node]] = {}
    for line, spans in lines:
        _mark(line, spans, replaced)
    for parent in {leaf.parent for leaf in replaced}:
        if parent is None:
            raise ValueError("wanted text leaves with a parent")
        parent.children = [made for child in parent.children for made in replaced.get(child, (child,))]
        renumber(parent)


def pieces(parts: Sequence[tuple[Node, int]], spans: Spans) -> Pieces:
    """Of each sentence its text leaves: those that start in its span."""
    found: Pieces = [[] for _ in spans]
    number = 0
    for leaf, start in parts:
        while number + 1 < len(spans) and spans[number + 1][0] <= start:
            number += 1
        found[number].append(leaf)
    return found


def _mark(line: Line, spans: Spans, replaced: dict[Node, list[Node]]) -> None:
    """Put what takes the place of the line's leaves into ``replaced``."""
    cuts: defaultdict[Node, list[tuple[int, int, int]]] = defaultdict(list)  # (offset, sentence, 0 begin or 1 end)
    starts = [start for _, start in line.parts]
    ends = [start + len(leaf.text) for leaf, start in line.parts]
    for number, (start, end) in enumerate(spans):
        leaf, first = line.parts[min(bisect_right(ends, start), len(ends) - 1)]  # a begin goes before its text
        cuts[leaf].append((max(0, start - first), number, 0))
        leaf, first = line.parts[max(0, bisect_left(starts, end) - 1)]  # an end behind its own
        cuts[leaf].append((min(len(leaf.text), end - first), number, 1))
    line.parts = [
        (piece, first + offset)
        for leaf, first in line.parts
        for piece, offset in _split(leaf, sorted(cuts.get(leaf, ())), replaced)
    ]


def _split(
    leaf: Node, cuts: Sequence[tuple[int, int, int]], replaced: dict[Node, list[Node]]
) -> list[tuple[Node, int]]:
    """(text leaf, its offset in ``leaf``) of the parts of ``leaf``, which is the first of them itself."""
    if not cuts:
        return [(leaf, 0)]
    text, position = leaf.text, 0
    made: list[Node] = []
    texts: list[tuple[Node, int]] = []
    for offset, number, is_end in [*cuts, (len(text), 0, -1)]:
        if offset > position:
            piece = leaf if not texts else Node("", {}, "", None)
            piece.text = text[position:offset]
            made.append(piece)
            texts.append((piece, position))
            position = offset
        if is_end >= 0:
            made.append(Node(END if is_end else BEGIN, {"sentence": str(number)}, "", None))
    replaced[leaf] = made
    return texts


def renumber(parent: Node) -> None:
    """Set ``parent`` and ``index`` of the children."""
    for index, child in enumerate(parent.children):
        child.index, child.parent = index, parent


def remove(root: Node) -> None:
    """Take all marks out of a tree and join the text leaves that they parted."""
    for node in list(root.walk()):
        if any(child.tag in (BEGIN, END) for child in node.children):
            node.children = _joined([child for child in node.children if child.tag not in (BEGIN, END)])
            renumber(node)


def _joined(children: Sequence[Node]) -> list[Node]:
    joined: list[Node] = []
    for child in children:
        if joined and not child.tag and not joined[-1].tag:
            joined[-1].text += child.text
        else:
            joined.append(child)
    return joined
