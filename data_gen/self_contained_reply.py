"""Which of n numbered questions a model calls self-contained: the strict reading of its reply."""

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from tilewright.data_gen import reply_json
from tilewright.data_gen.reply_claims import Polarity, leaves_doubt
from tilewright.data_gen.reply_text import plain, plain_line, unwrapped, visible_text, without_fences

Votes = dict[int, set[bool]]  # by number; both values: contradictory

_FLAGS = re.IGNORECASE | re.ASCII
_SELF_CONTAINED = r"self[ _-]*contained"
_NO = rf"(?:(?:is )?(?:not|non|isn't)[ _-]*{_SELF_CONTAINED}|no|n|false|drop|fail|[❌✗✘])"
_YES = rf"(?:(?:is )?{_SELF_CONTAINED}|yes|y|true|keep|pass|[✅✓✔])"
_VERDICT_NAMES = rf"{_SELF_CONTAINED}|verdict|final verdict|answer|judge?ment|decision|label|result|status|keep"
_WORD = re.compile(rf"(?:(?P<no>{_NO})|(?P<yes>{_YES}))\ufe0f?(?![\w'/-])", _FLAGS)
_NAME = re.compile(rf"(?:{_VERDICT_NAMES})(?: is)?\s?[?:=|>-]+\s*", _FLAGS)
_NUMBER = r"(?:(?:questions?|query|item|q|no\.?|nr\.?|number|№)\s?[:#]?\s?)?[(\[]?#?(?P<number>[0-9]{1,9})[)\]]?"
_ITEM = re.compile(rf"{_NUMBER}(?:\s?[.):=|,、>-]+\s?|\s|\Z)(?P<rest>.*)", _FLAGS)
_COMPACT = re.compile(
    rf"{_NUMBER}(?:\s?[.):=、>-]+\s?|\s)(?:(?P<no>{_NO})|(?P<yes>{_YES}))(?:\s?[,;|.]\s?|\s|\Z)", _FLAGS
)
_EXPLAINED = re.compile(r"(?P<mark>\s?[.,;:!|]\s|\s-+\s|\s?->\s?)(?P<why>\S.*)|\s?[.:]?\s?\((?P<bracketed>.+)\)\.?")
_TAKES_BACK = re.compile(
    r"(?:actually|correction|wait|hm+|oops|scratch that|sorry|on second thoughts?|on reflection)\b", _FLAGS
)
_AGREES = re.compile(
    rf"(?<!not )(?<!n't )(?<!non-)\b{_SELF_CONTAINED}\b|\A(?:yes|true|keep|pass)\b|\b(?:or|and) yes\b", _FLAGS
)
_DENIES = re.compile(
    rf"\b(?:not|n't|non|never)[ _-](?:\w+ )?{_SELF_CONTAINED}\b"
    r"|\b(?:or|and) no\b|\bunexplained\b|\blacks?\b|\bmissing\b|\bdrop\b|\bfail",
    _FLAGS,
)
_HEDGES = re.compile(
    r"\b(?:actually|wait|on second thoughts?|correction|maybe|perhaps|probably|not sure|unsure|i think)\b", _FLAGS
)
_RULE = re.compile(r"[\s|:-]+\Z")

_IDS = frozenset(
    {"id", "index", "number", "n", "no", "item", "item_id", "question", "question_id", "question_number", "q", "#"}
)
_VERDICTS = frozenset({"self_contained", "is_self_contained", "selfcontained", "verdict", "answer", "label"})
_VERDICTS |= {"decision", "result", "judgement", "judgment", "keep", "pass", "status"}
_KEY = re.compile(r"(?:q|question|item|#)?[ _-]*([0-9]{1,9})", _FLAGS)


