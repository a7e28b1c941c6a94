"""One label out of a closed set, read from a model's reply: harmless wrapping is fine, two readings are none.

A reply decides if all its lines that consist of a label (after a name such as ``Verdict:``, or bare at the start or
the end) agree, and the text around them neither states another thing nor takes it back. Or it is one JSON object with
the label under such a name. Labels inside a sentence are never searched for.
"""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

from tilewright.data_gen import reply_json
from tilewright.data_gen.reply_claims import Polarity, contradicts, leaves_doubt, quotes
from tilewright.data_gen.reply_text import plain, plain_line, plain_lines, unwrapped, visible_text, without_fences

T = TypeVar("T")

_BLOCKING = ("verdict", "label", "grade", "ruling", "classification")  # what stands there must be a label
_NAMES = (
    *(*_BLOCKING, "judgement", "judgment", "decision", "answer", "result", "response", "reply", "output", "conclusion"),
    *("evaluation", "assessment", "correctness", "category", "class", "choice", "option", "judge", "assistant"),
    *("status", "final", "score", "rating", "letter"),
)
_IS = re.compile(  # "The verdict is CORRECT."; never "The answer is correct", which says something else
    rf"(?P<name>(?:(?:my|the|our|so|final|overall)\s+){{0,3}}(?:{'|'.join(_BLOCKING)}))\s+is\s+(?=\w)", re.IGNORECASE
)
_SEPARATOR = r"\s*[:=|>-]+\s*"
_END = re.compile(r"\s*(?:\.|!+|,|;)?\s*")
_EXPLAINED = re.compile(
    r"(?:(?:[.!;]|:)\s+|\s+(?:-+|:)\s+|\s*->\s*)(?P<why>\S.*)|\s*[.:]?\s*\((?P<bracketed>[^()]+)\)\.?", re.DOTALL
)
_MARKS = {**dict.fromkeys("✅✔☑👍", Polarity.RIGHT), **dict.fromkeys("❌✗✘✖👎", Polarity.WRONG)}
_MARK = re.compile(rf"\A([{''.join(_MARKS)}])\ufe0f?\s*|\s*([{''.join(_MARKS)}])\ufe0f?\Z")
_XML = re.compile(rf"<(/?)\s*({'|'.join(_NAMES)}|reason|explanation|justification|rationale)\s*>", re.IGNORECASE)
_ENDS = re.compile(r"[.!)\]\"']\Z")


@dataclass(frozen=True)
class Label(Generic[T]):
    """A way to say ``value``: ``pattern`` is a regular expression of the whole of it, in any case.

    ``explains``: whether an explanation may follow on the same line. ``alone``: its words in capitals, by which
    prose is searched for another label.
    """

    pattern: str
    value: T
    explains: bool = True
    capitals: str | None = None


@dataclass(frozen=True)
class Choices(Generic[T]):
    """A closed set of labels; ``names``: what may stand before one, besides verdict, answer and their like."""

    labels: Sequence[Label[T]]
    polarity: Mapping[T, Polarity]
    names: tuple[str, ...] = ()

    def name_pattern(self) -> str:
        nouns = "|".join(sorted({*_NAMES, *self.names}, key=len, reverse=True))
        return (
            r"(?:(?:sure|ok|okay|certainly)[,.!]*\s+)?(?:(?:here is|here's|so|thus|therefore|hence),?\s+"
            r"|based on [^,.:?!]{1,60},\s+)?"
            rf"(?:(?:my|the|our|final|overall|short)\s+){{0,3}}(?:{nouns})"
            r"(?:\s*\((?:final|[0-9]\s*(?:-|to)\s*[0-9])\))?"
        )


@dataclass(frozen=True)
class _Said(Generic[T]):
    value: T
    named: bool
    why: str = ""


@dataclass(frozen=True)
class _Name:
    """A line that names a label and leaves it to the next line."""

    blocking: bool


class Undecided(Exception):
    """The reply names a verdict and gives none of the set, or speaks with two tongues."""


