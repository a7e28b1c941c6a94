"""HtmlRAG (reimplemented): a page's cleaned HTML, its least relevant blocks removed until it fits a budget of tokens.

After arXiv 2411.02959: cleaning, a block tree by a greatest number of words, blocks ranked for the query, the lowest
removed first. The published pruner cuts its ranked list before it removes blocks and so keeps the wrong ones; this one
removes from the low end. Its second step, a generative pruner, needs its authors' weights and isn't here.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tilewright.eval.evidence.html_text import is_skipped
from tilewright.eval.evidence.html_tree import HtmlTree, Node
from tilewright.eval.evidence.packing import CountTokens
from tilewright.eval.evidence.rerankers import Reranker

BLOCK_WORDS = 256
_KEPT_EMPTY = frozenset({"br", "hr", "td", "th"})


@dataclass(frozen=True)
class HtmlBlock:
    """A node of the cleaned tree that is kept or removed as a whole, and its text."""

    node: Node
    text: str


def cleaned(tree: HtmlTree) -> Node:
    """A copy without attributes, what is no content and empty elements; single-child chains are one element."""
    root = Node(tree.root.tag, {}, "", None)
    stack = [(child, root) for child in reversed(tree.root.children)]
    while stack:
        source, parent = stack.pop()
        if not source.tag:
            Node("", {}, " ".join(source.text.split()), parent)
        elif not is_skipped(source):
            made = Node(source.tag, {}, "", parent)
            stack.extend((child, made) for child in reversed(source.children))
    for node in reversed(list(root.walk())):  # children before parents
        node.children = [merged for child in node.children if (merged := _merged(child)) is not None]
    return root


def _merged(node: Node) -> Node | None:
    """``node``, its only element if it has nothing else, None if there's nothing in it."""
    if not node.tag:
        return node if node.text else None
    if not node.children:
        return node if node.tag in _KEPT_EMPTY else None
    only = node.children[0]
    return only if len(node.children) == 1 and only.tag and node.tag not in ("td", "th", "tr", "table") else node


def blocks_of(root: Node, max_words: int = BLOCK_WORDS) -> list[HtmlBlock]:
    """The highest nodes with at most ``max_words`` words, in document order; a longer text is one block."""
    texts: dict[Node, list[str]] = {}
    for node in reversed(list(root.walk())):
        own = [node.text] if not node.tag else [text for child in node.children for text in texts[child]]
        texts[node] = [" ".join(own)] if own else []
    found, stack = [], [root]
    while stack:
        node = stack.pop()
        text = " ".join(texts[node])
        if not node.children or len(text.split()) <= max_words:
            if text:
                found.append(HtmlBlock(node, text))
        else:
            stack.extend(reversed(node.children))
    return found


def render(root: Node) -> str:
    """The HTML of a cleaned node."""
    filled: dict[Node, bool] = {}
    for node in reversed(list(root.walk())):
        filled[node] = bool(node.text) or any(filled[child] for child in node.children)
    parts: list[str] = []
    stack: list[Node | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
        elif not item.tag:
            parts.append(item.text.replace("&", "&amp;").replace("<", "&lt;"))
        elif filled[item] or item.tag in _KEPT_EMPTY:
            stack += _element(item, item.children if filled[item] else (), parts)
    return "".join(parts)


class CleanPage:
    """A page cleaned and in blocks of at most ``max_words`` words, made once for all questions."""

    def __init__(self, tree: HtmlTree, max_words: int = BLOCK_WORDS) -> None:
        self.root = cleaned(tree)
        self.blocks = blocks_of(self.root, max_words)
        self._parents = {child: node for node in self.root.walk() for child in node.children}
        self._rendered: dict[Node, str] = {}

    def html(self, kept: Iterable[HtmlBlock]) -> str:
        """The HTML of ``kept`` and of what they stand in, "" for none; cells of a row that stays stay too."""
        whole = {block.node for block in kept}
        filled = set(whole)
        for node in whole:
            above = self._parents.get(node)
            while above is not None and above not in filled:
                filled.add(above)
                above = self._parents.get(above)
        parts: list[str] = []
        stack: list[Node | str] = [self.root] if whole else []
        while stack:
            item = stack.pop()
            if isinstance(item, str):
                parts.append(item)
            elif item in whole:
                parts.append(self._html_of(item))
            elif item in filled or item.tag in _KEPT_EMPTY:
                stack += _element(item, item.children if item in filled else (), parts)
        return "".join(parts)

    def _html_of(self, node: Node) -> str:
        if node not in self._rendered:
            self._rendered[node] = render(node)
        return self._rendered[node]


def pruned(query: str, pages: Sequence[CleanPage], budget: int, count_tokens: CountTokens, reranker: Reranker) -> str:
    """The HTML of ``pages``, of at most ``budget`` tokens; "" if no block fits.

    As many of the best blocks as fit: their number is doubled until they don't, and then searched. The best ones are
    passed over while they alone are too long.
    """
    blocks = [(number, block) for number, page in enumerate(pages) for block in page.blocks]
    scores = reranker.score(query, [block.text for _, block in blocks]) if blocks else []
    best = [blocks[index] for index in sorted(range(len(blocks)), key=lambda index: (-scores[index], index))]

    def html(count: int) -> str:
        kept = [[block for number, block in best[:count] if number == page] for page in range(len(pages))]
        return "\n".join(filter(None, (page.html(own) for page, own in zip(pages, kept, strict=True))))

    while best and count_tokens(html(1)) > budget:
        del best[0]
    fits, over = 0, 1
    while over <= len(best) and count_tokens(html(over)) <= budget:
        fits, over = over, 2 * over
    over = min(over, len(best) + 1)
    while over - fits > 1:
        middle = (fits + over) // 2
        fits, over = (middle, over) if count_tokens(html(middle)) <= budget else (fits, middle)
    return html(fits)


def _element(node: Node, children: Sequence[Node], parts: list[str]) -> list[Node | str]:
    """Add the start tag to ``parts``; what comes next, last first."""
    parts.append(f"<{node.tag}>")
    end = () if node.tag in ("br", "hr") else (f"</{node.tag}>",)
    return [*end, *reversed(children)]