def parse_self_contained(reply: str, n: int) -> list[bool | None]:
    """For each of ``n`` questions, numbered from 1, whether ``reply`` calls it self-contained; length ``n``.

    None: not mentioned, contradictory, or hedged. Words, in any case: yes, y, true, self-contained, keep, pass, ✅ ✓ ✔;
    no, n, false, not self-contained, drop, fail, ❌ ✗ ✘; a reason may follow. Read are lines ``1. YES``, ``[2] no``,
    ``Question 3: KEEP``, ``1: yes, 2: no``, a verdict under its number, markdown tables, JSON lists and lines of
    objects ``{"id": 1, "self_contained": true}``, objects ``{"1": true}``, and arrays of exactly ``n`` verdicts.
    Numbers beyond 1..n are ignored, but a reply that counts 0..n-1 is None throughout; so are ranges (``1-3: yes``).
    Without a number only if ``n`` is 1. Never raises but ValueError for ``n`` < 0.
    """
    if n < 0:
        raise ValueError(f"parse_self_contained: n must be 0 or more, found {n}")
    text = visible_text(reply)
    votes: Votes = {}
    if text is not None and "~~" not in without_fences(text):
        try:
            votes = _votes(text, n)
        except reply_json.NotJson:
            votes = {}
    if set(votes) == set(range(n)):
        votes = {}
    return [next(iter(votes[i])) if len(votes.get(i, ())) == 1 else None for i in range(1, n + 1)]


def _votes(text: str, n: int) -> Votes:
    text = without_fences(text if '"' in text else plain(text))
    votes: Votes = defaultdict(set)
    prose = text
    try:
        found = reply_json.find(text)
        values = [] if found is None else [found.value]
        prose = text if found is None else f"{found.before}\n{found.after}"
    except reply_json.NotJson:  # perhaps a value a line
        values, prose = [reply_json.load(line.strip().rstrip(",")) for line in text.splitlines() if line.strip()], ""
    for value in values if len(values) < 2 else [values]:
        for number, verdict in _json_votes(value, n):
            votes[number] |= verdict
    lines = [line for line in (plain_line(raw, numbers=True) for raw in plain(prose).splitlines()) if line]
    if any(_TAKES_BACK.match(line) for line in lines):
        return {}
    for number, verdict in _line_votes(lines):
        votes[number] |= verdict
    if n == 1 and not votes:
        votes[1] = _single(lines)
    return {number: verdict for number, verdict in votes.items() if verdict}


def _line_votes(lines: Sequence[str]) -> Iterator[tuple[int, set[bool]]]:
    """(number, what is said of it) of lines ``1. YES``, of tables, and of verdicts that stand under their number."""
    current: int | None = None
    bare = False  # whether the line before is nothing but a number
    table: list[list[str]] = []
    for line in lines:
        if line.startswith("|"):
            table.append([plain_line(cell, numbers=True) for cell in line.strip().removesuffix("|")[1:].split("|")])
            continue
        compact = _compact(line)
        item = None if compact else _ITEM.fullmatch(line)
        yield from compact
        if item is not None:
            current, bare = int(item["number"]), not item["rest"].strip()
            yield current, _verdict(item["rest"])
            continue
        if current is not None and not compact and (bare or _NAME.match(line)):
            yield current, _verdict(line)
        bare = False
    yield from _table_votes(table)


def _compact(line: str) -> list[tuple[int, set[bool]]]:
    """The items of a line that consists of several, ``1. YES 2. NO``; none if it's anything else."""
    items, end = [], 0
    while (item := _COMPACT.match(line, end)) is not None:
        items.append((int(item["number"]), {item["yes"] is not None}))
        end = item.end()
    return items if len(items) > 1 and end == len(line) else []


def _table_votes(rows: Sequence[Sequence[str]]) -> Iterator[tuple[int, set[bool]]]:
    """Rows of a markdown table: number first, verdict in the column so named, or in any column if there's no head."""
    head = rows[0] if len(rows) > 1 and all(_RULE.match(cell) for cell in rows[1] if cell) else None
    columns = [i for i, cell in enumerate(head or ()) if _snake(cell) in _VERDICTS]
    for row in rows[2:] if head else rows:
        number = re.fullmatch(_NUMBER + r"[.:]?", row[0], _FLAGS) if row else None
        if number is None:
            continue
        if head is None:
            said = [_verdict(cell) for cell in row[1:] if _WORD.fullmatch(cell.rstrip(".!"))]
            yield int(number["number"]), set().union(*said)
        elif len(columns) == 1 and len(row) == len(head):
            yield int(number["number"]), _verdict(row[columns[0]])


