"""A sentence rewritten as questions: one fact of it is asked for, the rest is kept.

Three forms, each grammatical by construction: fronted (`In which year did X publish Y?`, if subject and verb are
found), in place (`X was published in which year?`), and by the subject (`Who published Y in 1905?`).
"""

import re
from collections.abc import Iterator

from tilewright.data_gen.grounded.asked import Asked
from tilewright.data_gen.grounded.choice import choose
from tilewright.data_gen.grounded.clauses import MIN_TERMS, first_part, is_whole, tail_of, tidy
from tilewright.data_gen.grounded.lexicon import (
    AUXILIARIES,
    BASE_OF_PAST,
    FUNCTION_WORDS,
    MONTH,
    SUBJECT_PRONOUNS,
    words,
)
from tilewright.data_gen.grounded.names import CLASS_WORDS, NAME, Wording, is_person
from tilewright.data_gen.grounded.self_contained import DEFINING_TERMS
from tilewright.data_gen.grounded.slots import Slot, slots
from tilewright.data_gen.grounded.terms import key_terms, terms

_MARKERS = re.compile(
    r"^(?:However |(?:However|Moreover|Furthermore|Thus|Therefore|Nevertheless|In addition|Additionally|For example"
    r"|For instance|Also|Similarly|Meanwhile|Consequently|Indeed|In fact|As a result|On the other hand|Hence|Overall"
    r"|In contrast|By contrast|Traditionally|Historically|Originally|Eventually|Ultimately|Finally|Notably|Instead"
    r"|Rather), )"
)
_PREPOSITIONS = words("For After At In On By Within With From Of Before During Since To Under Between")
_NOT_IN_SUBJECT = words("who which that when while if as because although where whose not of in on at by for")
_ADVERBS = words("also first later then originally officially formally finally eventually initially soon")
_DATE_KINDS = words("date month year decade century")
_NAME_KINDS = words("place person classed")
_OTHER_DATE = re.compile(rf"\b(?:in|on|by|since|until) (?:the )?(?:(?:{MONTH}) )?\d{{3}}")
_PARTICIPLE = re.compile(r"\w+(?:ed|en|wn|ung|ade|un|eld)")
_LINKING = words("was is are were became has had")
_SUBJECT = re.compile(
    rf"(?P<article>(?:The |An? )?)(?P<answer>{NAME}) (?P<rest>(?:(?:also|first|later|then|never) )?(?P<verb>[a-z]+) .+)"
)
_CLASS_OF_NAME = re.compile(rf"^(?P<first>{CLASS_WORDS}) of|(?P<last>{CLASS_WORDS})$")


def questions(sentence: str, wording: Wording, subject: str) -> Iterator[Asked]:
    """A question for each fact of ``sentence`` that can be asked for.

    ``wording``: of the text around it; ``subject``: of the page. Which of the possible forms a fact gets depends on
    the digest of the sentence and the answer's place in it.
    """
    text = _plain(sentence)
    for slot in slots(text, wording.persons):
        forms = [query for query in _forms(text, slot, wording) if is_whole(query)]
        if forms:
            query = choose(forms, f"{text}:{slot.answer_start}")
            yield Asked(tidy(query), text[slot.answer_start : slot.answer_end], slot.kind)
    yield from _by_subject(text, wording, subject)


def _plain(sentence: str) -> str:
    """The sentence without its full stop, a marker like *However,* at its start, and short brackets."""
    text = re.sub(r" ?\([^()]{0,80}\)(?=[ ,;.]|$)", "", sentence.rstrip()).rstrip(".").rstrip()
    text = _MARKERS.sub("", text)
    return text[:1].upper() + text[1:]


def _forms(text: str, slot: Slot, wording: Wording) -> Iterator[str]:
    """The questions that ask for ``slot`` and keep the rest of its clause."""
    head, after = text[: slot.start].rstrip(), text[slot.end :]
    if not head:
        yield from _forms_of_first(slot, after)
    elif _fits_in_place(head, slot, after):
        tail = tail_of(head, after)
        dated = slot.kind in _DATE_KINDS
        if dated and not re.search(r"[,;:(]", head):
            yield from _fronted(slot, wording.inside(f"{head}{tail}"))
        if not (dated and tail.strip() and len(key_terms(head)) < MIN_TERMS):
            yield f"{head} {slot.asked}{tail}?"


def _forms_of_first(slot: Slot, after: str) -> Iterator[str]:
    """Forms for a fact that opens its sentence: *In 1905, ...*, *Twelve ...*."""
    if slot.kind in _DATE_KINDS and re.match(r",? [A-Z]|,? (?:the|an?) ", after):
        clause = first_part(after.lstrip(", "))
        yield from _fronted(slot, clause)
        if "," not in clause and not _OTHER_DATE.search(clause):
            yield f"{clause[:1].upper()}{clause[1:]} {slot.asked}?"
    elif slot.kind in ("count", "percentage"):
        yield f"{slot.asked.capitalize()}{first_part(after)}?"


