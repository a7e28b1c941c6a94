"""Boundaries of sentences written into a page's tree: marks without width between and inside its text leaves.

No text is moved or copied: a leaf in which a sentence ends is split there. Taking the marks out again gives the tree
as it was, for the parser leaves no two text leaves side by side.
"""

from collections import defaultdict
from collections.abc import Sequence

from tilewright.eval.evidence.html_tree import Node
from tilewright.eval.evidence.spire.page_lines import Line
from tilewright.eval.evidence.spire.segmenters import Spans

BEGIN, END = "-sentence-begin", "-sentence-end"
Pieces = list[list[Node]]  # of each sentence its text leaves


def insert(line: Line, spans: Spans) -> Pieces:
    """Mark the sentences ``spans`` of a line's text; return the leaves of each, and set the line's parts to them.

    ``spans`` are consecutive and cover the text. Inline elements stay as they are: a sentence may begin in one and end
    outside it.
    """
    cuts: defaultdict[Node, list[tuple[int, int, int]]] = defaultdict(list)  # (offset in the leaf, 0 end or 1 begin, i)
    for number, (start, end) in enumerate(spans):
        leaf, first = _part_at(line.parts, start, is_end=False)
        cuts[leaf].append((max(0, start - first), 1, number))
        leaf, first = _part_at(line.parts, end, is_end=True)
        cuts[leaf].append((min(len(leaf.text), end - first), 0, number))
    pieces: Pieces = [[] for _ in spans]
    parts: list[tuple[Node, int]] = []
    for leaf, first in line.parts:
        for piece, offset in _split(leaf, sorted(cuts.get(leaf, ()))):
            parts.append((piece, first + offset))
            pieces[_owner(spans, first + offset, len(pieces))].append(piece)
    line.parts = parts
    return pieces


def _part_at(parts: Sequence[tuple[Node, int]], offset: int, *, is_end: bool) -> tuple[Node, int]:
    """The leaf that a mark at ``offset`` is in: an end stays with the text before it, a begin with that behind it."""
    if is_end:
        return next((part for part in reversed(parts) if part[1] < offset), parts[0])
    return next((part for part in parts if offset < part[1] + len(part[0].text)), parts[-1])


def _owner(spans: Spans, offset: int, count: int) -> int:
    low, high = 0, count - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if spans[middle][0] <= offset else (low, middle - 1)
    return low


def _split(leaf: Node, cuts: Sequence[tuple[int, int, int]]) -> list[tuple[Node, int]]:
    """Put marks into ``leaf``'s place; return (text leaf, its offset in the old one). The first one is ``leaf``."""
    if not cuts:
        return [(leaf, 0)]
    text, made, texts, position = leaf.text, [], [], 0
    ordered = _ordered(cuts)
    for offset, is_begin, number in [*ordered, (len(text), -1, 0)]:
        if offset > position:
            piece = leaf if not texts else Node("", {}, "", None)
            piece.text = text[position:offset]
            made.append(piece)
            texts.append((piece, position))
            position = offset
        if is_begin >= 0:
            made.append(Node(BEGIN if is_begin else END, {"sentence": str(number)}, "", None))
    _replace(leaf, made)
    return texts


def _ordered(cuts: Sequence[tuple[int, int, int]]) -> list[tuple[int, int, int]]:
    """At one place a sentence's end comes before the next one's begin, and after its own begin."""
    return sorted(cuts, key=lambda cut: (cut[0], cut[2], -cut[1]))


def _replace(leaf: Node, made: Sequence[Node]) -> None:
    parent, index = leaf.parent, leaf.index
    if parent is None:
        raise ValueError("wanted a text leaf with a parent")
    parent.children[index : index + 1] = made
    renumber(parent, index)


def renumber(parent: Node, start: int = 0) -> None:
    """Set ``parent`` and ``index`` of the children from ``start`` on."""
    for index in range(start, len(parent.children)):
        child = parent.children[index]
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
