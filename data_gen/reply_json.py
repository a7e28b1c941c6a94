"""Strict JSON in replies: every key once, no NaN, bounded depth."""

import json
import re
from dataclasses import dataclass
from typing import Any

MAX_DEPTH = 32
_OPENS = re.compile(r"\{\s*[\"'}]|\[\s*[{\"]")  # [1] or [sic] in prose isn't JSON
_SCALARS = re.compile(r"\[[\s0-9a-z,.-]*\]")  # [true, false]: JSON if there's nothing else
_STRING = re.compile(r'"(?:[^"\\]|\\.)*+\\?(?:"|\Z)', re.DOTALL)  # runs to the end if nothing closes it: one pass


class NotJson(ValueError):
    """A text that isn't one JSON value, or one that says two things (a key twice, with two values)."""


@dataclass(frozen=True)
class Found:
    """The JSON value in a text, and what stands around it."""

    before: str
    value: Any
    after: str


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for key, value in pairs:
        if key in found and (type(found[key]), found[key]) != (type(value), value):
            raise NotJson(f"key {key!r} has two values")
        found[key] = value
    return found


def _no_constant(name: str) -> Any:
    raise NotJson(f"{name} isn't JSON")


_DECODER = json.JSONDecoder(object_pairs_hook=_once, parse_constant=_no_constant, strict=False)


def load(text: str) -> Any:
    """The JSON value that ``text`` is. Raises NotJson."""
    text = text.strip()
    value, end = _decode(text, 0)
    if end != len(text):
        raise NotJson("text after the value")
    return value


def find(text: str) -> Found | None:
    """The one object or array in ``text``; None if there's none. Raises NotJson if it's broken or not alone."""
    text = text.strip()
    opening = _OPENS.search(text)
    if opening is None:
        return _scalars(text)
    if text.startswith("{'") and '"' not in text:  # a Python dict
        text = text.replace("'", '"')
    value, end = _decode(text, opening.start())
    if not isinstance(value, (dict, list)) or _OPENS.search(text, end):
        raise NotJson("more than one value")
    return Found(text[: opening.start()], value, text[end:])


def _scalars(text: str) -> Found | None:
    if _SCALARS.fullmatch(text) is None:
        return None
    try:
        return Found("", load(text), "")
    except NotJson:
        return None


def _decode(text: str, start: int) -> tuple[Any, int]:
    if _depth(text) > MAX_DEPTH:
        raise NotJson(f"nested deeper than {MAX_DEPTH}")
    try:
        return _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError) as error:  # ValueError: also NotJson, and integers of thousands of digits
        raise NotJson(str(error)) from None


def _depth(text: str) -> int:
    """How deep brackets nest at most, those in strings aside."""
    depth = deepest = 0
    for character in _STRING.sub("", text):
        depth += (character in "[{") - (character in "]}")
        deepest = max(deepest, depth)
    return deepest
