"""Whether a question can be understood without its page: a check of the text alone."""

import re

from tilewright.data_gen.grounded.lexicon import AUXILIARIES, BASE_OF_PAST, MONTHS, PRONOUNS, words
from tilewright.data_gen.grounded.terms import key_terms, terms, title_terms

DEFINING_TERMS = 6  # a question for what a definition defines names nothing, but so many terms tell it apart
_LAYOUT = re.compile(
    r"\b(?:(?:this|that|the) (?:table|list|chart|graph|figure|image|picture|photo\w*|diagram|map|article|page|section"
    r"|chapter|paragraph|infobox|text|passage)|(?:table|figure|section|see) (?:above|below)|above|below|pictured"
    r"|(?:at|on|to) the (?:left|right|top|bottom)|(?:the )?(?:former|latter)|as follows|the following|aforementioned"
    r"|above-mentioned|see also|\[\d+\]|citation needed)\b", re.I
)  # fmt: skip
_DEMONSTRATIVE = re.compile(
    r"\b(?:this|these|those|such)\b(?! as\b| that\b)"
    r"|\b(?:in|at|of|for|to|from|by|with|on|under|during) that [a-z]+"
    r"|\bthat (?:year|time|day|month|date|period|point|same|place|decade|century|war|book)\b", re.I
)  # fmt: skip
_SPAN = "year|month|day|week|night|morning|decade|century|season"
_RELATIVE_TIME = re.compile(
    rf"\b(?:(?:that|the) (?:same|next|following|previous|preceding) (?:{_SPAN})"
    rf"|(?:{_SPAN})s? (?:later|earlier|ago|before|prior)|at (?:the|that) time|by then|since then|currently|nowadays|now"
    r"|today|recently|previously|later that|earlier that|thereafter|there|here|then)\b", re.I
)  # fmt: skip
_GENERIC = words(
    """state country nation city town island province region territory area film movie book novel play album song
    series show game company organization institute university school team club party government parliament
    constitution president king emperor author director writer artist poet philosopher actor scientist war battle army
    treaty agreement act law bill court case report study survey program project mission spacecraft crew astronauts ship
    species genus family group population people language alphabet word term name letter title character story work
    works essay paper theory system method process community majority event ceremony award prize tournament match final
    season couple bodies body peak latter former rest others site building capital commission conference"""
)
_OPENING = "(?:In|On|By|Since|Until|Before|After|During|Around) which [a-z ]+? (?:was|were|did|is|are|had|has|have) "
_ANAPHOR = re.compile(
    rf"^(?:{_OPENING})?the (?:{'|'.join(sorted(_GENERIC))})\b(?! (?:of|for|that|in) [A-Z\"“])", re.I
)  # fmt: skip
_VERBS = "|".join(sorted(AUXILIARIES | BASE_OF_PAST.keys() | {"also"}))
_NAMED = re.compile(r"(?<=[\w,;:)”\"’] )[\"“(]?[A-ZÀ-ÖØ-Þ][\w’'.-]+|[\"“][^\"“”]{4,}[\"”]|\b[A-Z]{2,}\b")
_DATED = re.compile(r"\b(?:1\d{3}|20\d\d)s?\b|\b\d{1,3},\d{3}\b")  # a year or a large number is specific, too
_DEFINITION = re.compile(r"(?:Who|What|Which \w+) (?:is|are|was|were) ")
_PRONOUN = re.compile(rf"\b(?:{'|'.join(sorted(PRONOUNS))})\b", re.I)
_FIRST_PERSON = re.compile(r"\b(?:I|me|my|we|us|our|you|your)\b(?!\.)")
_FAULTS = (
    ("layout_word", _LAYOUT),
    ("demonstrative", _DEMONSTRATIVE),
    ("relative_time", _RELATIVE_TIME),
    ("first_person", _FIRST_PERSON),
)


def fault(query: str, subject: str, min_terms: int, max_words: int) -> str | None:
    """Why ``query`` doesn't stand alone, as a short name; None if it does. ``subject`` is what it may be about.

    Faults: ``too_few_terms``, ``too_long``, ``layout_word``, ``demonstrative``, ``relative_time``, ``first_person``,
    ``nothing_named`` (no name, quotation, year, large number or mention of the subject; a definition may do without),
    ``pronoun`` and ``generic_subject`` (*the film*) without a name before them.
    """
    if len(key_terms(query)) < min_terms:
        return "too_few_terms"
    if len(query.split()) > max_words:
        return "too_long"
    for name, pattern in _FAULTS:
        if pattern.search(query):
            return name
    named = _first_name(query, subject)
    defines = _DEFINITION.match(query) is not None and len(key_terms(query)) >= DEFINING_TERMS
    if named is None and not defines and not _DATED.search(query):
        return "nothing_named"
    pronoun = _PRONOUN.search(query)
    if pronoun and (named is None or pronoun.start() < named) and not query.startswith(("Who ", "Which ", "What ")):
        return "pronoun"
    if _is_anaphor(query, subject):
        return "generic_subject"
    return None


def _is_anaphor(query: str, subject: str) -> bool:
    """Whether the question's own subject is a bare *the film*, *the journal* that only its page would explain."""
    if _ANAPHOR.search(query):
        return True
    bare = re.match(rf"^The ([a-z]+) (?:{_VERBS})\b", query)
    return bare is not None and not set(terms(bare.group(1))) <= title_terms(subject)


def _first_name(query: str, subject: str) -> int | None:
    """Where the first name, quotation or mention of the subject stands; None without one."""
    places = [match.start() for match in _NAMED.finditer(query) if match.group().strip(".") not in MONTHS]
    about = title_terms(subject)
    places += [match.start() for match in re.finditer(r"[\w'’-]+", query) if about & set(terms(match.group()))]
    first = re.match(r"[A-Z][\w’'-]+", query)
    if first and re.search(rf"\s{re.escape(first.group())}\b", query):
        places.append(0)  # a name at the start that stands inside the question too
    return min(places, default=None)
