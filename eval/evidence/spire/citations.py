"""Citations that can be followed: exact paths in one state of a page, a link to the words, a tile that shows them."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from urllib.parse import quote

from tilewright.configs.errors import InputError
from tilewright.data_gen.records import Tile, Word
from tilewright.data_gen.span_boxes import Box, highlight, occurrences
from tilewright.eval.evidence.html_tree import Node
from tilewright.eval.evidence.spire.algebra import Path
from tilewright.eval.evidence.spire.document import Document, Seed

FRAGMENT_WORDS = 6  # of each end of a longer quotation, and of what stands around one that isn't unique
_LONGEST_FRAGMENT = 200


@dataclass(frozen=True)
class Citation:
    """``quote`` stands at ``paths`` of the document ``document_id``. ``url``: with a text fragment that finds it.

    ``tile_id`` and ``boxes`` (left, top, right, bottom in tile px): where it is seen; "" and () if on no tile whole.
    """

    page_id: str
    document_id: str
    seed: int
    paths: tuple[Path, ...]
    quote: str
    url: str
    tile_id: str = ""
    boxes: tuple[Box, ...] = ()


class PageTiles:
    """The tiles of a page in their order, with all their letters in a row: what isn't among them isn't looked for."""

    def __init__(self, tiles: Iterable[Tile] = ()) -> None:
        self.tiles = [(tile, _letters(tile)) for tile in tiles]

    def with_text(self, text: str) -> list[Tile]:
        """The tiles that may show ``text``."""
        wanted = "".join(text.split()).casefold()
        return [tile for tile, letters in self.tiles if wanted and any(wanted in order for order in letters)]


def _letters(tile: Tile) -> tuple[str, str]:
    """The words without blanks, block by block and in their own order: the orders in which places are looked for."""
    by_block = sorted(tile.words, key=lambda word: (word.block < 0, word.block))
    return _joined(by_block), _joined(tile.words)


def _joined(words: Iterable[Word]) -> str:
    return "".join("".join(word.text.split()) for word in words).casefold()


NO_TILES = PageTiles()


def cite(document: Document, seed: int, page_id: str, url: str, tiles: PageTiles = NO_TILES) -> Citation:
    """The citation of a seed. ``tiles``: those of the page."""
    found = document.seeds[seed]
    tile_id, boxes = shown_on(document, found, tiles)
    paths = tuple(sorted(found.paths))
    return Citation(
        page_id, document.document_id, seed, paths, found.text, fragment_url(document, found, url), tile_id, boxes
    )


def resolve(document: Document, document_id: str, paths: Iterable[Path]) -> str:
    """The text at ``paths``, blanks collapsed. Raises InputError if they are another document's, or lead nowhere."""
    if document_id != document.document_id:
        raise InputError(f"citation: wanted paths of {document.document_id}, found {document_id}")
    wanted = {id(_node_at(document.root, path)) for path in paths}
    text = [node.text for node, _ in document.leaves if _is_within(node, wanted)]
    return " ".join("".join(text).split())


def _node_at(root: Node, path: Path) -> Node:
    node = root
    for index in path:
        if not 0 <= index < len(node.children):
            raise InputError(f"citation: no node at {path}")
        node = node.children[index]
    return node


def _is_within(node: Node | None, wanted: set[int]) -> bool:
    while node is not None:
        if id(node) in wanted:
            return True
        node = node.parent
    return False


