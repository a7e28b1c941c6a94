"""Cells of tables and infoboxes: which can be answers, which name what stands beside them, how labels are read."""

import re

from tilewright.data_gen.grounded.lexicon import MONTH, words

MAX_ANSWER_WORDS = 8
YEAR = r"(?:1\d{3}|20\d\d)"
DATE = re.compile(rf"(?:{MONTH}) \d{{1,2}}, {YEAR}|\d{{1,2}} (?:{MONTH}) {YEAR}|\d{{1,4}} BCE?\b|\b{YEAR}\b")
ROLE = re.compile(
    r"\b(?:director|decorator|producer|author|writer|president|minister|governor|opponent|mayor|premier|editor|composer"
    r"|chairman|secretary|representative|leader|monarch|king|queen|coach|captain|champion|creator|founder|artist"
    r"|speaker|viceroy|advisor|predecessor|successor|officer|manager|architect|engineer|designer|chairwoman|curator"
    r"|principal|translator|illustrator|photographer|inventor)(?:\(s\)|s)?\b", re.I,
)  # fmt: skip
"""Labels whose value is a person: *who*, not *what*."""
_BRACKETS_AT_END = re.compile(r" \([^()]*\)$")
_NOT_A_VALUE = re.compile(
    r"[\W_]*|yes|no|n/?a\b.*|none|negligible|unknown|capital|various|tb[acd]|see\b.*|list of .*|main article.*|\? ?\S*|.*(?:https?://|www\.|\.(?:pdf|php|html)\b).*"
    r"|.*['’]{2}.*|\d+ ?px|[+✔✓xX]|.*[<>{}|=].*", re.I,
)  # fmt: skip
_FOOTNOTES = re.compile(r"(?:\s?\[[^\]]*\]|(?<=[^\s*])[*†‡§¶^]+)+$")
_PLURAL = re.compile(r"[^sui\d\W]s$")
_HEADERS = words(
    """address age album altitude amount area artist author average band board book brand budget builder building built
    capacity captain category caption cause channel character city class club coach code color colour command
    company contact cost country county course date deadline default density department depth description
    designation diameter director distance district duration effect elevation email episode event example extension
    field film filename first floor format formula founded frequency function game genre goals grade group growth
    head height host in institution interval island keyword kind label language last launch leader length level
    limit lines local location maker manager mass material max maximum mean meaning method min minimum model month
    most movie name nickname notation number office official opened opening operator option order origin other owner
    parameter park party password people percent percentage period person phone place plant play player points
    population port position power precision president price product production province publisher range rank rate
    rating recipient region release released result return revenue role room route runtime salary school score
    season seat seats section service share side site size song source speaker speed sport stadium stage state
    station status stop street style subject supplier symbol target task team temperature term terminal time title
    topic total town trains turnover unit units usage use user value vehicle venue version volume votes ward week
    weight width wins winner words work year zone"""
)
"""First words of labels that are no names."""
_JOINING = words("of the and de la le von van der in for on to at el al")


def without_brackets(text: str) -> str:
    """``text`` without brackets at its end: ``103,400 (2014)`` is ``103,400``."""
    return _BRACKETS_AT_END.sub("", text)


def without_footnotes(text: str) -> str:
    """``text`` without marks of footnotes at its end: ``19.0*`` is ``19.0``, ``127[note 1]`` is ``127``."""
    return _FOOTNOTES.sub("", text)


def is_plural(label: str) -> bool:
    """Whether a label seems to name several things."""
    return _PLURAL.search(label) is not None


def is_answer(text: str) -> bool:
    """Whether a cell can be asked for: short, and neither empty, a mark, a *yes*, an address nor left-over markup."""
    return bool(text) and len(text.split()) <= MAX_ANSWER_WORDS and not _NOT_A_VALUE.fullmatch(text)


def may_be_person(value: str) -> bool:
    """Whether a value may name one person: capitals, no digits."""
    return value[:1].isupper() and not re.search(r"\d", value) and not names_several(value)


def names_several(value: str) -> bool:
    """Whether a value that names persons seems to name more than one: four capitals in a row, none of them joining."""
    found = value.split()
    return len(found) > 3 and all(word[:1].isupper() for word in found) and not _JOINING & set(found)


def is_list(value: str) -> bool:
    """Whether several values seem to stand in one cell with no mark between them, as line breaks leave them."""
    found = value.split()
    names_in_a_row = sum(word[:1].isupper() for word in found) > 4 and not _JOINING & set(found) and "," not in value
    seams = re.findall(r"(\S*[a-zà-þ]) (?=[A-ZÀ-Þ])", value)
    joined = any(seam[:1].islower() and seam not in _JOINING for seam in seams)
    dated = re.search(r"\) [A-Z]|\d [A-Z][a-z]+ \d", value) is not None
    return names_in_a_row or joined or dated or "·" in value or value.count("(") > 1


def lowered(label: str, common: frozenset[str] | None = None) -> str:
    """A label inside a sentence: its first letter small unless it's a name or an abbreviation; ``(s)`` dropped.

    ``common``: words that the text around writes small; with them, a single word in the singular that is neither there
    nor one that heads many tables is taken for a name (*Coptic*, *Clang*).
    """
    label = label.replace("(s)", "")
    first, _, rest = label.partition(" ")
    is_plain = first[1:].islower() and not re.search(r"\b[A-Z][a-z]", rest)
    single = re.search(r"[a-z]{2}", rest) is None and not is_plural(first)
    if common is not None and single and not ROLE.search(label) and first.casefold() not in common | _HEADERS:
        is_plain = False
    return label[0].lower() + label[1:] if is_plain else label
