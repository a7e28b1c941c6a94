"""Infobox templates as a real ``<table class="infobox">`` with readable labels; lists and dates stay as they are."""

import re
from html import escape
from typing import Any

from tilewright.data_gen.sources.infobox_labels import HIDDEN, MERGED, TITLE_KEYS, readable_label
from tilewright.data_gen.sources.templates import Renderer, normal_name

_INFOBOX = re.compile(r"(?:infobox|geobox|chembox|drugbox)\b.*|(?:automatic |auto|species|sub|)taxobox")
_PAIRS = (  # parameter with the label -> parameter with the value
    (re.compile(r"(.*)_title(\d*)"), ("{}_name{}", "{}{}")),
    (re.compile(r"(.*)_event(\d*)"), ("{}_date{}",)),
    (re.compile(r"(.*)label(\d*)"), ("{}data{}", "{}info{}")),
    (re.compile(r"(blank\d*)_name(.*)"), ("{}_info{}",)),
    (re.compile(r"(.*?)_?type(\d*)"), ("{}{}",)),
)
_QUALIFIERS = ("_year", "_as_of", "_date")
_PICTURE_VALUE = re.compile(r"\S[^<>|\n]*\.(?:jpe?g|png|svg|gif|ogg|tiff?|webm)", re.IGNORECASE)
_NOTHING = frozenset(("", "-", "–", "—", "n/a", "none"))
Rows = list[tuple[str, str]]


def is_infobox(name: str) -> bool:
    """Whether a template of this (normal) name is an infobox."""
    return _INFOBOX.fullmatch(name) is not None


def to_table(node: Any, renderer: Renderer) -> str:
    """The infobox as HTML, "" if none of its parameters shows anything. An infobox inside a value gives rows of it."""
    values, nested = _values(node, renderer)
    title = next((values.pop(key) for key in TITLE_KEYS if values.get(key)), "") or escape(renderer.title, quote=False)
    rows = _rows(values) + nested
    if not rows:
        return ""
    lines = [
        f"<tr><th>{label}</th><td>{_block(value)}</td></tr>" if value else f'<tr><th colspan="2">{label}</th></tr>'
        for label, value in rows
    ]
    head = f'<tr><th colspan="2" class="infobox-title">{_one_line(title)}</th></tr>'
    return "\n".join(["", '<table class="infobox">', head, *lines, "</table>", ""])


def _values(node: Any, renderer: Renderer) -> tuple[dict[str, str], Rows]:
    """({parameter: rendered value} of what is to be shown, in the wikitext's order; rows of infoboxes in values)."""
    values: dict[str, str] = {}
    nested: Rows = []
    for param in node.params:
        key = re.sub(r"(?<=[a-z])(?=[A-Z][a-z])", "_", str(param.name).strip())
        key = normal_name(key).replace(" ", "_").replace("-", "_")
        inner = [box for box in param.value.filter_templates(recursive=False) if is_infobox(_name(box))]
        for box in inner:
            inner_values, inner_nested = _values(box, renderer)
            rows = _rows(inner_values) + inner_nested
            nested += [(readable_label(key), ""), *rows] if rows else []
        if inner or key.isdigit() or HIDDEN.fullmatch(key):
            continue
        value = renderer.render(param.value).strip()
        if value.lower() not in _NOTHING and not _PICTURE_VALUE.fullmatch(value):
            values[key] = value
    return values, nested


def _name(template: Any) -> str:
    return normal_name(str(template.name.strip_code()))


def _rows(values: dict[str, str]) -> Rows:
    """(label, value) in order; used-up parameters are taken out of ``values``."""
    if values.get("largest_city", "").lower() == "capital":
        values["largest_city"] = values.get("capital", "")
    rows: Rows = []
    while values:
        key = next(iter(values))
        for suffix in _QUALIFIERS:  # a year that stands before its figure
            if key.endswith(suffix) and key.removesuffix(suffix) in values:
                key = key.removesuffix(suffix)
        row = _merged(key, values) or _paired(key, values) or _plain(key, values)
        if row[1]:
            rows.append(row)
    return rows


def _plain(key: str, values: dict[str, str]) -> tuple[str, str]:
    value = values.pop(key)
    year = next((values.pop(key + suffix) for suffix in _QUALIFIERS if key + suffix in values), "")
    return readable_label(key), f"{value} ({year})" if year else value


def _merged(key: str, values: dict[str, str]) -> tuple[str, str] | None:
    for label, keys in MERGED.items():
        if key in keys:
            return label, "<br>".join(values.pop(part) for part in keys if part in values)
    return None


def _paired(key: str, values: dict[str, str]) -> tuple[str, str] | None:
    """A row whose label stands in one parameter and whose value in another."""
    for pattern, targets in _PAIRS:
        match = pattern.fullmatch(key)
        names = [target.format(*match.groups()) for target in targets] if match else []
        found = next((name for name in names if name in values and name != key), None)
        if found is not None:
            label = _one_line(values.pop(key))
            return label[:1].upper() + label[1:], values.pop(found)
    return None


def _one_line(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()


def _block(value: str) -> str:
    """A cell's wikitext; lists and tables in it need lines of their own."""
    return f"\n{value}\n" if "\n" in value or value[:1] in "*#:;" else value