def fragment_url(document: Document, seed: Seed, url: str) -> str:
    """``url`` with a text fragment (WICG scroll-to-text) for the seed's words.

    A short quotation whole, a longer one or one with a mark inside by its ends; one that stands in its line or on the
    page again with the words around it.
    """
    runs = _unbroken(document, seed)
    if len(runs) == 1 and len(seed.text) <= _LONGEST_FRAGMENT:
        directive = _encoded(seed.text)
    else:
        first, last = runs[0].split()[:FRAGMENT_WORDS], runs[-1].split()[-FRAGMENT_WORDS:]
        directive = f"{_encoded(' '.join(first))},{_encoded(' '.join(last))}"
    if document.text.count(seed.text) > 1:
        before, behind = _around(document, seed)
        start, end = " ".join(before.split()[-FRAGMENT_WORDS:]), " ".join(behind.split()[:FRAGMENT_WORDS])
        directive = (f"{_encoded(start)}-," if start else "") + directive + (f",-{_encoded(end)}" if end else "")
    base = url.partition("#")[0]
    return f"{base}#:~:text={directive}"


def _around(document: Document, seed: Seed) -> tuple[str, str]:
    """What the seed's block shows before and behind it, footnote marks included."""
    first, last = (document.leaves[seed.leaves[end]][0] for end in (0, -1))
    texts: list[list[str]] = [[], [], []]
    place = 0
    for node in document.lines[seed.line].block.walk():
        place = 1 if node is first else place
        if node.tag == "br":
            texts[place].append(" ")
        elif not node.tag:
            texts[place].append(node.text)
        place = 2 if node is last else place
    return "".join(texts[0]), "".join(texts[2])


def _encoded(text: str) -> str:
    return quote(text, safe="").replace("-", "%2D")


def _unbroken(document: Document, seed: Seed) -> list[str]:
    """The seed's words in pieces between which the page shows something else (a footnote mark) or breaks the line."""
    own = {id(document.leaves[leaf][0]) for leaf in seed.leaves}
    line = document.lines[seed.line]
    starts = {id(node): start for node, start in line.parts}
    pieces: list[str] = []
    broken, end = True, -1
    for node in _from(document, seed):
        if node.tag or not node.text:
            continue
        if id(node) not in own:
            broken = True
            continue
        if broken or starts[id(node)] != end:
            pieces.append("")
        pieces[-1] += node.text
        broken, end = False, starts[id(node)] + len(node.text)
    return [text for piece in pieces if (text := " ".join(piece.split()))] or [seed.text]


def _from(document: Document, seed: Seed) -> list[Node]:
    """The nodes of the seed's block from its first leaf to its last."""
    nodes = list(document.lines[seed.line].block.walk())
    first, last = (document.leaves[seed.leaves[place]][0] for place in (0, -1))
    places = [index for index, node in enumerate(nodes) if node is first or node is last]
    return nodes[places[0] : places[-1] + 1] if places else [first]


def shown_on(document: Document, seed: Seed, tiles: PageTiles) -> tuple[str, tuple[Box, ...]]:
    """(tile_id, boxes) of the first tile that shows the seed: found within its line or table row, else by its words.

    A sentence that two tiles share is looked for by its first half. ("", ()) if no tile shows it.
    """
    line = document.lines[seed.line]
    numbers = document.row_lines[line.row] if line.row is not None else [line.number]
    anchor = " ".join(document.lines[number].text for number in numbers)
    for wanted, within in ((seed.text, anchor), (seed.text, ""), (_first_half(seed.text), "")):
        for tile in tiles.with_text(within or wanted) if wanted else ():
            words = _words_of(tile, within) if within else tile.words
            for place in occurrences(words, wanted)[:1]:
                return tile.tile_id, _boxes(tile, [words[index] for index in place])
    return "", ()


def _words_of(tile: Tile, text: str) -> Sequence[Word]:
    places = occurrences(tile.words, text)
    return [tile.words[index] for index in places[0]] if places else []


def _first_half(text: str) -> str:
    words = text.split()
    return " ".join(words[: len(words) // 2]) if len(words) >= 8 else ""


def _boxes(tile: Tile, words: Sequence[Word]) -> tuple[Box, ...]:
    """Boxes around the lines of ``words``."""
    return highlight(replace(tile, words=tuple(words)), " ".join(word.text for word in words), "").span
