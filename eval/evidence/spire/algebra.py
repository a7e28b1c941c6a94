"""The algebra of subdocuments: sets of tree paths, what they bring with them, and the tree that is left of it.

A path is the child indices from the root, which is (). Nodes of a pruned tree keep their original paths, so the same
operations apply to a subdocument. Keep the selected set apart from the scaffold: ``link`` of a linked set is the text
of the whole document, for it holds the root.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

Path = tuple[int, ...]
Paths = frozenset[Path]
ROOT: Path = ()


@dataclass(frozen=True, slots=True)
class Tree:
    """A node with all below it. ``path``: its place in the original document; ``tag`` "": a text leaf."""

    path: Path
    tag: str
    text: str = ""
    children: tuple["Tree", ...] = ()

    def walk(self) -> Iterator["Tree"]:
        """This node and all below it in preorder."""
        stack = [self]
        while stack:
            node = stack.pop()
            yield node
            stack.extend(reversed(node.children))


def paths(tree: Tree) -> list[Path]:
    """The paths of all nodes in preorder, which is their order as tuples."""
    return [node.path for node in tree.walk()]


def up(selected: Iterable[Path]) -> Paths:
    """All prefixes: the selected nodes and what they stand in."""
    found: set[Path] = set()
    for path in selected:
        for length in range(len(path), -1, -1):
            if path[:length] in found:
                break
            found.add(path[:length])
    return frozenset(found)


def down(tree: Tree, selected: Iterable[Path]) -> Paths:
    """All nodes of ``tree`` at or below one of ``selected``."""
    wanted = roots(selected)
    above = up(wanted)
    found: set[Path] = set()
    stack = [tree]
    while stack:
        node = stack.pop()
        if node.path in wanted:
            found.update(below.path for below in node.walk())
        elif node.path in above:
            stack.extend(node.children)
    return frozenset(found)


def roots(selected: Iterable[Path]) -> Paths:
    """``selected`` without the paths that stand below another of them."""
    given = frozenset(selected)
    return frozenset(path for path in given if not any(path[:length] in given for length in range(len(path))))


def link(tree: Tree, selected: Iterable[Path]) -> Paths:
    """Up(Down(P)): the selected nodes, all that stands in them, and what they stand in. Not idempotent."""
    return up(down(tree, selected))


def prune(tree: Tree, kept: Paths) -> Tree | None:
    """``tree`` with exactly the nodes of ``kept``, in order; None if nothing is left.

    Raises ValueError unless ``kept`` holds the parent of each of its nodes, up to the tree's own root.
    """
    if not kept:
        return None
    if tree.path not in kept:
        raise ValueError(f"wanted paths that hold the root {tree.path}, found {sorted(kept)[:3]}")
    order: list[Tree] = []
    stack = [tree]
    while stack:
        node = stack.pop()
        order.append(node)
        stack.extend(child for child in reversed(node.children) if child.path in kept)
    if len(order) < len(kept):
        raise ValueError(f"wanted paths that hold every node's parent, found {len(kept) - len(order)} that aren't held")
    made: dict[Path, Tree] = {}
    for node in reversed(order):  # children come before their parent
        below = tuple(made[child.path] for child in node.children if child.path in made)
        made[node.path] = Tree(node.path, node.tag, node.text, below)
    return made[tree.path]


def subdoc(tree: Tree, selected: Iterable[Path]) -> Tree | None:
    """Prune(Link(P)): the smallest tree with all of the selected nodes' content and what it stands in; None of none."""
    return prune(tree, link(tree, selected))
