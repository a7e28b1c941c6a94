"""Replies of models that make and rate questions: pairs or a skip, a short answer, a score. Strict, and never raising.

Each parser returns None for a reply that can't be used: not the form asked for, cut off, or readable in two ways.
"""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypeVar, get_args

from tilewright.data_gen import reply_json
from tilewright.data_gen.annotator import Generated, RawPair, Skip
from tilewright.data_gen.reply_choice import ChoiceReader, Choices, Label, word
from tilewright.data_gen.reply_claims import Polarity
from tilewright.data_gen.reply_text import plain, plain_line, plain_lines, unwrapped, visible_text, without_fences

T = TypeVar("T")

EvidenceKind = Literal["infobox", "table", "list", "paragraph", "image"]
EVIDENCE_KINDS: tuple[str, ...] = get_args(EvidenceKind)
CANNOT_ANSWER = "CANNOT_ANSWER"
OVER_MAX_PAIRS = "over_max_pairs"  # why pairs of a reply are left out

# What a skip's reason is counted as: a closed set, since a model's own words are without number.
SKIP_REASONS = ("vote_counts", "track_list", "census_table", "episode_list", "truncated_text", "no_facts", "other")
NO_PAIRS, NO_REASON = "no_pairs", "no_reason"
_SKIP_WORDS = {
    "vote_counts": r"vote|election result|ballot",
    "track_list": r"track ?list|track listing|tracks",
    "census_table": r"census|population table",
    "episode_list": r"episode",
    "truncated_text": r"truncat|cut off|cut short|incomplete",
    "no_facts": r"no (?:suitable |useful |clear )?(?:fact|text|content)|blank|empty|nothing",
}
_SKIP = re.compile(
    r"SKIP(?:PED)?\s*(?:[.!]?\Z|[.:;,|-]+\s*(?P<why>.+)|\((?P<bracketed>.+)\)\.?)", re.IGNORECASE | re.ASCII
)
_MAX_ANSWER = 1_000  # characters; a longer one isn't the short answer that was asked for
_ANSWER_NAME = re.compile(
    r"(?:(?:the|my|short|final)\s){0,3}answer(?:\sis)?\s?(?:[:=]|->)\s*", re.IGNORECASE | re.ASCII
)
_GIVES_ONE = re.compile(r"\banswer (?:is|would be|should be|could be)\s+(?!not\b|un)", re.IGNORECASE)
_QUOTED = re.compile(r"\A(?:“([^“”]*)”|«([^«»]*)»|‘([^‘’]*)’)\Z")
_BOLD = re.compile(r"\A(\*{1,3}|_{2,3}|`+)(?=\S)((?:(?!\1).)+)(?<=\S)\1\Z", re.DOTALL)


@dataclass(frozen=True)
class RawTextPair:
    """A question that a passage answers. ``source_span``: the verbatim part of the passage that does."""

    query: str
    source_span: str


@dataclass(frozen=True)
class GeneratedText:
    """Questions on one passage, as the model ordered them; ``dropped``: {why: how many} of those left out."""

    pairs: tuple[RawTextPair, ...]
    dropped: Mapping[str, int] = field(default_factory=dict)


def parse_pairs(reply: str, max_pairs: int) -> Generated | Skip | None:
    """The pairs of a reply about a tile: ``{"skip": null, "pairs": [...]}``, ``{"pairs": [...]}``, a list, one pair.

    Pairs have query, answer, source_span, source_type (of EVIDENCE_KINDS) and subject, and may have aliases; no other
    key, no empty text. One bad pair spoils the reply. Those beyond ``max_pairs`` are dropped and counted. Skip for the
    word SKIP, alone or with a reason, for ``{"skip": reason, "pairs": []}``, and (``no_pairs``) for an empty list. JSON
    may stand in a code block, after thoughts or prose, if it is the only JSON there.
    """
    found = _pairs(reply, max_pairs, _raw_pair)
    return Generated(*found) if isinstance(found, tuple) else found


def parse_text_pairs(reply: str, max_pairs: int) -> GeneratedText | Skip | None:
    """The questions of a reply about a passage: forms as ``parse_pairs`` reads them, pairs of query and source_span."""
    found = _pairs(reply, max_pairs, _raw_text_pair)
    return GeneratedText(*found) if isinstance(found, tuple) else found


