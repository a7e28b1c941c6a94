"""Global context: the title, headings, list labels, and headers of a table that a sentence needs to be understood.

By document order, for nesting of HTML isn't the scope of its headings. What is context of context belongs to it, so
that taking the context of a set twice changes nothing, and that of a union is the union.
"""

from collections.abc import Iterable, Iterator

from tilewright.eval.evidence.html_tree import Node
from tilewright.eval.evidence.spire.document import Document


def context_lines(document: Document, line: int) -> frozenset[int]:
    """The lines that ``line`` needs, and those that they need."""
    known = document.contexts.get(line)
    if known is not None:
        return known
    found: set[int] = set()
    waiting = [line]
    while waiting:
        for other in _direct(document, waiting.pop()):
            if other not in found:
                found.add(other)
                waiting.append(other)
    document.contexts[line] = frozenset(found)
    return document.contexts[line]


def with_context(document: Document, leaves: Iterable[int]) -> frozenset[int]:
    """P and G(P), as numbers of text leaves: the leaves, and all those of the lines that their lines need."""
    selected = frozenset(leaves)
    lines = {document.leaves[leaf][1] for leaf in selected}
    needed = {other for line in lines for other in context_lines(document, line)}
    return selected.union(*(document.line_leaves[line] for line in needed))


def _direct(document: Document, number: int) -> Iterator[int]:
    line = document.lines[number]
    if document.title is not None and document.title != number:
        yield document.title
    yield from line.headings
    if line.lead is not None:
        yield line.lead
    if line.cell is not None:
        for node in document.cell_context.get(line.cell, ()):
            yield from _lines_of(document, node)


def _lines_of(document: Document, node: Node) -> list[int]:
    return document.cell_lines.get(node) or document.caption_lines.get(node, [])
