"""Running text as sentences."""

import re

from tilewright.data_gen.grounded.lexicon import words

_END = re.compile(r"[.!?][\"'”’)\]]*(?=\s+[\"'“‘(\[]*[A-Z0-9À-Þ])")
MIN_SENTENCE_WORDS, MAX_SENTENCE_WORDS = 6, 45
_ABBREVIATIONS = words(
    """mr mrs ms dr st prof rev hon sr jr gen col lt capt sgt maj gov sen rep pres mt ft no nos vol vols ed eds op cit
    cf eg ie e.g i.e etc al vs v ca c approx fl b d r inc ltd co corp bros dept univ est fig jan feb mar apr jun jul aug
    sep sept oct nov dec trans pp p u.s u.k u.n a.d b.c d.c ph.d m.d"""
)


def sentences(text: str) -> list[str]:
    """Split at final punctuation before a capital or a digit, but not behind abbreviations and initials."""
    found, start = [], 0
    for match in _END.finditer(text):
        if text[match.start()] == "." and _is_abbreviation(text[start : match.start()]):
            continue
        found.append(text[start : match.end()].strip())
        start = match.end()
    found.append(text[start:].strip())
    return [sentence for sentence in found if sentence]


def _is_abbreviation(before: str) -> bool:
    """Whether the word right before a full stop is an initial (``J``) or a known abbreviation (``Dr``, ``U.S``)."""
    word = re.split(r"[\s(\[“\"]", before)[-1]
    return (
        re.fullmatch(r"(?:[^\W\d_]\.)*[^\W\d_]", word) is not None and word[-1].isupper()
    ) or word.casefold() in _ABBREVIATIONS


def is_plain(sentence: str) -> bool:
    """Whether a sentence is a whole statement of a usual length."""
    length = len(sentence.split())
    starts = re.match(r"[A-Z0-9(]|[\"“][^\"“”]+[\"”] ", sentence)
    ends = re.search(r"\.[\"”')\]]*$", sentence)
    odd = re.search(r"[?!]|\.\.\.|…|\bwww\.|https?:|\bISBN\b|^[^.:,]{1,40}: [A-Z]|\bpp?\. ?\d", sentence)
    return MIN_SENTENCE_WORDS <= length <= MAX_SENTENCE_WORDS and bool(starts and ends) and not odd
