"""Texts as terms: normalised, lightly stemmed word tokens, which annotator, filters and judge compare alike."""

import re
import unicodedata
from collections.abc import Sequence
from functools import lru_cache

from tilewright.data_gen.grounded.lexicon import BASE_OF_PAST, FUNCTION_WORDS, MONTHS, NUMBER_WORDS, QUESTION_WORDS

_TOKEN = re.compile(r"(?:(?<!\S)-)?\d+(?:[.,]\d+)*(?![^\W_])|[^\W_]+(?:'[^\W_]+)*")
_THOUSANDS = re.compile(r"(?<=\d),(?=\d{3}(?!\d))")
_ASKED_FOR = re.compile(
    r"\b(?:which|what) (?:year|date|month and year|month|decade|century|city|country|state|percentage|place|age)\b"
    r"|\bhow (?:many|much money|much)\b", re.I,
)  # fmt: skip
_SITE = re.compile(r"(?<=\S) (?:[-|·•»—]|::) (?:(?! (?:[-|·•»—]|::) ).)+$")  # not: an en dash, which titles hold
_NO_TITLES = frozenset(
    ("", "about", "api reference", "changelog", "contents", "documentation", "faq", "getting started", "glossary",
     "help", "home", "index", "installation", "introduction", "news", "overview", "preface", "reference", "welcome")
)  # fmt: skip
"""Parts of titles that name nothing without the name of their site."""
_VOWEL = re.compile(r"[aeiouy]")


def terms(text: str) -> tuple[str, ...]:
    """The terms of ``text`` in order: case-folded, possessive and plural endings dropped, past forms reduced.

    Numbers lose thousands separators and keep a decimal point (``1,000`` is the term ``1000``).
    """
    text = unicodedata.normalize("NFKC", text).casefold().replace("’", "'").replace("\u2212", "-")
    return tuple(stem(token) for token in _TOKEN.findall(_THOUSANDS.sub("", text)))


@lru_cache(maxsize=100_000)
def stem(token: str) -> str:
    """One term of a case-folded token. Crude, but the same for a query and for the tile it's compared with."""
    if token[:1].isdigit() or token[:1] == "-":
        return token
    token = token.removesuffix("'s").replace("'", "")
    token = NUMBER_WORDS.get(token, token)
    token = _without_plural(BASE_OF_PAST.get(token, token))
    for suffix in ("ing", "ed"):
        if token.endswith(suffix) and len(token) > len(suffix) + 2 and _VOWEL.search(token[: -len(suffix)]):
            return _without_e(_undoubled(token.removesuffix(suffix)))
    return _without_e(token)


def _without_e(token: str) -> str:
    return token.removesuffix("e") if len(token) > 3 else token


def _without_plural(token: str) -> str:
    if token.endswith("ies") and len(token) > 4:
        return token[:-3] + "y"
    if token.endswith("s") and not token.endswith(("ss", "us", "is")) and len(token) > 3:
        return token[:-1]
    return token


def _undoubled(token: str) -> str:
    return token[:-1] if len(token) > 3 and token[-1] == token[-2] and token[-1] not in "lsz" else token


_IGNORED = frozenset(stem(word) for word in FUNCTION_WORDS | QUESTION_WORDS)
_WEAK = frozenset(stem(month.casefold()) for month in MONTHS)


def key_terms(text: str) -> frozenset[str]:
    """The terms that carry a query's meaning: all but function words, question words and what is asked for (*which
    year*), which a statement that answers need not hold."""
    return telling(frozenset(terms(_ASKED_FOR.sub(" ", text))))


def telling(found: frozenset[str]) -> frozenset[str]:
    """The terms of ``found`` that are no function words or question words."""
    return found - _IGNORED


def holds(sequence: Sequence[str], part: Sequence[str]) -> bool:
    """Whether ``part`` stands in ``sequence`` as consecutive terms; never for an empty ``part``."""
    if not part:
        return False
    first, length = part[0], len(part)
    return any(
        sequence[i] == first and tuple(sequence[i : i + length]) == tuple(part)
        for i in range(len(sequence) - length + 1)
    )


def contains_title(query: str, title: str) -> bool:
    """Whether the query holds the title (its part in brackets aside) as consecutive terms."""
    return holds(terms(query), terms(bare_title(title)))


def title_terms(title: str) -> frozenset[str]:
    """The telling terms of a page title, without the part in brackets."""
    return key_terms(bare_title(title)) - _WEAK


def bare_title(title: str) -> str:
    """The title without the name of its site (``Profiles - The Cargo Book`` is ``Profiles``) and without a
    disambiguating last part in brackets (``Mercury (planet)`` is ``Mercury``)."""
    own = _SITE.sub("", title)
    title = title if own.casefold() in _NO_TITLES else own
    return re.sub(r"\s*\([^()]*\)\s*$", "", title) or title