def _verdict(text: str) -> set[bool]:
    """What ``text`` says, with a name before and a reason behind: {True}, {False}, nothing, or both: contradictory."""
    text = unwrapped(text.strip())
    named = _NAME.match(text)
    if named is not None and (said := _verdict_word(text[named.end() :])):
        return said
    return _verdict_word(text)


def _verdict_word(text: str) -> set[bool]:
    text = unwrapped(text.strip())
    word = _WORD.match(text)
    if word is None:
        return set()
    says, rest = word["yes"] is not None, text[word.end() :]
    if re.fullmatch(r"\s?[.!,;]?", rest):
        return {says}
    explained = _EXPLAINED.fullmatch(rest)
    if explained is None:
        return set()
    why = explained["why"] or explained["bracketed"]
    asks = (explained["mark"] or "").strip() == "," and why.endswith("?")  # "No, who won?" is a question
    return {True, False} if asks or _turns(why, says) else {says}


def _turns(why: str, says: bool) -> bool:
    """Whether a reason speaks against its verdict, takes it back, or is a verdict on another item."""
    item = _ITEM.fullmatch(why)
    if (item is not None and _WORD.match(item["rest"])) or _HEDGES.search(why):
        return True
    if says:
        return leaves_doubt(why, Polarity.RIGHT) or _DENIES.search(why) is not None
    return _AGREES.search(why) is not None


def _single(lines: Sequence[str]) -> set[bool]:
    """What a reply about one question says without numbering it."""
    said: set[bool] = set()
    for index, line in enumerate(lines):
        if index == 0 or _NAME.match(line) or _WORD.fullmatch(line.rstrip(".!")):
            said |= _verdict(line)
        elif len(said) == 1 and _turns(line, next(iter(said))):
            said = {True, False}
    return said


def _json_votes(value: Any, n: int) -> Iterator[tuple[int, set[bool]]]:
    """(number, what is said of it) in a JSON value."""
    if isinstance(value, list):
        yield from _list_votes(value, n)
    elif isinstance(value, dict):
        keys = {key: _KEY.fullmatch(key.strip()) for key in value}
        nested = [item for item in value.values() if isinstance(item, (list, dict))]
        number, said = _number(value), _json_verdict(value)
        if number is not None:
            yield number, said
        elif value and all(keys.values()):
            for key, match in keys.items():
                yield int(match[1]) if match else 0, _json_verdict(value[key])
        elif len(nested) == 1 and not said:
            yield from _json_votes(nested[0], n)
        elif n == 1 and not nested:
            yield 1, said


def _list_votes(values: Sequence[Any], n: int) -> Iterator[tuple[int, set[bool]]]:
    """Objects with their numbers, or exactly ``n`` verdicts in the order of the questions."""
    numbers = [_number(value) if isinstance(value, dict) else None for value in values]
    if all(number is None for number in numbers):
        if len(values) == n:
            yield from ((i, _json_verdict(value)) for i, value in enumerate(values, start=1))
        return
    for number, value in zip(numbers, values, strict=True):
        if number is not None:
            yield number, _json_verdict(value)


def _number(value: Mapping[str, Any]) -> int | None:
    """The one number under a key such as ``id``."""
    found = set()
    for key, item in value.items():
        if _snake(key) in _IDS:
            match = _KEY.fullmatch(str(item).strip()) if isinstance(item, (int, str)) and item is not True else None
            found |= {int(match[1])} if match else set()
    return found.pop() if len(found) == 1 else None


def _json_verdict(value: Any) -> set[bool]:
    if isinstance(value, bool):
        return {value}
    if isinstance(value, str):
        return _verdict(plain_line(plain(value)))
    if not isinstance(value, dict):
        return set()
    said: set[bool] = set().union(*(_json_verdict(item) for key, item in value.items() if _snake(key) in _VERDICTS))
    reasons = [
        item for key, item in value.items() if isinstance(item, str) and _snake(key) in ("reason", "explanation")
    ]
    if len(said) == 1 and any(_turns(reason, next(iter(said))) for reason in reasons):
        return {True, False}
    return said


def _snake(key: str) -> str:
    return re.sub(r"[ _-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip().rstrip("?"))).lower()