def parse_naturalness(reply: str) -> int | None:
    """A score of 1 to 5: ``4``, ``4/5``, ``Score: 4``, ``{"score": 4}``, with an explanation or not."""
    return _SCORES.read(reply)


def parse_answer(reply: str) -> str | None:
    """The short answer of a reply, on one line, as written; CANNOT_ANSWER, however written, as that word.

    ``{"answer": ...}``, a line ``Answer: ...`` (the only one), or the whole reply if it is one paragraph.
    """
    text = visible_text(reply)
    if not text:
        return None
    if _CANNOT.read(reply) is not None:
        return None if _GIVES_ONE.search(plain(text)) else CANNOT_ANSWER
    try:
        found = reply_json.find(without_fences(text))
    except reply_json.NotJson:
        return None
    answer = _plain_answer(text) if found is None else _json_answer(found.value)
    if answer is None or not 0 < len(answer) <= _MAX_ANSWER or not _sound(answer) or _speaks_twice(answer):
        return None
    return answer


def skip_reason(text: str) -> str:
    """The one of SKIP_REASONS that a model's own words mean; ``other`` for none, ``no_reason`` for no words."""
    words = " ".join(re.split(r"[\s_-]+", plain(text).lower())).strip(" .")
    if not words:
        return NO_REASON
    if words.replace(" ", "_") in SKIP_REASONS:
        return words.replace(" ", "_")
    matching = [reason for reason, pattern in _SKIP_WORDS.items() if re.search(pattern, words)]
    return matching[0] if len(matching) == 1 else "other"


def _pairs(
    reply: str, max_pairs: int, read: Callable[[Any], T | None]
) -> tuple[tuple[T, ...], dict[str, int]] | Skip | None:
    if max_pairs < 1:
        raise ValueError(f"max_pairs: wanted 1 or more, found {max_pairs}")
    text = visible_text(reply)
    if text is None:
        return None
    try:
        found = reply_json.find(without_fences(text))
    except reply_json.NotJson:
        return None
    if found is None:
        return _said_skip(text)
    if any(_SKIP.match(line) for part in (found.before, found.after) for line in plain_lines(part)):
        return None
    listed = _listed(found.value)
    if listed is None or isinstance(listed, Skip):
        return listed
    pairs = [read(item) for item in listed]
    good = tuple(pair for pair in pairs if pair is not None)
    if len(good) < len(pairs):
        return None
    over = len(good) - max_pairs
    return good[:max_pairs], {OVER_MAX_PAIRS: over} if over > 0 else {}


def _said_skip(text: str) -> Skip | None:
    lines = plain_lines(text)
    said = _SKIP.fullmatch(" ".join(lines)) if lines and _SKIP.match(lines[0]) else None
    return Skip(skip_reason(said["why"] or said["bracketed"] or "")) if said else None


def _listed(value: Any) -> list[Any] | Skip | None:
    """The items of a reply's JSON, or the skip it says."""
    if isinstance(value, list):
        return value or Skip(NO_PAIRS)
    if not isinstance(value, dict):
        return None
    if "query" in value:
        return [value]
    if not value or not set(value) <= {"pairs", "skip", "reason"}:
        return None
    pairs, skip, reason = value.get("pairs", []), value.get("skip"), value.get("reason", "")
    if not isinstance(pairs, list) or not isinstance(reason, str):
        return None
    if skip is None or skip is False:
        return None if reason or "pairs" not in value else pairs or Skip(NO_PAIRS)
    if pairs or not (skip is True or isinstance(skip, str)):
        return None
    return Skip(skip_reason(reason if skip is True else skip))


def _raw_pair(value: Any) -> RawPair | None:
    texts = _texts(value, ("query", "answer", "source_span", "source_type", "subject"), optional="aliases")
    if texts is None or texts["source_type"] not in EVIDENCE_KINDS:
        return None
    aliases = value.get("aliases", [])
    if not isinstance(aliases, list) or not all(isinstance(alias, str) and _sound(alias) for alias in aliases):
        return None
    known = (" ".join(alias.split()) for alias in aliases)
    distinct = tuple(dict.fromkeys(alias for alias in known if alias and alias != texts["answer"]))
    return RawPair(aliases=distinct, **texts)


