"""Blocks of a page, the baseline that sentences are compared with: subtrees of at most so many tokens.

The block tree of HtmlRAG (arXiv 2411.02959): an element whose text fits is one block, else its children are looked at;
text of its own that stands between them is a block. A longer text is cut at ends of sentences.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.eval.evidence.html_tree import Node
from tilewright.eval.evidence.spire.document import Document
from tilewright.eval.evidence.spire.markdown import render
from tilewright.eval.evidence.spire.views import CountTokens

BLOCK_TOKENS = 512


@dataclass(frozen=True)
class PageBlock:
    """``seeds`` of a page that stand in one block, in order; ``text``: the block as Markdown, its headings included."""

    seeds: tuple[int, ...]
    text: str


def blocks_of(document: Document, count: CountTokens, tokens: int = BLOCK_TOKENS) -> list[PageBlock]:
    """The blocks of a page in document order. Blocks without a sentence (headings alone) are left out."""
    seeds_of: dict[int, list[int]] = {}
    for seed in document.seeds:
        seeds_of.setdefault(seed.line, []).append(seed.number)
    found: list[PageBlock] = []
    for lines in _groups(document, count, tokens):
        seeds = [seed for line in lines for seed in seeds_of.get(line, ())]
        text = render(document, [leaf for line in lines for leaf in document.line_leaves[line]])
        if len(lines) == 1 and len(seeds) > 1 and count(text) > tokens:
            found.extend(_cut(document, seeds, count, tokens))
        elif seeds:
            found.append(PageBlock(tuple(seeds), text))
    return found


def _groups(document: Document, count: CountTokens, tokens: int) -> Iterator[list[int]]:
    """The lines of each block."""
    below: dict[Node, list[int]] = {}
    for line in document.lines:
        node: Node | None = line.block
        while node is not None:
            below.setdefault(node, []).append(line.number)
            node = node.parent
    sizes = [count(line.text) for line in document.lines]
    stack: list[Node | int] = [document.root]
    while stack:
        item = stack.pop()
        if isinstance(item, int):
            yield [item]
            continue
        lines = below.get(item, [])
        if sum(sizes[line] for line in lines) <= tokens or len(lines) == 1:
            if lines:
                yield lines
            continue
        own = [line for line in lines if document.lines[line].block is item]
        parts: list[tuple[int, Node | int]] = [(line, line) for line in own]
        parts += [(below[child][0], child) for child in _block_children(item, below)]
        stack.extend(part for _, part in sorted(parts, key=lambda pair: -pair[0]))


def _block_children(node: Node, below: dict[Node, list[int]]) -> Iterator[Node]:
    return (child for child in node.children if child in below)


def _cut(document: Document, seeds: list[int], count: CountTokens, tokens: int) -> Iterator[PageBlock]:
    held: list[int] = []
    for seed in seeds:
        if held and count(render(document, document.leaves_of([*held, seed]))) > tokens:
            yield PageBlock(tuple(held), render(document, document.leaves_of(held)))
            held = []
        held.append(seed)
    yield PageBlock(tuple(held), render(document, document.leaves_of(held)))
