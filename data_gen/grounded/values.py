"""Cells of tables and infoboxes: which can be answers, which name what stands beside them, how labels are read."""

import re

from tilewright.data_gen.grounded.lexicon import MONTH, words

MAX_ANSWER_WORDS = 8
YEAR = r"(?:1\d{3}|20\d\d)"
DATE = re.compile(rf"(?:{MONTH}) \d{{1,2}}, {YEAR}|\d{{1,2}} (?:{MONTH}) {YEAR}|\d{{1,4}} BCE?\b|\b{YEAR}\b")
ROLE = re.compile(
    r"\b(?:director|decorator|producer|author|writer|president|minister|governor|opponent|mayor|premier|editor|composer"
    r"|chairman|secretary|representative|leader|monarch|king|queen|coach|captain|champion|creator|founder|artist"
    r"|speaker|viceroy|advisor|predecessor|successor)(?:\(s\)|s)?\b", re.I,
)  # fmt: skip
"""Labels whose value is a person: *who*, not *what*."""
_BRACKETS_AT_END = re.compile(r" \([^()]*\)$")
_NOT_A_VALUE = re.compile(
    r"[\W_]*|yes|no|n/?a|none|negligible|unknown|capital|various|see .*|.*(?:https?://|www\.|\.(?:pdf|php|html)\b).*"
    r"|.*['’]{2}.*|\d+ ?px|[+✔✓xX]|.*[<>{}|=].*", re.I,
)  # fmt: skip
_JOINING = words("of the and de la le von van der in for on to at el al")


def without_brackets(text: str) -> str:
    """``text`` without brackets at its end: ``103,400 (2014)`` is ``103,400``."""
    return _BRACKETS_AT_END.sub("", text)


def is_answer(text: str) -> bool:
    """Whether a cell can be asked for: short, and neither empty, a mark, a *yes*, an address nor left-over markup."""
    return bool(text) and len(text.split()) <= MAX_ANSWER_WORDS and not _NOT_A_VALUE.fullmatch(text)


def is_list(value: str) -> bool:
    """Whether several values seem to stand in one cell with no mark between them, as line breaks leave them."""
    found = value.split()
    names_in_a_row = sum(word[:1].isupper() for word in found) > 4 and not _JOINING & set(found) and "," not in value
    seams = re.findall(r"(\S*[a-zà-þ]) (?=[A-ZÀ-Þ])", value)
    joined = any(seam[:1].islower() and seam not in _JOINING for seam in seams)
    dated = re.search(r"\) [A-Z]|\d [A-Z][a-z]+ \d", value) is not None
    return names_in_a_row or joined or dated or "·" in value or value.count("(") > 1


def lowered(label: str) -> str:
    """A label inside a sentence: its first letter small unless it's a name or an abbreviation; ``(s)`` dropped."""
    label = label.replace("(s)", "")
    first, _, rest = label.partition(" ")
    is_plain = first[1:].islower() and not re.search(r"\b[A-Z][a-z]", rest)
    return label[0].lower() + label[1:] if is_plain else label
