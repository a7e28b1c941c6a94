"""Answer normalisation and exact match: the one definition that filters, readers and evaluation share."""

import re
import unicodedata
from collections.abc import Sequence

_ARTICLES = frozenset({"a", "an", "the"})
_THOUSANDS = re.compile(r"(?<=[0-9]),(?=[0-9]{3}(?![0-9]))")
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))
_KEPT_MARK = re.compile(r"(?<=[0-9])\.(?=[0-9])|(?<!\S)-(?=[0-9])")  # a decimal point; the sign of a number


def normalize_answer(text: str) -> str:
    """The form in which answers are compared: SQuAD's (Rajpurkar et al. 2016), made safe for numbers and Unicode.

    NFKC, case-folded, punctuation and articles dropped, spaces collapsed. ``1,000`` equals ``1000``, but a decimal
    point and a leading minus stay (``3.14`` isn't ``314``, ``-5`` isn't ``5``). An answer made of articles only keeps
    them. Idempotent; empty if there's nothing but punctuation.
    """
    text = unicodedata.normalize("NFKC", unicodedata.normalize("NFKC", text).casefold()).translate(_DASHES)
    text = _THOUSANDS.sub("", text)
    kept = {match.start() for match in _KEPT_MARK.finditer(text)}
    text = "".join(char for i, char in enumerate(text) if i in kept or not _is_mark(char))
    words = unicodedata.normalize("NFKC", text).split()
    return " ".join([word for word in words if word not in _ARTICLES] or words)


def _is_mark(char: str) -> bool:
    """Punctuation, symbols and control characters that aren't spaces."""
    return unicodedata.category(char)[0] in "PSC" and not char.isspace()


def exact_match(prediction: str, answers: Sequence[str]) -> bool:
    """Whether ``prediction`` equals one of ``answers`` (the answer and its aliases) after normalisation.

    An empty prediction matches nothing. ``answers`` may be a single string.
    """
    found = normalize_answer(prediction)
    wanted = (answers,) if isinstance(answers, str) else answers
    return bool(found) and any(found == normalize_answer(answer) for answer in wanted)
