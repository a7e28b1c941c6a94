"""The ``grounded`` annotator: every question a tile's own DOM text gives, best spread first."""

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator

from tilewright.data_gen.annotator import TWO_ANSWERS, Generated, RawPair, Skip
from tilewright.data_gen.grounded.aliases import aliases
from tilewright.data_gen.grounded.asked import Asked
from tilewright.data_gen.grounded.cell_questions import TableShape, list_questions, table_questions
from tilewright.data_gen.grounded.infobox_questions import infobox_questions
from tilewright.data_gen.grounded.names import Wording, is_person
from tilewright.data_gen.grounded.pronouns import resolved
from tilewright.data_gen.grounded.selection import selected
from tilewright.data_gen.grounded.sentence_questions import questions
from tilewright.data_gen.grounded.sentences import is_plain, sentences
from tilewright.data_gen.grounded.settings import GroundedSettings
from tilewright.data_gen.grounded.terms import bare_title
from tilewright.data_gen.grounded.units import SOURCE_TYPES
from tilewright.data_gen.records import Block, Tile


class GroundedAnnotator:
    """Offline and deterministic: the same tile gives the same pairs, whatever other tiles there are."""

    name = "grounded/2"

    def __init__(self, max_pairs_per_tile: int, settings: GroundedSettings | None = None) -> None:
        self._max_pairs = max_pairs_per_tile
        self._settings = settings or GroundedSettings()

    def generate(self, tile: Tile) -> Generated | Skip:
        """Pairs from infobox, tables, lists and paragraphs in turn, at most the configured number.

        Skips: ``no_text`` (an image without words), ``no_fact`` (text, but nothing that can be asked for),
        ``nothing_selected`` (no question that the settings allow). Drops: ``answer_not_in_tile`` (answer or its
        sentence), ``repeated_on_tile``, ``two_answers_on_tile`` (rows of an infobox with one label, cells of two rows
        with one name), and those of ``selected``.
        """
        if not tile.text.strip():
            return Skip("no_text")
        found: list[RawPair] = []
        dropped: Counter[str] = Counter()
        seen: set[tuple[str, str]] = set()
        asked = list(self._pairs(tile))
        answers = _answers(asked)
        ambiguous = _ambiguous_rows(tile)
        for about, pair in asked:
            if pair.source_span in ambiguous or len(answers.get((pair.source_type, about), "")) > 1:
                dropped[TWO_ANSWERS] += 1
            elif pair.answer not in tile.text or pair.source_span not in tile.text:
                dropped["answer_not_in_tile"] += 1
            elif (pair.query, pair.answer) in seen:
                dropped["repeated_on_tile"] += 1
            else:
                seen.add((pair.query, pair.answer))
                found.append(pair)
        if not found:
            return Skip("no_fact", dropped)
        kept, left_out = selected(found, tile.tile_id, tile.title, self._max_pairs, self._settings)
        dropped += left_out
        return Generated(tuple(kept), dropped) if kept else Skip("nothing_selected", dropped)

    def _pairs(self, tile: Tile) -> Iterator[tuple[str, RawPair]]:
        """(what a cell's question is about, or "", and the pair) for everything that can be asked."""
        subject = bare_title(tile.title)
        wording = Wording.of(f"{tile.title}\n{tile.text}")
        shapes = _shapes(tile)
        names_rows = self._settings.difficulty == "hard"
        for position, block in enumerate(tile.blocks):
            asked: Iterator[tuple[Asked, str]] = iter(())
            if block.kind == "infobox_row":
                asked = ((fact, block.text) for fact in infobox_questions(block, subject))
            elif block.kind == "table_row":
                facts = table_questions(block, subject, shapes[position], wording.common, by_name_alone=names_rows)
                asked = ((fact, block.text) for fact in facts)
            elif block.kind in ("paragraph", "list_item"):
                edges = position == 0, position == len(tile.blocks) - 1
                asked = _from_sentences(block, edges, wording, subject)
            source_type = SOURCE_TYPES.get(block.kind, "paragraph")
            for fact, span in asked:
                aliased = tuple(aliases(fact, subject))
                yield fact.about, RawPair(fact.query, fact.answer, aliased, span, source_type, subject)


def _answers(asked: Iterable[tuple[str, RawPair]]) -> dict[tuple[str, str], set[str]]:
    """{(kind, what a cell's question is about): its answers on the tile}."""
    answers: dict[tuple[str, str], set[str]] = defaultdict(set)
    for about, pair in asked:
        if about:
            answers[pair.source_type, about].add(pair.answer)
    return answers


def _ambiguous_rows(tile: Tile) -> set[str]:
    """Texts of infobox rows whose label stands in another row too: asked by label, they have several answers."""
    texts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for block in tile.blocks:
        if block.kind == "infobox_row" and block.cells:
            texts[block.caption, block.cells[0].casefold()].add(block.text)
    return {text for same in texts.values() if len(same) > 1 for text in same}


def _shapes(tile: Tile) -> dict[int, TableShape]:
    """{position of a table row among the tile's blocks: the shape of its table}."""
    rows = {position: block for position, block in enumerate(tile.blocks) if block.kind == "table_row"}
    columns: dict[tuple[str, str], int] = defaultdict(int)
    labelled: dict[tuple[str, str], bool] = defaultdict(bool)
    for block in rows.values():
        columns[block.section, block.caption] = max(columns[block.section, block.caption], len(block.cells))
        labelled[block.section, block.caption] |= any(block.labels)
    shapes = {}
    for position, block in rows.items():
        table = block.section, block.caption
        after = rows.get(position + 1)
        spans = (
            after is not None
            and (after.section, after.caption) == table
            and len(after.cells) < columns[table]
            and after.labels[:1] != block.labels[:1]
        )
        shapes[position] = TableShape(columns[table], labelled[table], spans)
    return shapes


def _from_sentences(
    block: Block, edges: tuple[bool, bool], wording: Wording, subject: str
) -> Iterator[tuple[Asked, str]]:
    """(question, sentence as it stands) for the whole sentences of a paragraph or list item."""
    found = sentences(block.text)
    for position, (sentence, text) in enumerate(resolved(found, subject, wording)):
        cut = not block.whole and ((edges[0] and position == 0) or (edges[1] and position == len(found) - 1))
        if not cut and is_plain(sentence):
            for fact in questions(text, wording, subject):
                if fact.kind == "subject" and text != sentence:
                    continue  # the answer would be a name that the sentence only means
                yield dataclasses.replace(fact, query=named_in_full(fact.query, subject)), sentence
    if block.kind == "list_item" and block.whole:
        for fact in list_questions(block, subject):
            yield fact, block.text


def named_in_full(query: str, subject: str) -> str:
    """``query`` with the page's person named in full where the family name stands alone: no bare surnames."""
    names = subject.split()
    if not 2 <= len(names) <= 3 or not is_person(subject, frozenset()) or subject in query:
        return query
    for match in re.finditer(rf"\b{re.escape(names[-1])}\b(?! [A-Z])", query):
        before = query[: match.start()].split(" ")[-2:][0]
        if not before[:1].isupper():  # not: Mary Lincoln, President Lincoln
            return query[: match.start()] + subject + query[match.end() :]
    return query
