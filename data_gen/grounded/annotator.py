"""The ``grounded`` annotator: every question a tile's own DOM text gives, best spread first."""

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import zip_longest

from tilewright.data_gen.annotator import RawPair, Skip
from tilewright.data_gen.answers import normalize_answer
from tilewright.data_gen.grounded.choice import digest_number
from tilewright.data_gen.grounded.lexicon import NUMBER_WORDS
from tilewright.data_gen.grounded.names import Wording, is_person
from tilewright.data_gen.grounded.pronouns import resolved
from tilewright.data_gen.grounded.row_questions import infobox_questions, list_questions, table_questions
from tilewright.data_gen.grounded.sentence_questions import Asked, questions
from tilewright.data_gen.grounded.sentences import sentences
from tilewright.data_gen.grounded.terms import bare_title, terms
from tilewright.data_gen.grounded.units import SOURCE_TYPES
from tilewright.data_gen.records import Block, Tile

MIN_SENTENCE_WORDS, MAX_SENTENCE_WORDS = 6, 45
_DIGIT_WORDS = {digits: word for word, digits in NUMBER_WORDS.items()}


class GroundedAnnotator:
    """Offline and deterministic: the same tile gives the same pairs, whatever other tiles there are."""

    name = "grounded/1"

    def __init__(self, max_pairs_per_tile: int) -> None:
        self._max_pairs = max_pairs_per_tile

    def generate(self, tile: Tile) -> list[RawPair] | Skip:
        """Pairs from infobox, tables, lists and paragraphs in turn, at most the configured number.

        Skips: ``no_text`` (an image without words), ``no_fact`` (text, but nothing that can be asked for).
        """
        if not tile.text.strip():
            return Skip("no_text")
        by_type: dict[str, list[RawPair]] = defaultdict(list)
        seen: set[tuple[str, str]] = set()
        for pair in self._pairs(tile):
            if pair.answer in tile.text and pair.source_span in tile.text and (pair.query, pair.answer) not in seen:
                seen.add((pair.query, pair.answer))
                by_type[pair.source_type].append(pair)
        if not by_type:
            return Skip("no_fact")
        for pairs in by_type.values():
            pairs.sort(key=lambda pair: digest_number(f"{tile.tile_id}:{pair.query}"))
        turns = zip_longest(*(by_type[kind] for kind in sorted(by_type)))
        return [pair for turn in turns for pair in turn if pair is not None][: self._max_pairs]

    def _pairs(self, tile: Tile) -> Iterator[RawPair]:
        subject = bare_title(tile.title)
        wording = Wording.of(f"{tile.title}\n{tile.text}")
        columns: dict[tuple[str, str], int] = defaultdict(int)
        for block in tile.blocks:
            if block.kind == "table_row":
                table = block.section, block.caption
                columns[table] = max(columns[table], len(block.cells))
        for position, block in enumerate(tile.blocks):
            source_type = SOURCE_TYPES.get(block.kind, "paragraph")
            if block.kind == "infobox_row":
                asked = ((fact, block.text) for fact in infobox_questions(block, subject))
            elif block.kind == "table_row":
                asked = (
                    (fact, block.text)
                    for fact in table_questions(block, subject, columns[block.section, block.caption])
                )
            elif block.kind in ("paragraph", "list_item"):
                edges = position == 0, position == len(tile.blocks) - 1
                asked = _from_sentences(block, edges, wording, subject)
            else:
                continue
            for fact, span in asked:
                aliases = tuple(_aliases(fact, subject))
                yield RawPair(fact.query, fact.answer, aliases, span, source_type, subject)


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
    return re.sub(rf"(?<![\w.’'-] )(?<![A-Z]\w )\b{re.escape(names[-1])}\b(?! [A-Z])", subject, query, count=1)


def _aliases(fact: Asked, subject: str) -> Iterator[str]:
    """Other forms of the answer that mean the same."""
    number = re.sub(r"(?<=\d),(?=\d{3})", "", fact.answer)
    if number in _DIGIT_WORDS:
        yield _DIGIT_WORDS[number]
    if fact.answer.casefold() in NUMBER_WORDS:
        yield NUMBER_WORDS[fact.answer.casefold()]
    if fact.kind == "percentage":
        digits = re.match(r"[\d.,]+", fact.answer)
        assert digits is not None
        yield from (form for form in (f"{digits.group()}%", f"{digits.group()} percent") if form != fact.answer)
    if fact.kind == "century":
        yield fact.answer.split()[0]
    date = re.fullmatch(r"(?:(\d{1,2}) ([A-Z][a-z]+)|([A-Z][a-z]+) (\d{1,2}),) (\d{4})", fact.answer)
    if date:
        day, month = date.group(1) or date.group(4), date.group(2) or date.group(3)
        yield f"{month} {day}, {date.group(5)}" if date.group(1) else f"{day} {month} {date.group(5)}"
    if fact.kind == "subject" and len(terms(subject)) > 1 and terms(fact.answer) == terms(subject)[-1:]:
        yield subject
    if " (" in fact.answer:
        short = fact.answer.split(" (")[0]
        if normalize_answer(short) and normalize_answer(short) != normalize_answer(fact.answer):
            yield short