def _raw_text_pair(value: Any) -> RawTextPair | None:
    texts = _texts(value, ("query", "source_span"))
    return None if texts is None else RawTextPair(**texts)


def _texts(value: Any, keys: tuple[str, ...], optional: str | None = None) -> dict[str, str] | None:
    """The texts under ``keys``, blanks collapsed but in a span; None if one is missing, empty or unknown."""
    if not isinstance(value, dict) or set(value) - {optional} != set(keys):
        return None
    texts: dict[str, str] = {}
    for key in keys:
        text = value[key]
        if not isinstance(text, str) or not _sound(text) or not text.strip():
            return None
        texts[key] = text.strip() if key == "source_span" else text if key == "source_type" else " ".join(text.split())
    return texts


def _sound(text: str) -> bool:
    """No lone surrogates (no UTF-8 for them) and no control characters but blanks."""
    return not any("\ud800" <= c <= "\udfff" or (c < " " and c not in "\t\n\r\f\v") or c == "\x7f" for c in text)


def _json_answer(value: Any) -> str | None:
    if isinstance(value, list) and len(value) == 1:
        value = value[0]
    if isinstance(value, dict):
        names = ("answer", "final_answer", "short_answer")
        found = {str(item) for key, item in value.items() if key.lower() in names and _is_scalar(item)}
        value = found.pop() if len(found) == 1 else None
    if not isinstance(value, str):
        return None
    return CANNOT_ANSWER if _CANNOT.read(value) else " ".join(value.split())


def _is_scalar(value: Any) -> bool:
    return isinstance(value, (str, int, float)) and not isinstance(value, bool)


def _plain_answer(text: str) -> str | None:
    """The answer of the only line that names one, or the whole text if nothing stands apart from it."""
    lines = [line.strip() for line in without_fences(text).splitlines()]
    named = [line for line in map(_unbold, lines) if _ANSWER_NAME.match(plain_line(line))]
    if named:
        answers = {_unbold(_ANSWER_NAME.sub("", _without_bold(line), count=1)) for line in named}
        return answers.pop() if len(answers) == 1 else None
    whole = "\n".join(lines).strip()
    return None if re.search(r"\n\s*\n", whole) else _unbold(" ".join(whole.split()))


def _without_bold(line: str) -> str:
    """``line`` without markdown around the name of an answer: ``**Answer:** Paris``, ``- Answer: Paris``."""
    return re.sub(r"\A[\s>#*_`-]*((?:\w+\s){0,3}answer(?:\sis)?)[*_`]*\s?([:=]|->)[*_`]*", r"\1\2", line, flags=re.I)


def _unbold(text: str) -> str:
    """``text`` without emphasis, quotes or brackets around the whole of it."""
    text = text.strip()
    if quoted := _QUOTED.match(text):
        return (quoted[1] or quoted[2] or quoted[3] or "").strip()
    bold = _BOLD.match(text)
    return unwrapped(bold[2].strip() if bold else text) if text[:1] not in "([{" else text


def _speaks_twice(answer: str) -> bool:
    """Whether the answer also says that there's none."""
    return answer != CANNOT_ANSWER and re.search(r"\bCANNOT[ _-]?ANSWER\b", plain(answer)) is not None


_CANNOT_WORDS = rf"(?:(?:I )?{word('CAN NOT ANSWER')}|(?:I )?CAN'T ANSWER)"
_CANNOT = ChoiceReader(Choices(labels=(Label(_CANNOT_WORDS, CANNOT_ANSWER),), polarity={CANNOT_ANSWER: Polarity.NONE}))
_SCORES = ChoiceReader(
    Choices(
        labels=tuple(
            Label(
                rf"{score}(?:\.0)?(?:\s?/\s?5|\sout of\s5)?(?![0-9])",
                score,
                capitals=rf"(?:{score}/5|{score} out of 5|(?:a|of|rated?|score:) {score})",
            )
            for score in range(1, 6)
        ),
        polarity={},
        names=("naturalness", "naturalness score", "natural"),
    )
)
