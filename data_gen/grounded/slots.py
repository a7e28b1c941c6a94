"""What a sentence may be asked for: dates, quantities, persons, named things, places; each with its question word."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from tilewright.data_gen.grounded.lexicon import MONTH, NUMBER_WORDS, VERB_FORMS, words
from tilewright.data_gen.grounded.names import CLASS_WORDS, NAME, PLACE_KINDS, WORD, is_person

YEAR = r"(?:1[0-9]\d\d|20\d\d)"
_ERA = r"(?:BCE|BC|AD|CE)"
_WHEN = r"(?P<preposition>in|by|since|until|before|after|during|around)"
_NOT_MORE = rf"(?!\w|[-–/%]|\.\d|,\d| ?{_ERA}\b|,? (?:and|or|to) (?:in )?(?:{MONTH}|\d)|, \d|'s|’s)"
_DATES = (
    (
        "date",
        rf"\b(?P<preposition>on) (?P<answer>(?:{MONTH}) \d{{1,2}}, {YEAR}|\d{{1,2}} (?:{MONTH}) {YEAR})",
        "which date",
    ),
    ("month", rf"\b{_WHEN} (?P<answer>(?:{MONTH}),? {YEAR})", "which month and year"),
    ("year", rf"\b{_WHEN} (?P<answer>{YEAR}|(?:{_ERA} )?\d{{1,4}} {_ERA}|{_ERA} \d{{1,4}})", "which year"),
    ("year", rf"\bfrom {YEAR} (?P<preposition>to|until) (?P<answer>{YEAR})", "which year"),
    ("year", rf"\bbetween {YEAR} (?P<preposition>and) (?P<answer>{YEAR})", "which year"),
    ("decade", rf"\b{_WHEN} the (?:early |late |mid-)?(?P<answer>{YEAR}s)", "which decade"),
    ("century", rf"\b{_WHEN} the (?P<answer>\d{{1,2}}(?:st|nd|rd|th) century(?: {_ERA})?)", "which century"),
)
_DATE_PATTERNS = tuple((kind, re.compile(pattern + _NOT_MORE, re.I), asked) for kind, pattern, asked in _DATES)

_NUMBER = r"\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?"
_LARGE = r"(?:thousand|million|billion|trillion)"
_UNIT = r"(?:km|kg|mm|cm|ft|mi|lb|nm|MHz|GHz|kPa|eV|°C|°F|km²|km2|sq mi|sq km|percent of)(?![\w²/·])"
_NOUN = r"(?:[a-z]+ )?(?!is\b|was\b|has\b|as\b|its\b|does\b|this\b|years? old\b|times\b|percent\b)[a-z]{2,}s\b"
_COUNT = re.compile(
    rf"(?P<before>\S+ )?(?<![\w.,$€£#+–-])(?P<answer>(?:{_NUMBER})(?: {_LARGE})?|\b(?:{'|'.join(NUMBER_WORDS)}))"
    rf"(?P<noun> (?:{_NOUN}|people\b|{_UNIT}))(?! and \d)"
)
_PERCENTAGE = re.compile(rf"(?<![\w.,–-])(?P<answer>(?:{_NUMBER}) ?(?:%|percent|per cent))(?= of )")
_MONEY = re.compile(
    rf"\b(?P<preposition>of|for|to|at|about|over|nearly|than|with|by) (?P<answer>(?:US|A|C)?[$€£](?:{_NUMBER})"
    rf"(?: {_LARGE})?)(?=[.,;)](?!\d)|$| (?:in|by|from|for|per|a year|annually)\b)"
)
_AGE = re.compile(
    r"\b(?P<preposition>at) (?:the )?(?:age (?:of )?|aged )(?P<answer>\d{1,2}|[a-z]+(?:-[a-z]+)?)(?=[.,;)]|$| [a-z])"
)
_NAME_ENDS = r"(?<!['’]s)(?![\w-]| \d|['’]s| (?:of|the) [A-Z])"
_AFTER_NAME = "|".join(
    sorted(VERB_FORMS | words("and or in on at to by from for with as who which when where while during after before"))
)
_ALONE = rf"{_NAME_ENDS}(?!,? (?:and|or) [A-Z]|, [A-Z])(?=[.,;:]|$| (?:{_AFTER_NAME})\b)"
_PERSON = re.compile(
    rf"\b(?P<before>[a-z]+) (?P<answer>{NAME}){_ALONE}",
)
_CALLED = re.compile(
    r"\b(?P<preposition>known as|called|nicknamed|titled|entitled|named|renamed) (?:the |an? )?"
    rf"(?P<answer>\"[^\"]{{3,50}}\"|“[^“”]{{3,50}}”|{NAME}){_ALONE}(?!,? (?:and|or) )"
)
_CLASSED = re.compile(
    rf"\b(?:[Tt]he )?(?P<answer>(?:(?P<first>{CLASS_WORDS}) (?:of|for) (?:the )?{NAME}"
    rf"|(?:{WORD} (?:of (?:the )?|and |for )?)+?(?P<last>{CLASS_WORDS}))){_ALONE}"
)
_PLACED = (
    "born|died|buried|held|located|situated|based|founded|established|built|signed|opened|headquartered|settled|lived"
    "|studied|raised|published|place|moved|emigrated|returned|travel+ed|fled|sent|exiled|arrived|landed|worked|taught"
)
_PLACE_NAMES = "|".join(sorted(PLACE_KINDS, key=len, reverse=True))
_PLACE = re.compile(
    rf"(?P<verb>(?:(?<= )(?:{_PLACED}) )?)(?P<preposition>in|to|from|near|at) (?P<answer>{_PLACE_NAMES})"
    r"(?!\w|,? (?:and|or) |, [A-Z]| [A-Z(]|['’]s|-|/)"
)
_NOT_COUNTED_AFTER = words(
    """the these those his her its their all first last next other another a an every each only apollo chapter figure
    table version article section amendment part both no number no. between from to or and nor page level type saturn
    tier grade class category phase stage group size age top past estimated additional extra total upper average further
    former current remaining few other's about- some"""
)
_SPAN = re.compile(r" (?:[a-z]+ )?(?:days|weeks|months|years|hours|minutes)")
_BEFORE_WHOM = words("with to for from against between of under after before like including via through toward")
_BEFORE_WHICH = VERB_FORMS | _BEFORE_WHOM | words("in at on by near into across over within throughout around along")
_VERBS_OF_WHOM = words(
    """married succeeded defeated met joined appointed replaced taught influenced killed nominated elected beat followed
    named invited helped sued hired criticized praised supported opposed portrayed played directed interviewed"""
)


