"""A page's HTML as a plain tree: elements inside, text in the leaves, the same tree on every machine.

Parser: lexbor through selectolax (named in PARSER, since tree paths hold for one parser only). Measured on 27 Wikipedia
pages (median 31 KB, 1,014 nodes) and 45 pages of cppreference (35 KB, 1,483 nodes), one core, ms at the median page:

    parse alone            selectolax 0.17 and 0.30    resiliparse 0.13 and 0.23
    parse, read each node  selectolax 0.39 and 0.65    resiliparse 74 and 52 (by children), 10 to 145 (by siblings)

Both are lexbor and give html5lib's trees; reading a tree is what takes the time, so selectolax.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from importlib.metadata import PackageNotFoundError, version
from typing import Any

from tilewright.eval.evidence.html_bounds import MAX_CHARS, bounded
from tilewright.eval.tools import require_module


def _installed() -> str:
    try:
        return version("selectolax")
    except PackageNotFoundError:  # what needs a tree says so
        return "none"


PARSER = f"lexbor (selectolax {_installed()})"
MAX_NODES = 1_000_000
_TEXT, _NO_ATTRIBUTES = "-text", {}  # type: ignore[var-annotated]
_DROPPED = frozenset({"-comment", "script", "style", "template"})


class Node:
    """An element, or a text leaf: its ``tag`` is "". ``index``: its place among ``parent``'s children."""

    __slots__ = ("attributes", "children", "index", "parent", "tag", "text")

    def __init__(self, tag: str, attributes: dict[str, str | None], text: str, parent: "Node | None") -> None:
        self.tag, self.attributes, self.text, self.parent = tag, attributes, text, parent
        self.children: list[Node] = []
        self.index = 0
        if parent is not None:
            self.index = len(parent.children)
            parent.children.append(self)

    @property
    def path(self) -> tuple[int, ...]:
        """Child indices from the root, which is ()."""
        indices, node = [], self
        while node.parent is not None:
            indices.append(node.index)
            node = node.parent
        return tuple(reversed(indices))

    def get(self, name: str) -> str:
        """An attribute's value; "" without one."""
        return self.attributes.get(name) or ""

    def walk(self) -> Iterator["Node"]:
        """This node and all below it in document order."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


@dataclass(frozen=True)
class HtmlTree:
    """``root`` is the html element. ``cut``: the page was over a limit and its end is missing; see ``parse_html``."""

    root: Node
    cut: bool = False


def parse_html(html: str, *, max_chars: int = MAX_CHARS, max_nodes: int = MAX_NODES) -> HtmlTree:
    """The tree of ``html`` without comments, doctype, scripts, styles and templates; text as it stands in the source.

    Bounded for any input: more than ``max_chars`` or ``max_nodes`` are cut off, tags past a depth or number of
    attributes that browsers' pages don't have are left out and their text stays (see ``html_bounds``). Raises
    MissingToolError without selectolax.
    """
    lexbor = require_module("selectolax.lexbor", "text")
    root, cut = lexbor.LexborHTMLParser(bounded(html[:max_chars])).root, len(html) > max_chars
    if root is None:
        return HtmlTree(Node("html", {}, "", None), cut)
    tree, whole = _copy(root, max_nodes)
    return HtmlTree(tree, cut or not whole)


def _copy(source: Any, max_nodes: int) -> tuple[Node, bool]:
    """(our tree of a lexbor element, whether it is whole)."""
    root = parent = Node(source.tag, source.attributes, "", None)
    above: list[Any] = []  # lexbor nodes whose children are being read
    node, left = source.first_child, max_nodes
    if node is not None:
        above.append(source)
    while node is not None:
        tag, child = node.tag, None
        if tag == _TEXT:
            _add_text(parent, node.text_content or "")
            left -= 1
        elif tag not in _DROPPED:
            made = Node(tag, node.attributes or _NO_ATTRIBUTES, "", parent)
            left -= 1
            child = node.first_child
            if child is not None:
                above.append(node)
                parent, node = made, child
        if left <= 0:
            return root, False
        if child is not None:
            continue
        following = node.next
        while following is None and len(above) > 1:
            node = above.pop()
            parent = parent.parent  # type: ignore[assignment]
            following = node.next
        node = following
    return root, True


def _add_text(parent: Node, text: str) -> None:
    """Add a text leaf; what only a comment parted is one leaf."""
    if not text:
        return
    last = parent.children[-1] if parent.children else None
    if last is not None and not last.tag:
        last.text += text
    else:
        Node("", _NO_ATTRIBUTES, text, parent)
