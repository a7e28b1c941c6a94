"""The ``grounded`` annotator: every question a tile's own DOM text gives, best spread first."""

import dataclasses
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import zip_longest

from tilewright.data_gen.annotator import TWO_ANSWERS, Generated, RawPair, Skip
from tilewright.data_gen.grounded.aliases import aliases
from tilewright.data_gen.grounded.asked import Asked
from tilewright.data_gen.grounded.cell_questions import list_questions, table_questions
from tilewright.data_gen.grounded.choice import digest_number
from tilewright.data_gen.grounded.infobox_questions import infobox_questions
from tilewright.data_gen.grounded.names import Wording, is_person
from tilewright.data_gen.grounded.pronouns import resolved
from tilewright.data_gen.grounded.sentence_questions import questions
from tilewright.data_gen.grounded.sentences import sentences
from tilewright.data_gen.grounded.terms import bare_title
from tilewright.data_gen.grounded.units import SOURCE_TYPES
from tilewright.data_gen.records import Block, Tile

MIN_SENTENCE_WORDS, MAX_SENTENCE_WORDS = 6, 45


class GroundedAnnotator:
    """Offline and deterministic: the same tile gives the same pairs, whatever other tiles there are."""

    name = "grounded/1"

    def __init__(self, max_pairs_per_tile: int) -> None:
        self._max_pairs = max_pairs_per_tile

    def generate(self, tile: Tile) -> Generated | Skip:
        """Pairs from infobox, tables, lists and paragraphs in turn, at most the configured number.

        Skips: ``no_text`` (an image without words), ``no_fact`` (text, but nothing that can be asked for). Drops:
        ``answer_not_in_tile`` (answer or its sentence), ``repeated_on_tile``, ``over_max_pairs``,
        ``two_answers_on_tile`` (rows of an infobox with one label).
        """
        if not tile.text.strip():
            return Skip("no_text")
        by_type: dict[str, list[RawPair]] = defaultdict(list)
        dropped: Counter[str] = Counter()
        seen: set[tuple[str, str]] = set()
        ambiguous = _ambiguous_rows(tile)
        for pair in self._pairs(tile):
            if pair.source_span in ambiguous:
                dropped[TWO_ANSWERS] += 1
            elif pair.answer not in tile.text or pair.source_span not in tile.text:
                dropped["answer_not_in_tile"] += 1
            elif (pair.query, pair.answer) in seen:
                dropped["repeated_on_tile"] += 1
            else:
                seen.add((pair.query, pair.answer))
                by_type[pair.source_type].append(pair)
        if not by_type:
            return Skip("no_fact", dropped)
        for pairs in by_type.values():
            pairs.sort(key=lambda pair: digest_number(f"{tile.tile_id}:{pair.query}"))
        turns = zip_longest(*(by_type[kind] for kind in sorted(by_type)))
        found = [pair for turn in turns for pair in turn if pair is not None]
        dropped["over_max_pairs"] = len(found[self._max_pairs :])
        return Generated(tuple(found[: self._max_pairs]), dropped)

    def _pairs(self, tile: Tile) -> Iterator[RawPair]:
        subject = bare_title(tile.title)
        wording = Wording.of(f"{tile.title}\n{tile.text}")
        columns = _columns(tile)
        for position, block in enumerate(tile.blocks):
            asked: Iterator[tuple[Asked, str]] = iter(())
            if block.kind == "infobox_row":
                asked = ((fact, block.text) for fact in infobox_questions(block, subject))
            elif block.kind == "table_row":
                width = columns[block.section, block.caption]
                asked = ((fact, block.text) for fact in table_questions(block, subject, width))
            elif block.kind in ("paragraph", "list_item"):
                edges = position == 0, position == len(tile.blocks) - 1
                asked = _from_sentences(block, edges, wording, subject)
            source_type = SOURCE_TYPES.get(block.kind, "paragraph")
            for fact, span in asked:
                yield RawPair(fact.query, fact.answer, tuple(aliases(fact, subject)), span, source_type, subject)


def _ambiguous_rows(tile: Tile) -> set[str]:
    """Texts of infobox rows whose label stands in another row too: asked by label, they have several answers."""
    texts: dict[tuple[str, str], set[str]] = defaultdict(set)
    for block in tile.blocks:
        if block.kind == "infobox_row" and block.cells:
            texts[block.caption, block.cells[0].casefold()].add(block.text)
    return {text for same in texts.values() if len(same) > 1 for text in same}


def _columns(tile: Tile) -> dict[tuple[str, str], int]:
    """{(section, caption) of a table: the most cells that one of its rows has}."""
    columns: dict[tuple[str, str], int] = defaultdict(int)
    for block in tile.blocks:
        if block.kind == "table_row":
            columns[block.section, block.caption] = max(columns[block.section, block.caption], len(block.cells))
    return columns


def _from_sentences(
    block: Block, edges: tuple[bool, bool], wording: Wording, subject: str
) -> Iterator[tuple[Asked, str]]:
    """(question, sentence as it stands) for the whole sentences of a paragraph or list item."""
    found = sentences(block.text)
    for position, (sentence, text) in enumerate(resolved(found, subject, wording)):
        cut = not block.whole and ((edges[0] and position == 0) or (edges[1] and position == len(found) - 1))
        if not cut and _is_plain(sentence):
            for fact in questions(text, wording, subject):
                if fact.kind == "subject" and text != sentence:
                    continue  # the answer would be a name that the sentence only means
                yield dataclasses.replace(fact, query=named_in_full(fact.query, subject)), sentence
    if block.kind == "list_item" and block.whole:
        for fact in list_questions(block, subject):
            yield fact, block.text


def _is_plain(sentence: str) -> bool:
    """Whether a sentence is a whole statement of a usual length."""
    words = len(sentence.split())
    starts = re.match(r"[A-Z0-9(]|[\"“][^\"“”]+[\"”] ", sentence)
    ends = re.search(r"\.[\"”')\]]*$", sentence)
    odd = re.search(r"[?!]|\.\.\.|…|\bwww\.|https?:|\bISBN\b|\bpp?\. ?\d", sentence)
    return MIN_SENTENCE_WORDS <= words <= MAX_SENTENCE_WORDS and bool(starts and ends) and not odd


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
