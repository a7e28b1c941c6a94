"""Answer normalisation and exact match: the one definition that filters, readers and evaluation share."""

import itertools
import re
import unicodedata
from collections.abc import Sequence

_ARTICLES = frozenset({"a", "an", "the"})
_THOUSANDS = re.compile(r"(?<![0-9.,])[0-9]{1,3}(?:,[0-9]{3})+(?![0-9]|,[0-9])")
_RAISED = re.compile(r"(?<=\d)(?=[⁰¹²³⁴-⁻¼-¾⅐-⅞↉])")  # 10² isn't 102, nor 1½ 11/2
_DASHES = str.maketrans(dict.fromkeys("\u2010\u2011\u2012\u2013\u2014\u2015\u2212", "-"))
_SIGN = re.compile(r"-?(?<!\.)\.$|-$")  # how the marks before a number end: sign and decimal point


def normalize_answer(text: str) -> str:
    """The form in which answers are compared: SQuAD's (Rajpurkar et al. 2016), made safe for numbers and Unicode.

    NFKC, case-folded, punctuation and articles dropped, spaces collapsed. ``1,000`` equals ``1000``, but marks between
    digits part them (``10:30`` is ``10 30``, not ``1030``), and a decimal point and a leading minus stay (``3.14``
    isn't ``314``, ``.5`` and ``-5`` aren't ``5``). An answer made of articles only keeps them. Idempotent; empty if
    there's nothing but punctuation.
    """
    text = unicodedata.normalize("NFKC", _RAISED.sub(" ", text)).casefold()
    text = unicodedata.normalize("NFKC", text).translate(_DASHES)
    text = _THOUSANDS.sub(lambda number: number[0].replace(",", ""), text)
    words = unicodedata.normalize("NFKC", _without_marks(text)).split()
    return " ".join([word for word in words if word not in _ARTICLES] or words)


def _without_marks(text: str) -> str:
    """``text`` without its runs of marks, but for what they mean to the digits around them."""
    runs = [(is_mark, "".join(run)) for is_mark, run in itertools.groupby(text, _is_mark)]
    texts = ["", *(run for _, run in runs), ""]
    return "".join(
        _between(run, texts[i][-1:], texts[i + 2][:1]) if is_mark else run for i, (is_mark, run) in enumerate(runs)
    )


def _between(marks: str, before: str, after: str) -> str:
    """What stays of a run of marks between two characters ("" at the ends of the text)."""
    if not after.isdecimal():
        return ""
    if before.isdecimal():
        return "." if marks == "." else " "
    sign = None if before and not before.isspace() else _SIGN.search(marks)
    return sign[0] if sign else ""


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
