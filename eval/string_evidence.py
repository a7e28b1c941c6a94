"""Evidence by string: whether an answer stands in an item's text. A stand-in for a judge, and called so everywhere."""

import functools
import re
import unicodedata
from collections.abc import Sequence
from html import unescape

from tilewright.data_gen.answers import normalize_answer

_TAG = re.compile(r"<[^<>]*>")
_JOINED = re.compile(r"(?<=\w)[-\u2010-\u2015/](?=\w)")  # 1,000-year holds 1000


@functools.lru_cache(maxsize=65_536)
def evidence_form(text: str) -> str:
    """``text`` as it is searched: normalised as answers are, without diacritics, a blank at both ends."""
    plain = "".join(char for char in unicodedata.normalize("NFKD", text) if not unicodedata.combining(char))
    return f" {normalize_answer(_JOINED.sub(' ', plain))} "


def visible(html: str) -> str:
    """The text of HTML, a blank for each tag: a word in one cell isn't joined to that in the next."""
    return unescape(_TAG.sub(" ", html))


def holds(text: str, answers: Sequence[str]) -> bool:
    """Whether one of ``answers`` stands in ``text`` as whole words: ``19`` doesn't stand in ``1965``.

    An answer of marks alone stands nowhere.
    """
    found = evidence_form(text)
    wanted = (evidence_form(answer) for answer in answers)
    return any(answer.strip() and answer in found for answer in wanted)
