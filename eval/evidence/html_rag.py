"""HtmlRAG (reimplemented): a page's cleaned HTML, its least relevant blocks removed until it fits a budget of tokens.

After arXiv 2411.02959: cleaning, a block tree by a greatest number of words, blocks ranked for the query, the lowest
removed first. The published pruner cuts its ranked list before it removes blocks and so keeps the wrong ones; this one
removes from the low end. Its second step, a generative pruner, needs its authors' weights and isn't here.
"""

from collections.abc import Sequence
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


def render(root: Node, removed: set[Node]) -> str:
    """The HTML of a cleaned tree without ``removed`` and what is empty then; cells of a row that stays stay too."""
    filled: dict[Node, bool] = {}
    for node in reversed(list(root.walk())):
        filled[node] = node not in removed and (bool(node.text) or any(filled[child] for child in node.children))
    parts: list[str] = []
    stack: list[Node | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            parts.append(item)
        elif not item.tag:
            parts.append(item.text.replace("&", "&amp;").replace("<", "&lt;") if filled[item] else "")
        elif filled[item] or (item.tag in _KEPT_EMPTY and item is not root):
            parts.append(f"<{item.tag}>")
            if item.tag not in ("br", "hr"):
                stack.append(f"</{item.tag}>")
            stack.extend(reversed(item.children) if filled[item] else ())
    return "".join(parts)


def pruned(
    query: str,
    pages: Sequence[HtmlTree],
    budget: int,
    count_tokens: CountTokens,
    reranker: Reranker,
    *,
    max_words: int = BLOCK_WORDS,
) -> str:
    """The HTML of ``pages``, of at most ``budget`` tokens; "" if not even its best block fits."""
    roots = [cleaned(page) for page in pages]
    blocks = [block for root in roots for block in blocks_of(root, max_words)]
    scores = reranker.score(query, [block.text for block in blocks]) if blocks else []
    worst_first = sorted(range(len(blocks)), key=lambda index: (scores[index], -index))
    low, high = 0, len(blocks)  # how many are removed: the fewest with which it fits
    while low < high:
        middle = (low + high) // 2
        if count_tokens(_joined(roots, blocks, worst_first[:middle])) <= budget:
            high = middle
        else:
            low = middle + 1
    text = _joined(roots, blocks, worst_first[:low])
    return text if count_tokens(text) <= budget and low < len(blocks) else ""


def _joined(roots: Sequence[Node], blocks: Sequence[HtmlBlock], removed: Sequence[int]) -> str:
    gone = {blocks[index].node for index in removed}
    return "\n".join(html for root in roots if (html := render(root, gone)))