def word(text: str) -> str:
    """The pattern of a label of one or several words, with blanks, hyphens or underscores between them, or nothing."""
    return r"[ _-]*".join(re.escape(part) for part in text.split())


class ChoiceReader(Generic[T]):
    """Reads replies that choose one of ``choices``."""

    def __init__(self, choices: Choices[T]) -> None:
        self._choices = choices
        self._labels = [(re.compile(label.pattern, re.IGNORECASE | re.ASCII), label) for label in choices.labels]
        self._name = re.compile(
            rf"(?P<name>{choices.name_pattern()})(?:(?:\s+is)?{_SEPARATOR}|\Z)", re.IGNORECASE | re.ASCII
        )
        self._keys = {_snake(name) for name in (*_NAMES, *choices.names)}
        self._keys |= {f"final_{name}" for name in self._keys}
        shouted = "|".join(rf"(?P<_{i}>{x.capitals})" for i, x in enumerate(choices.labels) if x.capitals)
        self._shouted = re.compile(rf"(?<![A-Za-z0-9_])(?:{shouted})(?![A-Za-z0-9_])") if shouted else None

    def read(self, reply: str) -> T | None:
        """The label ``reply`` decides for; None if it decides for none, for two, or doubtfully. Never raises."""
        text = visible_text(reply)
        if text is None:
            return None
        try:
            found = reply_json.find(without_fences(text if '"' in text else plain(text)))
            return self._of_lines(text) if found is None else self._of_json(found)
        except (Undecided, reply_json.NotJson):
            return None

    def _of_lines(self, text: str) -> T | None:
        lines = plain_lines(_XML.sub(_named_line, text))
        if "~~" in without_fences(text):
            return None
        said = self._statements(lines)
        if not said:
            return None
        value, first = self._one(said.values()), min(said)
        self._check(said, lines)
        if not said[first].named:
            first = -1  # all the prose must leave it in peace
        prose = [line for index, line in enumerate(lines) if index not in said and not self._is_name(line)]
        after = [line for index, line in enumerate(lines) if index > first and index not in said]
        after += [statement.why for statement in said.values() if statement.why]
        polarity = self._choices.polarity.get(value)
        if self._other_label("\n".join([*prose, *after]), value) or contradicts("\n".join(prose), polarity):
            return None
        return None if leaves_doubt("\n".join(after), polarity) else value

    def _statements(self, lines: Sequence[str]) -> dict[int, _Said[T]]:
        """{line: what it says} of all lines that consist of a label. Raises Undecided if a name stands without one."""
        said: dict[int, _Said[T]] = {}
        waiting: _Name | None = None
        for index, line in enumerate(lines):
            read = self._line(line)
            if isinstance(read, _Said):
                said[index] = _Said(read.value, read.named or waiting is not None, read.why)
            elif waiting is not None and waiting.blocking:
                raise Undecided
            waiting = read if isinstance(read, _Name) else None
        if waiting is not None and waiting.blocking:
            raise Undecided
        return said

    def _check(self, said: Mapping[int, _Said[T]], lines: Sequence[str]) -> None:
        """A label without a name must begin the reply or stand after a finished sentence, else it's part of prose."""
        for index, statement in said.items():
            before = lines[index - 1] if index else ""
            if before.endswith(":") and not self._is_name(before) and quotes(before):
                raise Undecided
            if not (statement.named or index == 0 or index - 1 in said or _ENDS.search(before)):
                raise Undecided

    def _is_name(self, line: str) -> bool:
        return isinstance(self._line(line), _Name)

    def _line(self, line: str) -> _Said[T] | _Name | None:
        """What one plain line says. Raises Undecided if it names a verdict that isn't one of the set."""
        if line.startswith("|") and line.endswith("|"):  # a row of a table
            line = line.strip("| ")
        named = self._name.match(line) or _IS.match(line)
        if named is None:
            return self._label(line, named=False)
        rest = unwrapped(line[named.end() :].strip())
        blocking = any(name in named["name"].lower() for name in _BLOCKING)
        if not rest:
            return _Name(blocking)
        said = self._label(rest, named=True)
        if said is None and blocking:
            raise Undecided
        return said

    def _label(self, text: str, *, named: bool) -> _Said[T] | None:
        text, mark = _unmarked(unwrapped(text))
        for pattern, label in self._labels:
            begins = pattern.match(text)
            if begins is None:
                continue
            rest = text[begins.end() :]
            explained = _EXPLAINED.fullmatch(rest) if label.explains else None
            why = (explained["why"] or explained["bracketed"]) if explained else ""
            if not (_END.fullmatch(rest) or len(why.split()) > 1):
                continue
            if mark is not None and self._choices.polarity.get(label.value) is not mark:
                raise Undecided
            if why and self._label(why, named=False) is not None:  # "CORRECT: WRONG", "Wrong. Correct. Sorry."
                raise Undecided
            return _Said(label.value, named, why)
        return None

    def _one(self, statements: Iterable[_Said[T]]) -> T:
        values = list(dict.fromkeys(statement.value for statement in statements))
        if len(values) != 1:
            raise Undecided
        return values[0]

    def _other_label(self, text: str, value: T) -> bool:
        """Whether ``text`` holds a label in capitals that says something else than ``value``."""
        if self._shouted is None:
            return False
        names = (match.lastgroup or "" for match in self._shouted.finditer(text))
        return any(self._choices.labels[int(name[1:])].value != value for name in names)

    def _of_json(self, found: reply_json.Found) -> T | None:
        value = found.value[0] if isinstance(found.value, list) and len(found.value) == 1 else found.value
        if isinstance(value, str):
            value = {"verdict": value}
        if not isinstance(value, dict):
            return None
        decided = self._one(self._json_statements(value))
        polarity = self._choices.polarity.get(decided)
        before, after = (plain_lines(text) for text in (found.before, found.after))
        outside = [self._statements(lines) for lines in ([x for x in before if not self._is_name(x)], after)]
        self._one([_Said(decided, named=True), *(said for some in outside for said in some.values())])
        quoted = before[-1:] and not self._is_name(before[-1]) and quotes(before[-1])
        if quoted or leaves_doubt("\n".join(after), polarity):
            return None
        texts = [*before, *after, *_texts(value, self._keys)]
        if any(contradicts(text, polarity) or self._other_label(text, decided) for text in texts):
            return None
        flags = [item for key, item in value.items() if _snake(key) in ("correct", "is_correct")]
        return decided if all(flag is (polarity is Polarity.RIGHT) for flag in flags) else None

    def _json_statements(self, value: Mapping[str, Any]) -> Iterator[_Said[T]]:
        for key, item in value.items():
            text = _scalar(item)
            if _snake(key) in self._keys:
                said = None if text is None else self._line(plain_line(text))
                if isinstance(said, _Said):
                    yield said
                elif _snake(key).removeprefix("final_") in _BLOCKING:
                    raise Undecided


def _scalar(value: Any) -> str | None:
    if isinstance(value, str):
        return value
    return str(value) if isinstance(value, (int, float)) and not isinstance(value, bool) else None


def _texts(value: Any, labelled: set[str]) -> Iterator[str]:
    """All strings in ``value`` but those under a key that names a label."""
    if isinstance(value, str):
        yield plain(value)
    elif isinstance(value, list):
        for item in value:
            yield from _texts(item, set())
    elif isinstance(value, dict):
        for key, item in value.items():
            if _snake(key) not in labelled:
                yield from _texts(item, set())


def _snake(key: str) -> str:
    return re.sub(r"[ _-]+", "_", re.sub(r"(?<=[a-z])(?=[A-Z])", "_", key.strip())).lower()


def _named_line(tag: re.Match[str]) -> str:
    """``<verdict>`` as the start of a line ``verdict:``."""
    return "\n" if tag[1] else f"\n{tag[2]}: "


def _unmarked(text: str) -> tuple[str, Polarity | None]:
    """``text`` without a tick or cross before or after it, and what that says."""
    mark = _MARK.search(text)
    if mark is None:
        return text, None
    return _MARK.sub("", text).strip(), _MARKS[mark[1] or mark[2]]
