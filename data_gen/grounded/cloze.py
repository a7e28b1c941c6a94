"""The ``cloze`` annotator: a sentence of the tile with one word left out, which is the answer (Taylor 1953).

Its questions need no dates, persons or places, so that pages of any subject give them; they repeat their sentence word
for word, so they measure reading and matching, no understanding.
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterator

from tilewright.data_gen.annotator import TWO_ANSWERS, Generated, RawPair, Skip
from tilewright.data_gen.grounded.choice import choose
from tilewright.data_gen.grounded.selection import selected
from tilewright.data_gen.grounded.sentences import is_plain, sentences
from tilewright.data_gen.grounded.settings import GroundedSettings
from tilewright.data_gen.grounded.terms import bare_title, key_terms, terms, title_terms
from tilewright.data_gen.grounded.units import SOURCE_TYPES
from tilewright.data_gen.records import Block, Tile

BLANK = "___"
MIN_KEY_TERMS = 6  # what is left of a sentence must tell it from others
_PROSE = ("paragraph", "list_item")
_WORD = re.compile(r"(?<![\w:.'’<>(\[/&*-])[^\W\d_]{4,}(?![\w:'’<>()\[\]/&*-])")  # no part of code or of a compound


class ClozeAnnotator:
    """Offline and deterministic: the same tile gives the same pairs, whatever other tiles there are."""

    name = "cloze/1"

    def __init__(self, max_pairs_per_tile: int) -> None:
        self._max_pairs = max_pairs_per_tile

    def generate(self, tile: Tile) -> Generated | Skip:
        """A pair for each whole sentence that keeps ``MIN_KEY_TERMS``, at most the configured number.

        Skips: ``no_text``, ``no_fact`` (no such sentence). Drops: ``answer_not_in_tile`` (its sentence),
        ``two_answers_on_tile`` (another sentence fills the blank otherwise), ``repeated_on_tile``, ``over_max_pairs``.
        """
        if not tile.text.strip():
            return Skip("no_text")
        dropped: Counter[str] = Counter()
        found: dict[str, RawPair] = {}
        said = [sentence for block in tile.blocks if block.kind in _PROSE for sentence in sentences(block.text)]
        for pair in _pairs(tile):
            if pair.source_span not in tile.text:
                dropped["answer_not_in_tile"] += 1
            elif any(_fills_otherwise(sentence, pair) for sentence in said):
                dropped[TWO_ANSWERS] += 1
            elif pair.query in found:
                dropped["repeated_on_tile"] += 1
            else:
                found[pair.query] = pair
        if not found:
            return Skip("no_fact", dropped)
        kept, left_out = selected(list(found.values()), tile.tile_id, tile.title, self._max_pairs, GroundedSettings())
        return Generated(tuple(kept), dropped + left_out)


def _pairs(tile: Tile) -> Iterator[RawPair]:
    subject = bare_title(tile.title)
    for position, block in enumerate(tile.blocks):
        if block.kind not in _PROSE:
            continue
        for sentence in _whole_sentences(block, position == 0, position == len(tile.blocks) - 1):
            asked = cloze(sentence, title_terms(tile.title))
            if asked is not None:
                kind = SOURCE_TYPES.get(block.kind, "paragraph")
                yield RawPair(*asked, (), sentence, kind, subject)


def _whole_sentences(block: Block, first: bool, last: bool) -> list[str]:
    """The plain sentences of a block; where the tile's edge cuts it, without the one that the cut goes through."""
    found = sentences(block.text)
    if not block.whole:
        found = found[1 if first else 0 : -1 if last else None]
    return [sentence for sentence in found if is_plain(sentence)]


def _fills_otherwise(sentence: str, pair: RawPair) -> bool:
    """Whether ``sentence`` is the pair's question with other words in the blank."""
    before, _, after = pair.query.partition(BLANK)
    filled = sentence[len(before) : len(sentence) - len(after)]
    return sentence == f"{before}{filled}{after}" and terms(filled) != terms(pair.answer)


def cloze(sentence: str, title: frozenset[str]) -> tuple[str, str] | None:
    """(the sentence with a blank, the word that it hides); None if it has no such word or too few others, or a
    blank of its own.

    The word has four letters or more and a meaning of its own, stands once in the sentence and isn't one of ``title``,
    the terms of the page's title. Of several the digest of the sentence chooses.
    """
    often = Counter(terms(sentence))
    telling = key_terms(sentence) - title
    fitting = [match for match in _WORD.finditer(sentence) if _is_hidden(match.group(), often, telling)]
    while fitting and _goes_on(sentence, match := choose(fitting, sentence)):
        fitting.remove(match)
    if not fitting or BLANK in sentence:
        return None
    query = f"{sentence[: match.start()]}{BLANK}{sentence[match.end() :]}"
    return (query, match.group()) if len(key_terms(query)) >= MIN_KEY_TERMS else None


def _is_hidden(word: str, often: Counter[str], telling: frozenset[str]) -> bool:
    found = terms(word)
    return len(found) == 1 and often[found[0]] == 1 and found[0] in telling


def _goes_on(sentence: str, match: re.Match[str]) -> bool:
    """Whether the word goes on beside the match: with a combining mark (many scripts' vowels) or a soft hyphen."""
    beside = sentence[match.start() - 1 : match.start()] + sentence[match.end() : match.end() + 1]
    return any(unicodedata.category(character) in ("Mn", "Mc", "Me", "Cf") for character in beside)