def _fits_in_place(head: str, slot: Slot, after: str) -> bool:
    """Whether a question word may stand where the fact stands."""
    if head.split()[0] in _PREPOSITIONS and not key_terms(head):
        return False  # For how many years ...: the verb would have to be inverted
    if re.match(r" (?:they|he|she|it|we|there)\b", after):
        return False  # and in which year they ...: it opens a clause
    joined = re.search(r"(?:,|;|:|\b(?:and|but|or|that))$", head) is not None
    return not (joined and slot.kind in _DATE_KINDS | _NAME_KINDS)


def _fronted(slot: Slot, clause: str | None) -> Iterator[str]:
    """``In which year`` + inverted clause, if the clause's subject and verb can be told for sure."""
    if clause is None or _OTHER_DATE.search(clause):
        return
    found = first_part(clause).split()
    verb = next((i for i, word in enumerate(found[:10]) if word in AUXILIARIES or word in BASE_OF_PAST), None)
    if not verb or not _is_subject(found[:verb]) or _has_second_verb(found[verb + 1 :]):
        return
    adverb = [word for word in found[verb - 1 : verb] if word in _ADVERBS]
    subject, rest = found[: verb - len(adverb)], found[verb + 1 :]
    asked = slot.asked[:1].upper() + slot.asked[1:]
    word = found[verb]
    if not subject or rest[:1] == ["by"]:
        return
    if word in BASE_OF_PAST:
        yield " ".join([asked, "did", *subject, *adverb, BASE_OF_PAST[word], *rest]) + "?"
    elif word not in ("has", "have", "had") or (rest and _PARTICIPLE.fullmatch(rest[0])):
        yield " ".join([asked, word, *subject, *adverb, *rest]) + "?"


def _is_subject(found: list[str]) -> bool:
    """Whether the words before a verb are a plain noun phrase that names something."""
    small = [word.casefold() for word in found]
    if not 1 <= len(found) <= 8 or small[0] in SUBJECT_PRONOUNS | _NOT_IN_SUBJECT or small[-1] in _NOT_IN_SUBJECT:
        return False
    if set(small) & (_NOT_IN_SUBJECT - {"of", "in", "for"}) or re.search(r"[,;(]", " ".join(found)):
        return False
    return found[0][0].isupper() or found[0] in ("the", "a", "an")


def _has_second_verb(found: list[str]) -> bool:
    """Whether another finite verb is joined on, which the inversion would leave in the past tense."""
    for i, word in enumerate(found):
        if word.strip(",") in ("and", "but", "or", "then") or word.endswith(","):
            following = [other for other in found[i + 1 : i + 3] if not other.endswith("ly")]
            if any(other in BASE_OF_PAST or other in AUXILIARIES or other.endswith("ed") for other in following):
                return True
    return any(word in ("is", "are", "was", "were") for word in found)


def _by_subject(text: str, wording: Wording, subject: str) -> Iterator[Asked]:
    """``Who`` + predicate for a person, ``Which treaty`` for a name that says what it is, ``What`` for the page's
    subject, for a concept that is defined and for a named thing with an article."""
    of_page = rf"(?P<article>(?:The |An? )?)(?P<answer>{re.escape(subject)}(?:e?s)?) (?P<rest>(?P<verb>[a-z]+) .+)"
    matches = (re.fullmatch(of_page, text, re.I), _SUBJECT.fullmatch(text))
    match = next((found for found in matches if found and found["verb"] in _LINKING | BASE_OF_PAST.keys()), None)
    if match is None:
        return
    name, rest = match["answer"], first_part(match["rest"])
    if rest.split()[1:2] == ["by"] and match["verb"] not in _LINKING:
        return  # a participle: the film directed by ...
    is_page = terms(name) == terms(subject)
    asked = "Who" if is_person(name, frozenset() if is_page else wording.persons) else _class_of(name)
    defines = re.match(r"(?:is|was|are|were) ", rest) is not None
    is_concept = (
        re.match(r"(?:is|are) (?:an?|the|any) ", rest) is not None
        and name.casefold() in wording.common - FUNCTION_WORDS - SUBJECT_PRONOUNS
        and len(key_terms(rest)) >= DEFINING_TERMS
    )
    if asked is None and (is_page or is_concept or (match["article"] == "The " and " " in name)):
        asked = "What"
    if asked and is_whole(f"{asked} {rest}?") and len(key_terms(rest)) >= MIN_TERMS + defines:
        yield Asked(tidy(f"{asked} {rest}?"), name, "subject")


def _class_of(name: str) -> str | None:
    """``Which treaty`` for ``Treaty of Paris``; None for a name that doesn't say what it names."""
    match = _CLASS_OF_NAME.search(name) if " " in name else None
    return f"Which {(match['first'] or match['last']).lower()}" if match else None
