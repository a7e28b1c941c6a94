"""Questions from infobox pairs: the label and the page's subject are named, the value is asked for."""

import re
from collections.abc import Iterator

from tilewright.data_gen.grounded.asked import Asked
from tilewright.data_gen.grounded.choice import choose
from tilewright.data_gen.grounded.lexicon import words
from tilewright.data_gen.grounded.values import (
    DATE,
    ROLE,
    is_answer,
    is_list,
    is_plural,
    lowered,
    may_be_person,
    without_brackets,
    without_footnotes,
)
from tilewright.data_gen.records import Block

_DATED = {
    "born": ("When was {s} born?", "On which date was {s} born?"),
    "died": ("When did {s} die?", "On which date did {s} die?"),
    "founded": ("When was {s} founded?", "In which year was {s} founded?"),
    "formation": ("What is the date of the formation of {s}?", "Which date is given for the formation of {s}?"),
    "published": ("When was {s} published?", "On which date was {s} published?"),
    "released": ("When was {s} released?", "On which date was {s} released?"),
    "retired": ("When did {s} retire?", "On which date did {s} retire?"),
    "recognised": ("When was {s} recognised?",),
    "recognized": ("When was {s} recognized?",),
    "declared": ("When was {s} declared?",),
    "term start": ("On which date did the term of {s} start?", "What is the start of the term of {s}?"),
    "term end": ("On which date did the term of {s} end?", "What is the end of the term of {s}?"),
}
_PLACED = {
    "born": ("Where was {s} born?", "In which place was {s} born?"),
    "died": ("Where did {s} die?", "In which place did {s} die?"),
}
_WHO_IS = ("Who is the {l} of {s}?", "Who is {s}'s {l}?")
_WHO_WERE = ("Who were the {l} of {s}?", "Who are named as the {l} of {s}?")
_WHO_WAS = ("Who was the {l} of {s}?", "Who is named as the {l} of {s}?")
_IN_OFFICE = words("governor president monarch premier editor mayor")
_KNOWN = {
    "known for": ("What is {s} known for?",),
    "prime minister": _WHO_IS,
    "lieutenant governor": _WHO_IS,
    "vice president": _WHO_WAS,
    "doctoral advisor": ("Who was the doctoral advisor of {s}?", "Who was {s}'s doctoral advisor?"),
    "doctoral students": ("Who is named among the doctoral students of {s}?",),
    "spouse(s)": ("Who was the spouse of {s}?",),
    "resting place": ("What is the resting place of {s}?",),
    "alma mater": ("What is the alma mater of {s}?", "What was {s}'s alma mater?"),
}
_GENERAL = (
    "What is the {l} of {s}?",
    "What is {s}'s {l}?",
    "Which {l} is given for {s}?",
    "For {s}, what is the {l}?",
)
_PLURAL = ("What are the {l} of {s}?", "Which {l} are given for {s}?", "For {s}, what are the {l}?")
_COUNTED = ("How many {l} does {s} have?", "How many {l} are given for {s}?")
_WITH_DATE = ("Which date is given for the {l} of {s}?", "In connection with {s}, which date is given for {l}?")
_BEHIND_DATE = re.compile(r"^(?: \((?:aged?|age) [^)]*\))?,? (?P<place>[A-Z].*)$")

_UNCLEAR = words(
    """iso glotto pixels flaglink seallink coatlink link id url wikisource website synonyms apsis other others taxon the
    of commander note title ref type active reserve deployed plays former formerly influenced influences code deficit
    result date name state year years rank ranks size status team teams combatant frequency abbreviation openaccess
    history km us sovereignty amount object subject standard component surface interplanetary docking retired"""
)
_UNCLEAR_ALONE = words("next previous prev last first preceded followed status description list notes")
_LEFT_OPEN = words("by of at in to from on for")
_WITH_NUMBER = re.compile(r"([^\d,()]*[^\W\d_]) \d{1,3}(?:,\d{3})+")  # Birmingham 212,038
_CLEAR_AT_END = words("rank code date size type name")
_PARAMETER_ENDS = "|".join(
    sorted(
        words(
            """area areas point elev pop rank house party seat seats lang city metro county anthem water abbreviation
            prefix adjective density date order income result results titles money ranking tournaments pro works place
            years cast name after us km type id code db plus subj topic access president link where year note refname"""
        )
    )
)
_RUN_TOGETHER = re.compile(rf"[a-z]{{2,}}(?:{_PARAMETER_ENDS})|[a-z]{{4,}}of[a-z]{{4,}}")
_WHOLE_WORDS = words("workplaces birthplace professors nickname timezone venus genus status consensus population")


def infobox_questions(block: Block, subject: str) -> Iterator[Asked]:
    """Questions about one whole (label, value) pair of the infobox of the page called ``subject``."""
    if not block.whole or len(block.cells) != 2:
        return
    label, value = block.cells[0].strip().rstrip(":").lstrip("•- "), block.cells[1].strip()
    key = f"{subject}:{label}:{value}"
    if label.casefold() in _DATED:
        yield from _dated(label.casefold(), value, subject, key)
        return
    answer = without_brackets(without_footnotes(value))
    if counted := _WITH_NUMBER.fullmatch(answer):
        answer = counted[1]
    if is_answer(answer) and not _is_several(label, answer) and is_readable(label):
        template = choose(_templates(label, answer), key)
        yield Asked(template.format(s=subject, l=lowered(label)), answer, "infobox")


def _is_several(label: str, answer: str) -> bool:
    return is_list(answer) or (ROLE.search(label) is not None and not may_be_person(answer))


def _dated(label: str, value: str, subject: str, key: str) -> Iterator[Asked]:
    """When, and for births and deaths also where."""
    date = DATE.search(value)
    if date is None:
        return
    yield Asked(choose(_DATED[label], key).format(s=subject), date.group(), "infobox")
    place = _BEHIND_DATE.match(value[date.end() :])
    if place and label in _PLACED and is_answer(place["place"]):
        yield Asked(choose(_PLACED[label], key).format(s=subject), place["place"], "infobox")


def _templates(label: str, answer: str) -> tuple[str, ...]:
    """The forms that fit a label: its own, or by what is asked for and its number."""
    known = label.casefold()
    if known in _KNOWN:
        return _KNOWN[known]
    if DATE.fullmatch(answer):
        return _WITH_DATE
    if ROLE.search(label):
        return _WHO_IS if known in _IN_OFFICE else _WHO_WERE if is_plural(label) else _WHO_WAS
    if is_plural(label) and re.fullmatch(r"\d{1,3}(?:,\d{3})*|\d+", answer):
        return _COUNTED
    return _PLURAL if is_plural(label) else _GENERAL


def is_readable(label: str) -> bool:
    """Whether a label can be read aloud: not run together from a template's parameter (``Highestelevus``)."""
    parts = label.casefold().split()
    if label.casefold() in _KNOWN:
        return True
    if not 1 <= len(parts) <= 7 or not label[0].isalpha() or re.search(r"\d|[<>{}|=]", label):
        return False
    if len(parts) == 1 and parts[0] in _UNCLEAR_ALONE:
        return False
    if (
        parts[0] in ("e", "from", "gene")
        or parts[-1] in _LEFT_OPEN
        or parts[0] in _UNCLEAR
        or parts[-1] in _UNCLEAR - _CLEAR_AT_END
        or max(map(len, parts)) > 15
    ):
        return False
    return not any(_RUN_TOGETHER.fullmatch(word) and word not in _WHOLE_WORDS for word in parts)