@dataclass(frozen=True)
class Slot:
    """A fact that can be asked for. ``text[start:end]`` gives way to ``asked``; ``text[answer_start:answer_end]``,
    inside it, is the answer."""

    kind: str
    start: int
    end: int
    answer_start: int
    answer_end: int
    asked: str


def slots(text: str, persons: frozenset[str]) -> Iterator[Slot]:
    """The slots of one sentence; no two share the start of an answer."""
    taken: list[range] = []
    for slot in (*_date_slots(text), *_quantity_slots(text), *_name_slots(text, persons)):
        if not any(slot.answer_start in span for span in taken):
            taken.append(range(slot.answer_start, slot.answer_end))
            yield slot


def _of_match(kind: str, match: re.Match[str], asked: str, first: str | int = "preposition") -> Slot:
    return Slot(kind, match.start(first), match.end("answer"), *match.span("answer"), asked)


def _date_slots(text: str) -> Iterator[Slot]:
    for kind, pattern, asked in _DATE_PATTERNS:
        for match in pattern.finditer(text):
            goes_on = re.match(r" [A-Z]\w+ [A-Z]" if match.start() == 0 else r" [A-Z]", text[match.end() :])
            if not goes_on:  # as in 1956 Summer Olympics
                yield _of_match(kind, match, f"{match['preposition'].lower()} {asked}")


def _quantity_slots(text: str) -> Iterator[Slot]:
    for match in _PERCENTAGE.finditer(text):
        if not re.search(r"\d ?%? (?:to|and|or) $", text[: match.start()]):  # not: 50 to 80 %
            yield _of_match("percentage", match, "what percentage", "answer")
    for match in _MONEY.finditer(text):
        yield _of_match("money", match, f"{match['preposition']} how much money")
    for match in _AGE.finditer(text):
        if match["answer"].isdigit() or re.match(r"(?:six|seven|eigh|nin|twen|thir|for|fif)", match["answer"]):
            yield _of_match("age", match, "at what age")
    for match in _COUNT.finditer(text):
        before = (match["before"] or "").strip()
        if before.casefold() in _NOT_COUNTED_AFTER or before.endswith(("'s", "’s", "s'", "s’")):
            continue
        if before[:1].isupper() and match.start() > 0 and not before.endswith(","):
            continue  # part of a name: Apollo 11 astronauts
        if re.fullmatch(YEAR, match["answer"]) or (match.start("answer") == 0 and _SPAN.match(match["noun"])):
            continue
        yield _of_match("count", match, "how many", "answer")


def _name_slots(text: str, persons: frozenset[str]) -> Iterator[Slot]:
    for match in _CALLED.finditer(text):
        yield Slot("called", match.start(), match.end("answer"), *_unquoted(match), f"{match['preposition']} what")
    for match in _CLASSED.finditer(text):
        asked = f"which {(match['first'] or match['last']).lower()}"
        inside_name = re.search(r"[A-Z0-9][\w’'-]* $", text[: match.start()]) is not None
        named = (
            match.start() > 0 and not inside_name and " " in match["answer"] and not is_person(match["answer"], persons)
        )
        if named:
            yield _of_match("classed", match, asked, 0)
    for match in _PERSON.finditer(text):
        if re.search(r"[A-Z]\w* of $", text[: match.start("answer")]):
            continue  # part of a title: The Passion of Ayn Rand
        asks_for_whom = match["before"] in _BEFORE_WHOM | _VERBS_OF_WHOM | {"by"}
        if asks_for_whom and is_person(match["answer"], persons):
            yield _of_match("person", match, f"{match['before']} whom", "before")
    for match in _PLACE.finditer(text):
        if re.search(r"[A-Z]\w+ $", text[: match.start()]):
            continue  # part of a title: An American in Paris
        if match["verb"] or re.match(r"[.,;]|$", text[match.end() :]):
            yield _of_match("place", match, f"{match['preposition']} which {PLACE_KINDS[match['answer']]}")


def _may_ask_which(before: str, found: str) -> bool:
    """Whether *which school* may stand for a name: behind a preposition or a verb, or where the name has an article."""
    last = (before.split() or [""])[-1]
    return (found.startswith(("the ", "The ")) and not last[:1].isupper()) or last in _BEFORE_WHICH


def _unquoted(match: re.Match[str]) -> tuple[int, int]:
    start, end = match.span("answer")
    return (start + 1, end - 1) if match["answer"][0] in '"“' else (start, end)
