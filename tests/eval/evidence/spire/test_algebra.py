"""The algebra's laws on random trees, and those that don't hold."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tilewright.eval.evidence.spire.algebra import Path, Paths, Tree, down, link, paths, prune, roots, subdoc, up

Shape = list["Shape"] | None


def _tree(shape: object, path: Path = ()) -> Tree:
    """A tree of nested lists; None is a text leaf that says where it is."""
    if not isinstance(shape, list):
        return Tree(path, "", f"t{path}")
    return Tree(path, "div", "", tuple(_tree(child, (*path, index)) for index, child in enumerate(shape)))


TREES = st.recursive(st.none(), lambda inner: st.lists(inner, max_size=4), max_leaves=14).map(
    lambda shape: _tree(shape if isinstance(shape, list) else [shape])
)


@st.composite
def selections(draw: st.DrawFn, count: int = 1) -> tuple[Tree, list[Paths]]:
    tree = draw(TREES)
    every = paths(tree)
    return tree, [frozenset(draw(st.lists(st.sampled_from(every), max_size=5))) for _ in range(count)]


def by_definition(tree: Tree, selected: Paths) -> Paths:
    """Second formula: nodes that are a prefix of, or below, a node below a selected one."""
    every = paths(tree)
    below = [path for path in every if any(path[: len(p)] == p for p in selected)]
    return frozenset(path for path in every if any(other[: len(path)] == path for other in below))


def text(tree: Tree | None) -> list[str]:
    return [node.text for node in tree.walk() if not node.tag] if tree else []


def renumbered(tree: Tree, path: Path = ()) -> Tree:
    children = tuple(renumbered(child, (*path, index)) for index, child in enumerate(tree.children))
    return Tree(path, tree.tag, tree.text, children)


@given(selections())
@settings(max_examples=50)
def test_link_is_what_its_definition_says(case: tuple[Tree, list[Paths]]) -> None:
    tree, (p,) = case
    assert link(tree, p) == by_definition(tree, p) == up(down(tree, p))
    assert p <= link(tree, p) and down(tree, p) <= link(tree, p)


@given(selections(2))
@settings(max_examples=50)
def test_link_is_monotone_and_keeps_unions(case: tuple[Tree, list[Paths]]) -> None:
    tree, (p, q) = case
    assert link(tree, p) <= link(tree, p | q)
    assert link(tree, p | q) == link(tree, p) | link(tree, q) == link(tree, q | p)


@given(selections())
@settings(max_examples=50)
def test_only_roots_count(case: tuple[Tree, list[Paths]]) -> None:
    tree, (p,) = case
    assert link(tree, roots(p)) == link(tree, p)
    assert all(not any(other != one and one[: len(other)] == other for other in roots(p)) for one in roots(p))


@given(TREES)
@settings(max_examples=50)
def test_nothing_and_everything(tree: Tree) -> None:
    assert link(tree, frozenset()) == frozenset() and subdoc(tree, frozenset()) is None
    assert subdoc(tree, frozenset([()])) == tree


@given(selections())
@settings(max_examples=50)
def test_preorder_is_the_order_of_paths_and_is_kept(case: tuple[Tree, list[Paths]]) -> None:
    tree, (p,) = case
    assert paths(tree) == sorted(paths(tree))
    pruned = subdoc(tree, p)
    kept = link(tree, p)
    assert (paths(pruned) if pruned else []) == [path for path in paths(tree) if path in kept]


@given(selections())
@settings(max_examples=50)
def test_the_scaffold_adds_no_text(case: tuple[Tree, list[Paths]]) -> None:
    tree, (p,) = case
    below = down(tree, p)
    assert text(subdoc(tree, p)) == [node.text for node in tree.walk() if not node.tag and node.path in below]


@given(selections(2))
@settings(max_examples=50)
def test_subdocuments_of_subdocuments(case: tuple[Tree, list[Paths]]) -> None:
    tree, (p, q) = case
    pruned = subdoc(tree, p)
    if pruned is None:
        return
    assert subdoc(pruned, p) == pruned
    inside = q & down(tree, p)
    assert subdoc(pruned, inside) == subdoc(tree, inside)
    # the same with the nodes numbered anew: up to the map of paths
    new = dict(zip(paths(pruned), paths(renumbered(pruned)), strict=True))
    again, direct = subdoc(renumbered(pruned), [new[path] for path in inside]), subdoc(tree, inside)
    assert (again is None) == (direct is None)
    if again is not None and direct is not None:
        assert renumbered(again) == renumbered(direct)


def test_linking_twice_takes_in_the_whole_document() -> None:
    tree = _tree([None, [None, None], None])
    once = link(tree, [(1, 0)])
    assert once == {(), (1,), (1, 0)}
    assert link(tree, once) == frozenset(paths(tree)) != once


def test_up_and_down_do_not_commute() -> None:
    tree = _tree([None, [None, None]])
    selected = frozenset([(1, 0)])
    assert down(tree, up(selected)) == frozenset(paths(tree)) != up(down(tree, selected))


def test_prune_wants_parents() -> None:
    tree = _tree([None, [None]])
    for kept in ([(1, 0)], [(), (1, 0)], [(), (7,)]):
        try:
            prune(tree, frozenset(kept))
        except ValueError:
            continue
        raise AssertionError(f"{kept} was taken")


def test_a_deep_tree_is_no_trouble() -> None:
    deep = Tree((0,) * 900, "", "x")
    for depth in range(899, -1, -1):
        deep = Tree((0,) * depth, "div", "", (deep,))
    pruned = subdoc(deep, [(0,) * 900])
    assert pruned is not None and sum(1 for _ in pruned.walk()) == 901
