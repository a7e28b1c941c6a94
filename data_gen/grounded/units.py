"""What a tile states, unit by unit: sentences, list items, infobox pairs and table cells with their labels."""

from collections import OrderedDict
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.data_gen.grounded.pronouns import LEADING
from tilewright.data_gen.grounded.sentences import sentences
from tilewright.data_gen.grounded.terms import holds, key_terms, terms, title_terms
from tilewright.data_gen.records import Block, Tile

SOURCE_TYPES = {"infobox_row": "infobox", "table_row": "table", "list_item": "list"}
LONGEST_ITEM_WORDS = 40


@dataclass(frozen=True)
class Unit:
    """One statement of a tile. A query may take its key terms from ``terms`` and ``context``; an answer must stand in
    ``stated`` (a cell of a row, the value of an infobox pair, all of a sentence). ``label``: the terms that say what a
    cell is; none for a sentence."""

    source_type: str
    terms: frozenset[str]
    context: frozenset[str]
    stated: tuple[str, ...]
    label: frozenset[str] = frozenset()

    def speaks_of(self, wanted: frozenset[str]) -> bool:
        """Whether all of a query's key terms stand here."""
        return wanted <= self.terms or wanted <= self.terms | self.context

    def states(self, answers: list[tuple[str, ...]]) -> bool:
        """Whether one of the answers (as terms) stands here."""
        return any(holds(self.stated, answer) for answer in answers)


@dataclass(frozen=True)
class Analysis:
    """The units of a tile, and all terms that stand in any of them."""

    units: tuple[Unit, ...]
    vocabulary: frozenset[str]

    def about(self, wanted: frozenset[str]) -> list[Unit]:
        """The units that hold every key term in ``wanted``."""
        return [unit for unit in self.units if unit.speaks_of(wanted)] if wanted <= self.vocabulary else []


def analyse(tile: Tile) -> Analysis:
    """Take a tile apart. Without blocks its text is read line by line as sentences."""
    title = title_terms(tile.title)
    units = []
    for block in tile.blocks:
        units += list(_units(block, title))
    if not tile.blocks:
        units = [_sentence(line, title, "paragraph") for text in tile.text.split("\n") for line in sentences(text)]
    vocabulary = frozenset().union(*(unit.terms | unit.context for unit in units))
    return Analysis(tuple(units), vocabulary)


def _units(block: Block, title: frozenset[str]) -> Iterator[Unit]:
    if block.kind == "heading":
        return
    if block.kind in ("infobox_row", "table_row") and len(block.cells) > 1:
        yield from _row(block, title)
        return
    source_type = SOURCE_TYPES.get(block.kind, "paragraph")
    if block.kind == "list_item" and len(block.text.split()) <= LONGEST_ITEM_WORDS:
        found = terms(block.text)
        yield Unit(source_type, frozenset(found), title | key_terms(block.section), found)
        return
    for sentence in sentences(block.text):
        yield _sentence(sentence, title, source_type)


def _sentence(text: str, title: frozenset[str], source_type: str) -> Unit:
    """A sentence that names the page's subject in part (*Lincoln*), or starts with a pronoun, may borrow the title."""
    found = terms(text)
    own = frozenset(found)
    borrows = bool(own & title) or text.partition(" ")[0] in LEADING
    return Unit(source_type, own, title if borrows else frozenset(), found)


def _row(block: Block, title: frozenset[str]) -> Iterator[Unit]:
    """One unit a cell: its row's cells, its own column's label and the row label's, its caption and the page's title.

    An infobox row's first cell is a label and states nothing.
    """
    row = frozenset(terms(" ".join(block.cells)))
    source_type = SOURCE_TYPES[block.kind]
    around = title | key_terms(f"{block.caption} {block.section}")
    labels = [frozenset(terms(label)) for label in block.labels] + [frozenset()] * len(block.cells)
    for i, cell in enumerate(block.cells):
        if i > 0 or block.kind == "table_row":
            label = labels[i] if block.kind == "table_row" else frozenset(terms(block.cells[0]))
            yield Unit(source_type, row | labels[0] | labels[i], around, terms(cell), label)


class AnalysisCache:
    """Analyses of the tiles seen last, by id and text; a tile that was replaced is taken apart anew."""

    def __init__(self, size: int = 4096) -> None:
        self._size = size
        self._stored: OrderedDict[tuple[str, str, str], Analysis] = OrderedDict()

    def __call__(self, tile: Tile) -> Analysis:
        key = (tile.tile_id, tile.image_sha256, tile.text)
        if key in self._stored:
            self._stored.move_to_end(key)
        else:
            self._stored[key] = analyse(tile)
            if len(self._stored) > self._size:
                self._stored.popitem(last=False)
        return self._stored[key]
