"""Where a sentence may be cut so that what is left is still a whole clause."""

import re

from tilewright.data_gen.grounded.lexicon import VERB_FORMS, words
from tilewright.data_gen.grounded.terms import key_terms

MIN_TERMS = 4  # a question that holds fewer key terms would fit too many statements
_VERBS = "|".join(sorted(VERB_FORMS))
_CLAUSE_END = re.compile(
    rf"[,;:]? (?:\(|–|—)|[;:,] | (?:and|but) (?=(?:\w+ly |also |then |later )?(?:{_VERBS}|he|she|it|they)\b)"
    r"| (?:when|while|although|though|whereas|where|which|who|because|as|after|before|until) "
)
_SENTENCE_PART = re.compile(
    r"; |: | [–—] |, (?:and|but|while|although|though|whereas|where|which|who|when|with|because) | \("
)
_OPENS_WITH = "|".join(
    sorted(
        words(
            """According Besides Although Though In At On After Before With Without Due Despite When While As Since For
            From By During Under Upon If Because Unlike Like Among Of Between Following"""
        )
    )
)
_OPEN_HEAD = re.compile(
    rf"^(?:{_OPENS_WITH}|[A-Z][a-z]+(?:ed|ing))\b[^,]*$"
    r"|, (?:and |but )?(?:as|which|who|whose|where|when|with|including|from|of|in|a|an|the|[a-z]+(?:ed|ing))\b[^,]*$"
)
"""A head whose first comma, or whose closing comma, is still to come: the clause goes on behind it."""
_LISTED = re.compile(r"^[^,;]{0,40}(?:, [^,;]{1,40}){1,6},? (?:and|or) |^[^,;]{0,40}, \d")
_VERB_FOLLOWS = re.compile(rf",? (?:\w+ly |also )?(?:{_VERBS}|\w+ed)\b")
_BREAKS_OFF = re.compile(
    r" (?:the|a|an|of|in|on|at|to|by|for|from|with|and|or|but|as|than|is|was|were|are|be|its|his|her|their|which|that"
    r"|who|into|about|when|where|while|because|did|does|do|not)$", re.I
)  # fmt: skip

_ODD = re.compile(
    r"\.[\"”]|'\"|[a-z]{3}\. \W|;[–—]|\bhow many [^,]*, the [A-Z][^,]* (?:had|has|have|was|were|is|are) "
    r"|^(?:If|When|While|Although|Because|As|Unless|Once) (?:how many|which|what)\b"
    r"|\b(?:an? [a-z]+|some|U\+) how many\b"
    r"|\b(?:an?|northern|southern|eastern|western|central|upper|lower|former|early|late) which [a-z]"
)


def first_part(text: str) -> str:
    """``text`` up to where a new part of the sentence starts; all of it if there's none."""
    return _until(_SENTENCE_PART, text)


def tail_of(head: str, after: str) -> str:
    """What to keep of ``after``, the text behind a fact that follows ``head``: up to the end of its clause, or all of
    it where a cut would break the sentence."""
    if _OPEN_HEAD.search(head) or _LISTED.search(after):
        return after
    clause = _until(_CLAUSE_END, after)
    if _VERB_FOLLOWS.match(after[len(clause) :]):
        return after  # the main verb is still to come
    if re.search(r", [^,]{1,40}, [^,]*$", head) and re.match(r"(?: [\w-]+){0,4},? (?:and|or) ", after):
        return after  # the last items of a list
    return clause if len(key_terms(head)) >= MIN_TERMS else first_part(after)


def _until(end: re.Pattern[str], text: str) -> str:
    """``text`` up to the first match of ``end``; an ``, and`` that closes a list is no end."""
    for match in end.finditer(text):
        closes_list = "," in text[: match.start()] and re.match(r",? (?:and|or) ", text[match.start() :])
        if not closes_list:
            return text[: match.start()]
    return text


def is_whole(query: str) -> bool:
    """Whether a question has a verb and enough key terms, its brackets and quotes pair up, it asks once and doesn't
    break off."""
    body = query[:-1]
    paired = all(body.count(left) == body.count(right) for left, right in ("()", "[]", "“”"))
    has_verb = any(word in VERB_FORMS or word.endswith("ed") for word in re.findall(r"[a-z]+", body))
    odd = body.count('"') % 2 or "?" in body or _ODD.search(body) or _BREAKS_OFF.search(body)
    return paired and has_verb and not odd and len(key_terms(query)) >= MIN_TERMS


def tidy(query: str) -> str:
    """``query`` with single spaces, and none before marks."""
    return re.sub(r" ([,;:.?])", r"\1", re.sub(r"\s+", " ", query).replace("( ", "("))
